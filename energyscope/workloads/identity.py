"""Whether token ids belong to a model: its tokenizer, vocabulary, task and classes, written down and compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from energyscope.errors import DataError, UsageError
from energyscope.loading import LoadedModel
from energyscope.reasons import Reason, reason
from energyscope.workloads.evaluation import Tokenized
from energyscope.workloads.limits import position_limit, vocabulary_size

# Cases in which tokenizers differ: capitals, accents, white space, digits, signs, other scripts, contractions.
_PROBES = (
    "The Tokens of a text",
    "  two  spaces,\ta tab\nand a line\n\n",
    "It's naïve, isn't it? -- 3.14159, 1234567 & 2026-01-01!",
    "déjà vu; Straße; Ωμέγα; 東京で; 🙂",
    "unbelievableness http://example.org/a_b?c=d",
)


def identity(loaded: LoadedModel) -> dict[str, Any]:
    """Return what makes token ids a model's, as plain data; ``classes`` is None for next-token prediction."""
    return {
        "name": loaded.name,
        "vocabulary_size": vocabulary_size(loaded),
        "classes": _classes(loaded) if loaded.adapter.task == "classification" else None,
        "tokenizer": tokenizer_fingerprint(loaded.tokenizer),
        "tokenizer_class": type(loaded.tokenizer).__name__,
    }


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """Return sixteen hex digits of a SHA-256 over a tokenizer's vocabulary and its ids of a few fixed texts.

    Of two tokenizers that differ in neither, either may have made the tokens of a text. The files of a tokenizer
    would not do: they change with the version of the library that writes them.
    """
    vocabulary = sorted((str(token), int(index)) for token, index in tokenizer.get_vocab().items())
    ids = [[int(index) for index in tokenizer(text, verbose=False)["input_ids"]] for text in _PROBES]
    return hashlib.sha256(json.dumps([vocabulary, ids]).encode()).hexdigest()[:16]


def check_identity(
    loaded: LoadedModel, tokenized: Tokenized, stored: Mapping[str, Any], folder: Path
) -> tuple[Reason, ...]:
    """Refuse examples that were tokenized for another kind of model; return notes of what could not be checked.

    ``stored`` is the `identity` of the model that they were tokenized for.

    Raises:
        DataError: the tokenizer, the vocabulary, the task or the classes differ.
        UsageError: an example is longer than the model's positions.

    """
    name, task = loaded.name, loaded.adapter.task
    again = f"prepare a set for {name} with `energyscope prepare`"
    if tokenized.task != task:
        raise DataError(f"{folder} was prepared for {tokenized.task}, and {name} is for {task}: {again}")
    notes = _check_tokenizer(loaded, stored, folder, again)
    largest = max(int(max(example.tokens)) for example in tokenized.examples)
    if largest >= vocabulary_size(loaded):
        raise DataError(f"{folder} holds the token {largest}, and {name} has {vocabulary_size(loaded)}: {again}")
    longest = max(len(example.tokens) for example in tokenized.examples)
    if longest > position_limit(loaded):
        raise UsageError(
            f"{folder} holds {longest} tokens in a row, and {name} has {position_limit(loaded)} positions: {again}"
        )
    if task == "classification":
        _check_classes(
            _classes(loaded), stored["classes"], f"{folder} was prepared for other classes than {name}'s"
        )
    return notes


def _check_tokenizer(
    loaded: LoadedModel, stored: Mapping[str, Any], folder: Path, again: str
) -> tuple[Reason, ...]:
    if loaded.tokenizer is not None:
        if tokenizer_fingerprint(loaded.tokenizer) != stored["tokenizer"]:
            raise DataError(
                f"{folder} was prepared with the tokenizer of {stored['name']}, not {loaded.name}'s: {again}"
            )
        return ()
    if vocabulary_size(loaded) != stored["vocabulary_size"]:
        raise DataError(
            f"{folder} was prepared for a vocabulary of {stored['vocabulary_size']} tokens, and {loaded.name} has "
            f"{vocabulary_size(loaded)}: {again}"
        )
    return (reason("tokens-not-checked", model=loaded.name, why=loaded.tokenizer_reason),)


def _classes(loaded: LoadedModel) -> list[str]:
    """Return the model's names for its classes, by index."""
    config: Any = loaded.model.config
    named = {int(index): str(name) for index, name in (config.id2label or {}).items()}
    return [named.get(index, f"LABEL_{index}") for index in range(config.num_labels)]


def _check_classes(own: list[str], stored: list[str], complaint: str) -> None:
    """Refuse another number of classes, and the same names in another order; names may differ otherwise."""
    first, second = ([name.lower() for name in names] for names in (own, stored))
    if len(first) != len(second) or (first != second and sorted(first) == sorted(second)):
        raise DataError(f"{complaint} ({', '.join(stored)}; {', '.join(own)}): prepare a set for this model")

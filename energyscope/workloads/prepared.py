"""Prepared sets: evaluation data that was tokenized once, saved in a folder, and is read without a tokenizer.

A folder holds ``examples.safetensors`` (all tokens in a row, and for each example its length, from where its
tokens count, its label and its place in the source) and ``prepared.json``, which names the source and the model.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from energyscope.errors import DataError, UsageError
from energyscope.failures import first_line
from energyscope.loading import LoadedModel
from energyscope.reasons import read, reason, words
from energyscope.tasks import padding_masks
from energyscope.workloads.evaluation import Evaluation, Example, Tokenized, examples_of
from energyscope.workloads.identity import check_identity, identity

FORMAT = 1
DOCUMENT = "prepared.json"
TENSORS = "examples.safetensors"
SIZES: dict[str, int | None] = {"small": 50, "standard": 500, "large": None}  # examples; None: all of the data


def is_prepared(folder: Path) -> bool:
    """Tell whether a folder is a prepared set, whole or damaged."""
    return (folder / DOCUMENT).is_file() or (folder / TENSORS).is_file()


def check_free(folder: Path) -> None:
    """Refuse a place where no prepared set can be saved, before anything is loaded.

    Raises:
        UsageError: something is there already, or the place cannot be written.

    """
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} exists: choose another --output, or remove it")
    parent = next(path for path in folder.absolute().parents if path.exists())
    try:
        with tempfile.TemporaryFile(dir=parent):
            return
    except OSError as error:
        raise _unwritable(folder, error) from error


def save_prepared(loaded: LoadedModel, evaluation: Evaluation, folder: Path, *, size: str | None = None) -> Path:
    """Save evaluation data as a prepared set, whole or not at all, and return its folder.

    ``size`` is the name of a size, for the record; `load_evaluation` with ``data=folder`` reads the set.

    Raises:
        UsageError: the folder exists or cannot be written.
        DataError: the model has no tokenizer, by which the set is identified.

    """
    check_free(folder)
    if evaluation.as_given:
        raise UsageError(f"{evaluation.source} holds tensors, which need no preparing: give the file with --data")
    if loaded.adapter.task not in {"next-token", "masked-token", "classification", "embedding"}:
        raise UsageError(f"{loaded.name} is for {loaded.adapter.task}: a prepared set holds one text an example")
    if loaded.tokenizer is None:
        why = words(loaded.tokenizer_reason)
        raise DataError(f"{loaded.name} has no tokenizer ({why}), by which a set is known")
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        digest = _write_tensors(examples_of(evaluation), partial / TENSORS)
        document = {**_document(loaded, evaluation), "size": size, "sha256": digest}
        (partial / DOCUMENT).write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
        partial.rename(folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _unwritable(folder: Path, error: OSError) -> UsageError:
    return UsageError(f"--output {folder} cannot be written ({error.strerror or error}): give another folder")


def read_prepared(
    loaded: LoadedModel, folder: Path, *, sequence_length: int | None = None, stride: int | None = None
) -> Tokenized:
    """Return the examples of a prepared set in the order of their source, where they fit the model.

    Raises:
        UsageError: the set was cut at another length or stride, or is longer than the model's positions.
        DataError: the set is damaged, from a newer version, or was prepared for a model of another tokenizer,
            vocabulary, task or classes.

    """
    document = _read_document(folder)
    try:
        tokenized = Tokenized(
            source=str(document["source"]),
            task=document["task"],
            examples=_read_examples(folder, document),
            notes=tuple(read(str(note)) for note in document["notes"]),
            sequence_length=_token_count_of(document["sequence_length"]),
            stride=_token_count_of(document["stride"]),
        )
        _check_cut(tokenized, folder, sequence_length, stride)
        notes = check_identity(loaded, tokenized, document["model"], folder)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(folder, f"{DOCUMENT}: {first_line(error)}") from error
    origin = reason("prepared-set", folder=folder, model=document["model"]["name"])
    return replace(tokenized, notes=(*tokenized.notes, origin, *notes))


def _check_cut(tokenized: Tokenized, folder: Path, sequence_length: int | None, stride: int | None) -> None:
    """Refuse to read a set at another length or stride than it was cut at: its texts are gone.

    Raises:
        UsageError: with what it was cut at.

    """
    options = {
        "--sequence-length": (sequence_length, tokenized.sequence_length),
        "--stride": (stride, tokenized.stride),
    }
    for option, (value, stored) in options.items():
        if value is not None and stored is not None and value != stored:
            raise UsageError(
                f"{folder} was prepared with {option} {stored}, not {value}: leave it out, or prepare another set"
            )


def _document(loaded: LoadedModel, evaluation: Evaluation) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "energyscope": importlib.metadata.version("energyscope-llm"),
        "source": evaluation.source,
        "task": evaluation.task,
        "digest": evaluation.digest,
        "examples": evaluation.examples,
        "tokens": token_count(evaluation),
        "sequence_length": evaluation.sequence_length,
        "stride": evaluation.stride,
        "notes": list(evaluation.notes),
        "model": identity(loaded),
    }


def token_count(evaluation: Evaluation) -> int:
    """Return how many tokens the examples have together, context of overlapping windows included."""
    return sum(int(padding_masks(batch)[0].sum()) for batch in evaluation.batches)


def _write_tensors(examples: list[Example], path: Path) -> str:
    """Write examples and return the SHA-256 of the file."""
    from safetensors.torch import save

    columns = {
        "ids": [token for example in examples for token in example.tokens],
        "lengths": [len(example.tokens) for example in examples],
        "counted_from": [example.counted_from for example in examples],
    }
    tensors = {name: torch.tensor(values, dtype=torch.int32) for name, values in columns.items()}
    optional = {
        "labels": [example.label for example in examples],
        "index": [example.index for example in examples],
    }
    for name, values in optional.items():
        if None not in values:
            tensors[name] = torch.tensor(values, dtype=torch.int64)
    path.write_bytes(save(tensors))  # its own writer keeps the file from everyone else on the machine
    return _digest(path)


def _read_document(folder: Path) -> dict[str, Any]:
    try:
        document = json.loads((folder / DOCUMENT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"{DOCUMENT} cannot be read: {first_line(error)}") from error
    if not isinstance(document, dict) or not isinstance(document.get("format"), int):
        raise _damaged(folder, f"{DOCUMENT} states no format")
    if document["format"] > FORMAT:
        by = document.get("energyscope", "a newer version")
        raise DataError(f"{folder} was prepared by energyscope {by}: update energyscope, or prepare it again")
    return document


def _read_examples(folder: Path, document: dict[str, Any]) -> list[Example]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / TENSORS
    try:
        if _digest(path) != document["sha256"]:
            raise _damaged(folder, f"{TENSORS} is not the file that was saved")
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise _damaged(folder, f"{TENSORS} cannot be read: {first_line(error)}") from error
    rows = tensors["ids"].split(tensors["lengths"].tolist())
    size = len(rows)
    if size != document["examples"]:
        raise _damaged(folder, f"{DOCUMENT} states {document['examples']} examples, and there are {size}")
    labels, indices = (
        tensors[name].tolist() if name in tensors else [None] * size for name in ("labels", "index")
    )
    columns = zip(rows, labels, tensors["counted_from"].tolist(), indices, strict=True)
    return [Example(ids.tolist(), label, start, index) for ids, label, start, index in columns]


def _token_count_of(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and value > 0):
        return value
    raise ValueError(f"{value!r} is not a number of tokens")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _damaged(folder: Path, why: str) -> DataError:
    return DataError(f"the prepared set {folder} is damaged ({why}): prepare it again, or copy it again")

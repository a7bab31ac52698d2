"""What stands before and after the model: text to ids, and ids to text, on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from energyscope.replay.calls import Call

Ids = Sequence[Sequence[int]]


def tokenizing(tokenizer: Any, prompts: Ids) -> tuple[Call, int]:
    """Return a call that tokenizes the text of prompts, and how many tokens it gives.

    The text is what the prompts' ids decode to; tokenized again, they may be another number.
    """
    texts = tokenizer.batch_decode(prompts, skip_special_tokens=True)

    def call() -> Any:
        return tokenizer(texts)

    return call, sum(len(ids) for ids in call()["input_ids"])


def detokenizing(tokenizer: Any, generated: Ids) -> tuple[Call, int]:
    """Return a call that turns generated ids into text, and how many ids these are."""

    def call() -> Any:
        return tokenizer.batch_decode(generated, skip_special_tokens=True)

    return call, sum(len(ids) for ids in generated)


WAYS: dict[str, Callable[[Any, Ids], tuple[Call, int]]] = {"tokenize": tokenizing, "detokenize": detokenizing}

"""Tokenize a model's evaluation data once and save them: `energyscope prepare`. No weights are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from energyscope.errors import UsageError, did_you_mean
from energyscope.loading.model import load_skeleton
from energyscope.reasons import Reason, reason
from energyscope.workloads.inputs import load_evaluation
from energyscope.workloads.prepared import SIZES, check_free, save_prepared, token_count


@dataclass(frozen=True)
class PreparedSet:
    """A set that was saved: where, how large on disk (bytes), and what is in it."""

    path: str
    model: str
    size: str
    examples: int
    tokens: int
    bytes_on_disk: int
    source: str
    task: str
    digest: str
    sequence_length: int | None
    stride: int | None
    notes: tuple[Reason, ...]


def prepare(  # noqa: PLR0913  each is an option of the command line
    model: str,
    output: Path,
    *,
    size: str = "standard",
    data: str | None = None,
    sequence_length: int | None = None,
    stride: int | None = None,
    text_column: str = "text",
    label_column: str = "label",
    trust_remote_code: bool = False,
    adapter: str | None = None,
) -> PreparedSet:
    """Tokenize evaluation data as `load_evaluation` does, and save them in the folder ``output``.

    ``size`` is small (50 examples, evenly spaced over the data), standard (500) or large (all).

    Raises:
        UsageError: an unknown size, ``output`` exists or cannot be written, or as `load_evaluation`.
        ModelError: the model's configuration cannot be read.
        DataError: as `load_evaluation`.

    """
    if size not in SIZES:
        raise UsageError(f"--size {size!r} is not known{did_you_mean(size, list(SIZES))}")
    check_free(output)
    loaded = load_skeleton(
        model, torch.device("cpu"), tokenizer=True, trust_remote_code=trust_remote_code, adapter=adapter
    )
    evaluation = load_evaluation(
        loaded,
        data=data,
        max_examples=SIZES[size],
        sequence_length=sequence_length,
        stride=stride,
        text_column=text_column,
        label_column=label_column,
    )
    save_prepared(loaded, evaluation, output, size=size)
    notes, most = evaluation.notes, SIZES[size] or 0
    if evaluation.examples < most:
        notes += (reason("fewer-examples", size=size, wanted=most, found=evaluation.examples),)
    return PreparedSet(
        path=str(output),
        model=loaded.name,
        size=size,
        examples=evaluation.examples,
        tokens=token_count(evaluation),
        bytes_on_disk=sum(path.stat().st_size for path in output.iterdir()),
        source=evaluation.source,
        task=evaluation.task,
        digest=evaluation.digest,
        sequence_length=evaluation.sequence_length,
        stride=evaluation.stride,
        notes=notes,
    )

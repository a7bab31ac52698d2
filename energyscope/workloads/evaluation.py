"""Evaluation data on the device: examples of similar length in batches, and a digest of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from energyscope.adapters import Task
from energyscope.reasons import Reason

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Example:
    """Token ids; the class ``label`` where there is one; tokens before ``counted_from`` are context only.

    ``index`` is its place in the source, from 0: of its line or row, or of its window in running text. It says
    nothing of the content, and two examples are equal without it.
    """

    tokens: Sequence[int]
    label: int | None = None
    counted_from: int = 0
    index: int | None = field(default=None, compare=False)

    @property
    def predictions(self) -> int:
        """How many tokens of the example are predicted: the first one has nothing before it."""
        return len(self.tokens) - max(1, self.counted_from)


@dataclass(frozen=True)
class Evaluation:
    """Held-out data as batches of ``input_ids`` and ``attention_mask``, each (B, S) int64, on the device.

    ``labels`` has one tensor (B,) for each batch of a classification task, and is None for next-token
    prediction, where the targets are the tokens themselves. Padding is on the right. ``counted`` has one mask
    (B, S) bool for each batch: which tokens count as targets; None means all. ``notes`` say what a reader should
    know of the data, such as how many texts were cut. ``order`` has each example's index in the source, from 0,
    in the order of the batches, which is by length (see `Example`); None: not known.
    ``sequence_length`` is the most tokens that an example was allowed, and ``stride`` those from one window of
    running text to the next; None: not known, or no running text.
    """

    source: str
    task: Task
    batches: tuple[Mapping[str, Tensor], ...]
    labels: tuple[Tensor, ...] | None
    examples: int
    counted: tuple[Tensor, ...] | None = None
    notes: tuple[Reason, ...] = ()
    order: tuple[int, ...] | None = None
    sequence_length: int | None = None
    stride: int | None = None

    @cached_property
    def digest(self) -> str:
        """Sixteen hex digits of a SHA-256 over every example's tokens, label, and which of its tokens count.

        They do not depend on the batch size, the padding or the device.
        """
        digest = hashlib.sha256()
        for ids, label, counted in _rows(self):
            digest.update(len(ids).to_bytes(8, "little"))
            digest.update(ids.tobytes())
            digest.update(counted.tobytes())
            digest.update(b"" if label is None else label.tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Tokenized:
    """Examples in the order of their source, as they were cut, and what `Evaluation` says of them."""

    source: str
    task: Task
    examples: Sequence[Example]
    notes: tuple[Reason, ...]
    sequence_length: int | None
    stride: int | None = None


def on_device(tokenized: Tokenized, size: int, padding: int, device: torch.device) -> Evaluation:
    """Return examples in batches of ``size`` on the device, padded with the token ``padding``."""
    groups = batched(tokenized.examples, size)
    batches = tuple(padded(group, padding, device) for group in groups)
    labels = None
    if tokenized.task == "classification":
        labels = tuple(torch.tensor([example.label for example in group], device=device) for group in groups)
    counted = tuple(counted_targets(group, batch) for group, batch in zip(groups, batches, strict=True))
    overlap = any(example.counted_from for example in tokenized.examples)
    return Evaluation(
        source=tokenized.source,
        task=tokenized.task,
        batches=batches,
        labels=labels,
        examples=len(tokenized.examples),
        counted=counted if overlap else None,
        notes=tokenized.notes,
        order=source_order(groups),
        sequence_length=tokenized.sequence_length,
        stride=tokenized.stride,
    )


def examples_of(evaluation: Evaluation) -> list[Example]:
    """Return the examples of evaluation data on the host, in the order of their source where it is known."""
    examples = [
        Example(
            ids.tolist(),
            label=None if label is None else int(label),
            counted_from=int(counted.argmax()) if len(counted) else 0,
        )
        for ids, label, counted in _rows(evaluation)
    ]
    if evaluation.order is None:
        return examples
    placed = [replace(example, index=index) for example, index in zip(examples, evaluation.order, strict=True)]
    return sorted(placed, key=lambda example: example.index or 0)


def halves(evaluation: Evaluation) -> tuple[Evaluation, Evaluation]:
    """Return two halves of evaluation data, of like lengths: the first and the last rows of every batch.

    The odd example of a batch goes to either half in turn. Neighbours stay together, since windows of running text
    overlap.
    """
    middles, ahead = list[int](), 0
    for batch in evaluation.batches:
        rows = len(batch["input_ids"])
        middle = (rows + (rows % 2 and ahead <= 0)) // 2
        ahead += 2 * middle - rows
        middles.append(middle)
    first = [slice(0, middle) for middle in middles]
    last = [slice(middle, None) for middle in middles]
    return _part(evaluation, first), _part(evaluation, last)


def thinned(evaluation: Evaluation, most: int) -> Evaluation:
    """Return at most so many examples, evenly spaced over all, which are ordered by length."""
    if evaluation.examples <= most:
        return evaluation
    chosen = set(np.linspace(0, evaluation.examples - 1, most).round().astype(int).tolist())
    rows, begin = list[list[int]](), 0
    for batch in evaluation.batches:
        end = begin + len(batch["input_ids"])
        rows.append([place - begin for place in range(begin, end) if place in chosen])
        begin = end
    return _part(evaluation, rows)


def _part(evaluation: Evaluation, rows: Sequence[slice | list[int]]) -> Evaluation:
    """Return some rows of every batch, without batches that have none; padding stays as it is."""
    sizes = [len(batch["input_ids"][part]) for batch, part in zip(evaluation.batches, rows, strict=True)]
    chosen = [(index, part) for index, (part, size) in enumerate(zip(rows, sizes, strict=True)) if size]

    def cut(tensors: Sequence[Tensor] | None) -> tuple[Tensor, ...] | None:
        return None if tensors is None else tuple(tensors[index][part] for index, part in chosen)

    batches = tuple(
        {name: tensor[part] for name, tensor in evaluation.batches[index].items()} for index, part in chosen
    )
    return replace(
        evaluation,
        batches=batches,
        labels=cut(evaluation.labels),
        counted=cut(evaluation.counted),
        examples=sum(sizes),
        order=None,
    )


def _rows(evaluation: Evaluation) -> Iterator[tuple[Array, Array | None, Array]]:
    """Yield each example's ids, label and which of its tokens count, on the host and without padding."""
    for index, batch in enumerate(evaluation.batches):
        ids = batch["input_ids"].cpu().numpy().astype("<i8")
        masks = _host(batch.get("attention_mask"), ids.shape)
        counted = _host(None if evaluation.counted is None else evaluation.counted[index], ids.shape)
        labels = None if evaluation.labels is None else evaluation.labels[index].cpu().numpy().astype("<i8")
        for row, mask in enumerate(masks):
            yield ids[row][mask], None if labels is None else labels[row], counted[row][mask]


def batched(examples: Sequence[Example], size: int) -> list[list[Example]]:
    """Group examples by length, to need little padding; the order is the same every time.

    A last batch of one example joins the batch before it: resampling takes another example's activation,
    and needs two. Batches of one by ``size`` stay as they are.
    """
    ordered = sorted(examples, key=lambda example: len(example.tokens))
    groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    if size > 1 and len(groups) > 1 and len(groups[-1]) == 1:
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def source_order(groups: Sequence[Sequence[Example]]) -> tuple[int, ...] | None:
    """Return the examples' indices in the source, in the order of the batches; None where one is not known."""
    indices = [example.index for group in groups for example in group]
    known = tuple(index for index in indices if index is not None)
    return known if len(known) == len(indices) else None


def padded(group: Sequence[Example], padding: int, device: torch.device) -> dict[str, Tensor]:
    """Return a batch's ``input_ids`` and ``attention_mask``, (B, S) int64 on the device, padded behind."""
    lengths = [len(example.tokens) for example in group]
    rest = [max(lengths) - length for length in lengths]
    rows = [[*example.tokens, *[padding] * short] for example, short in zip(group, rest, strict=True)]
    masks = [[1] * length + [0] * short for length, short in zip(lengths, rest, strict=True)]
    return {"input_ids": torch.tensor(rows).to(device), "attention_mask": torch.tensor(masks).to(device)}


def counted_targets(group: Sequence[Example], batch: Mapping[str, Tensor]) -> Tensor:
    """Return which tokens of a batch count as targets, bool (B, S): no padding, and no mere context."""
    mask = batch["attention_mask"].bool()
    first = torch.tensor([example.counted_from for example in group], device=mask.device)
    return mask & (torch.arange(mask.shape[1], device=mask.device) >= first.unsqueeze(1))


def _host(mask: Tensor | None, shape: tuple[int, ...]) -> Array:
    return np.ones(shape, dtype=bool) if mask is None else mask.bool().cpu().numpy()

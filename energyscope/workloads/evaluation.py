"""Evaluation data: examples, their batches on the device, halves of them, and a digest of their content."""

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
from energyscope.tasks import RULES, TaskRules, batch_rows, padding_masks

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Example:
    """Token ids; the class ``label`` where there is one; tokens before ``counted_from`` are context only.

    ``target`` is what a decoder is to write; ``features`` is an image or sound in place of tokens. ``index`` is
    its place in the source, from 0: of its line or row, or of its window in running text. It says nothing of the
    content, and two examples are equal without it.
    """

    tokens: Sequence[int]
    label: int | None = None
    counted_from: int = 0
    index: int | None = field(default=None, compare=False)
    target: Sequence[int] | None = None
    features: Tensor | None = field(default=None, compare=False)

    @property
    def predictions(self) -> int:
        """How many tokens of the example are predicted: the first one has nothing before it."""
        return len(self.tokens) - max(1, self.counted_from)


@dataclass(frozen=True)
class Evaluation:
    """Held-out data as batches of what the model is fed, on the device: tensors (B, ...) by name.

    Tokens are ``input_ids`` and ``attention_mask``, (B, S) int64, a decoder's ``decoder_input_ids``, (B, T); an
    image is ``pixel_values``. Padding is on the right. ``labels`` has one tensor for each batch: classes (B,),
    or the target at each token, (B, S) or (B, T). It is None where the targets are the tokens themselves
    (next-token), and where none is known. ``counted`` has one mask for each batch, bool, (B, S) or (B, T): which
    tokens count as targets; None means all. ``notes`` say what a reader should know of the data, such as how
    many texts were cut. ``order`` has each example's index in the source, from 0, in the order of the batches,
    which is by length (see `Example`); None: not known. ``sequence_length`` is the most tokens that an example
    was allowed, and ``stride`` those from one window of running text to the next; None: not known, or no running
    text. ``adapted`` are the task's rules with an adapter's hooks; None: without. With ``as_given`` the batches
    are a user's own tensors.
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
    adapted: TaskRules | None = None
    as_given: bool = False

    @property
    def rules(self) -> TaskRules:
        """How the task's predictions are read and judged."""
        return self.adapted or RULES[self.task]

    @property
    def labelled(self) -> bool:
        """Whether it is known what is right; where it is not, outputs can only be compared with each other."""
        return self.rules.shifted or self.rules.similarity or self.labels is not None

    @property
    def columns(self) -> dict[str, Tensor]:
        """The inputs of all examples by name, (N, ...): of batches that are alike in all other dimensions."""
        return {name: torch.cat([batch[name] for batch in self.batches]) for name in self.batches[0]}

    @cached_property
    def digest(self) -> str:
        """Sixteen hex digits of a SHA-256 over every example's tokens, label, and which of its tokens count.

        They do not depend on the batch size, the padding or the device.
        """
        digest = hashlib.sha256()
        if self.as_given:
            known = {"labels": self.labels, "counted": self.counted}
            whole = self.columns | {name: torch.cat(parts) for name, parts in known.items() if parts}
            for name, tensor in sorted(whole.items()):
                wide = tensor.float() if tensor.is_floating_point() else tensor.long()
                digest.update(f"{name} {tuple(tensor.shape)}".encode() + _host(wide).tobytes())
            return digest.hexdigest()[:16]
        for row in _rows(self):
            digest.update(len(row.ids).to_bytes(8, "little"))
            for part in (row.ids, row.counted, row.label, row.target, row.features):
                digest.update(b"" if part is None else part.tobytes())
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


def evenly(count: int, most: int | None) -> list[int]:
    """Return the places of at most so many examples, evenly spaced: the first may all be of one class."""
    return list(range(count)) if most is None or count <= most else [at * count // most for at in range(most)]


def examples_of(evaluation: Evaluation) -> list[Example]:
    """Return the examples of evaluation data on the host, in the order of their source where it is known."""
    examples = [
        Example(
            row.ids.tolist(),
            label=None if row.label is None else int(row.label),
            counted_from=int(row.counted.argmax()) if evaluation.rules.shifted and len(row.counted) else 0,
        )
        for row in _rows(evaluation)
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
        rows = batch_rows(batch)
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
        end = begin + batch_rows(batch)
        rows.append([place - begin for place in range(begin, end) if place in chosen])
        begin = end
    return _part(evaluation, rows)


def _part(evaluation: Evaluation, rows: Sequence[slice | list[int]]) -> Evaluation:
    """Return some rows of every batch, without batches that have none; padding stays as it is."""
    sizes = [len(next(iter(batch.values()))[part]) for batch, part in zip(evaluation.batches, rows, strict=True)]
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


@dataclass(frozen=True)
class _Row:
    """An example's numbers on the host, without padding."""

    ids: Array
    counted: Array
    label: Array | None = None
    target: Array | None = None
    features: Array | None = None


def _rows(evaluation: Evaluation) -> Iterator[_Row]:
    """Yield each example on the host, without padding; of masked tokens, those that were there."""
    for index, batch in enumerate(evaluation.batches):
        originals: Array | None
        masks = [_host(mask) for mask in padding_masks(batch)]
        labels = None if evaluation.labels is None else _host(evaluation.labels[index]).astype("<i8")
        if evaluation.rules.per_token and labels is not None and "decoder_input_ids" not in batch:
            originals, labels = labels, None  # of masked tokens
        else:
            originals = _host(batch["input_ids"]).astype("<i8") if "input_ids" in batch else None
        counted = masks[-1] if evaluation.counted is None else _host(evaluation.counted[index])
        features = next((_host(batch[name]) for name in batch if batch[name].is_floating_point()), None)
        for row, mask in enumerate(masks[0]):
            yield _Row(
                np.zeros(0, "<i8") if originals is None else originals[row][mask],
                counted[row][masks[-1][row]],
                None if labels is None or labels.ndim > 1 else labels[row],
                None if labels is None or labels.ndim == 1 else labels[row][masks[-1][row]],
                None if features is None else features[row],
            )


def _host(tensor: Tensor) -> Array:
    array: Array = tensor.detach().cpu().numpy()
    return array

"""From examples to batches on the device: like lengths together, padded behind, with their targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from energyscope.errors import DataError
from energyscope.loading import LoadedModel
from energyscope.model_inputs import main_input, takes
from energyscope.tasks import rules_of
from energyscope.workloads.evaluation import Evaluation, Example, Tokenized
from energyscope.workloads.limits import text_config

MASKED_SHARE = 0.15  # of an example's tokens, as masked language models are trained (Devlin et al. 2019)


@dataclass(frozen=True)
class Filling:
    """The tokens of a model that stand for no word of a text."""

    padding: int
    mask: int | None = None
    start: int | None = None
    special: frozenset[int] = field(default_factory=frozenset)


def filling_of(loaded: LoadedModel) -> Filling:
    """Return a model's own tokens: behind short examples, in place of a masked one, and before a decoder's first.

    Padding is masked, so that any token of the vocabulary would do.
    """
    config, tokenizer = text_config(loaded), loaded.tokenizer
    padding = getattr(config if tokenizer is None else tokenizer, "pad_token_id", None)
    start = getattr(config, "decoder_start_token_id", None)
    return Filling(
        padding if isinstance(padding, int) else 0,
        getattr(tokenizer, "mask_token_id", None),
        start if isinstance(start, int) else getattr(config, "bos_token_id", None),
        frozenset(tokenizer.all_special_ids if tokenizer is not None else ()),
    )


def on_device(tokenized: Tokenized, size: int, loaded: LoadedModel) -> Evaluation:
    """Return examples in batches of ``size`` on the model's device."""
    filling, device, rules = filling_of(loaded), loaded.device, rules_of(loaded.adapter)
    groups = batched(tokenized.examples, size)
    parts = [_batch(group, tokenized.task, loaded, filling) for group in groups]
    labels = [part.labels for part in parts if part.labels is not None]
    overlap = rules.shifted and any(example.counted_from for example in tokenized.examples)
    counted = [part.counted for part in parts if part.counted is not None]
    return Evaluation(
        source=tokenized.source,
        task=tokenized.task,
        batches=tuple({name: tensor.to(device) for name, tensor in part.inputs.items()} for part in parts),
        labels=tuple(label.to(device) for label in labels) if labels else None,
        examples=len(tokenized.examples),
        counted=tuple(mask.to(device) for mask in counted) if overlap or (not rules.shifted and counted) else None,
        notes=tokenized.notes,
        order=source_order(groups),
        sequence_length=tokenized.sequence_length,
        stride=tokenized.stride,
        adapted=rules,
    )


@dataclass(frozen=True)
class _Batch:
    """A batch on the host: what the model is fed, what is right, and where that counts."""

    inputs: dict[str, Tensor]
    labels: Tensor | None = None
    counted: Tensor | None = None


def _batch(group: Sequence[Example], task: str, loaded: LoadedModel, filling: Filling) -> _Batch:
    known = [example.label for example in group]
    classes = None if None in known else torch.tensor(known)
    if any(example.features is not None for example in group):
        images = [example.features for example in group if example.features is not None]
        if len({image.shape for image in images}) > 1:
            raise DataError(f"the image processor of {loaded.name} makes images of several sizes: crop them alike")
        features = torch.stack(images)
        return _Batch({main_input(loaded.model): features}, classes)
    inputs = padded([example.tokens for example in group], filling.padding)
    if task == "next-token":
        return _Batch(inputs, None, counted_targets(group, inputs))
    if task == "masked-token":
        if filling.mask is None:
            raise DataError(f"{loaded.name} has no mask token (of a tokenizer), so no token can be masked")
        masked = torch.stack([_masked(row, filling) for row in inputs["input_ids"]])
        hidden = torch.where(masked, filling.mask, inputs["input_ids"])
        return _Batch({**inputs, "input_ids": hidden}, inputs["input_ids"], masked)
    if task == "sequence-to-sequence":
        return _with_decoder(inputs, [example.target or () for example in group], loaded, filling)
    return _Batch(inputs, classes)


def _masked(ids: Tensor, filling: Filling) -> Tensor:
    """Choose the tokens of an example that are masked, bool (S,): at least one, the same whenever it comes."""
    free = [place for place, token in enumerate(ids.tolist()) if token not in {*filling.special, filling.padding}]
    count = min(len(free), max(1, round(MASKED_SHARE * len(free))))
    seed = [token for token in ids.tolist() if token != filling.padding]
    chosen: Any = np.random.default_rng(seed).choice(free, count, replace=False) if free else []
    mask = torch.zeros(len(ids), dtype=torch.bool)
    mask[torch.as_tensor(np.asarray(chosen, dtype=np.int64))] = True
    return mask


def _with_decoder(
    inputs: dict[str, Tensor], targets: Sequence[Sequence[int]], loaded: LoadedModel, filling: Filling
) -> _Batch:
    """Return a batch whose decoder reads its targets, one place later, behind a first token of its own.

    Encoder and decoder get different lengths: a tensor's shape then tells which one's padding it has.
    """
    target = padded(targets, filling.padding)
    if target["input_ids"].shape == inputs["input_ids"].shape:
        target = padded(targets, filling.padding, more=1)
    if filling.start is None:
        raise DataError(f"the configuration of {loaded.name} names no decoder_start_token_id: what comes first?")
    ids, mask = target["input_ids"], target["attention_mask"]
    before = torch.cat([torch.full_like(ids[:, :1], filling.start), ids[:, :-1]], dim=1)
    decoder = {"decoder_input_ids": before}
    if takes(loaded.model, "decoder_attention_mask"):
        decoder["decoder_attention_mask"] = mask
    return _Batch({**inputs, **decoder}, ids, mask.bool())


def batched(examples: Sequence[Example], size: int) -> list[list[Example]]:
    """Group examples by length, to need little padding; the order is the same every time.

    A last batch of one example joins the batch before it: resampling takes another example's activation,
    and needs two. Batches of one by ``size`` stay as they are.
    """
    ordered = sorted(examples, key=lambda example: len(example.tokens) + len(example.target or ()))
    groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    if size > 1 and len(groups) > 1 and len(groups[-1]) == 1:
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def source_order(groups: Sequence[Sequence[Example]]) -> tuple[int, ...] | None:
    """Return the examples' indices in the source, in the order of the batches; None where one is not known."""
    indices = [example.index for group in groups for example in group]
    known = tuple(index for index in indices if index is not None)
    return known if len(known) == len(indices) else None


def padded(rows: Sequence[Sequence[int]], padding: int, more: int = 0) -> dict[str, Tensor]:
    """Return rows of tokens as ``input_ids`` and ``attention_mask``, (B, S) int64, padded behind.

    S is the longest row's length, or so many ``more``.
    """
    longest = max(len(row) for row in rows) + more
    ids = [[*row, *[padding] * (longest - len(row))] for row in rows]
    masks = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(masks)}


def counted_targets(group: Sequence[Example], batch: Mapping[str, Tensor]) -> Tensor:
    """Return which tokens of a batch count as targets, bool (B, S): no padding, and no mere context."""
    mask = batch["attention_mask"].bool()
    first = torch.tensor([example.counted_from for example in group], device=mask.device)
    return mask & (torch.arange(mask.shape[1], device=mask.device) >= first.unsqueeze(1))

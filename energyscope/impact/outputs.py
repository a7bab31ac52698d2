"""What a component returns: its features by position, and how far a change moves them.

Features are all floating-point tensors of two dimensions or more, in whatever tuples, lists, mappings and model
outputs they lie. Several are taken as one vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.functions import FunctionCall
from energyscope.reasons import Reason, reason
from energyscope.replay.tensors import mapped, tensors_in

PIECE = 2**24  # elements that are widened to int64 at once
WIDENED = 2**23  # elements that an accelerator widens to float32 or float64 at once: 64 MiB for a temporary
HOST_WIDENED = 2**18  # on a CPU a piece and its temporaries fit in the cache


@dataclass
class Effect:
    """How far a change moves the component's own output, added up over all batches.

    For a module that is called several times, the original output of a later call is what the module made
    of inputs that the earlier ones had changed. ``calls`` counts every tensor of each call.
    """

    calls: int = 0
    problem: Reason | None = None
    _difference: Tensor | None = field(default=None, repr=False)
    _original: Tensor | None = field(default=None, repr=False)
    _resolution: float = 0.0

    def add(self, original: Tensor, changed: Tensor, weights: Tensor) -> None:
        """Count one tensor of a call; ``weights`` says how often each position counts (see `position_weights`)."""
        self.calls += 1
        self._resolution = max(self._resolution, torch.finfo(original.dtype).eps)
        before, after, counts = as_rows(original), as_rows(changed), row_weights(original, weights)
        for piece in pieces(before):
            wide = before[piece].float()
            square = _weighted_square(wide, counts[piece])
            difference = _weighted_square(wide - after[piece].float(), counts[piece])
            self._difference = difference if self._difference is None else self._difference + difference
            self._original = square if self._original is None else self._original + square

    @property
    def relative_change(self) -> float | None:
        """||changed - original|| / ||original|| over the data, padding left out; None where it is undefined."""
        if self._difference is None or self._original is None:
            return None
        difference, original = float(self._difference), float(self._original)
        if difference == 0:
            return 0.0
        ratio = (difference / original) ** 0.5 if original > 0 else float("inf")
        return ratio if ratio < float("inf") else None

    def why_invalid(self) -> Reason | None:
        """Return why the change is invalid, or None where it changed the output."""
        if self.problem:
            return self.problem
        if not self.calls:
            return reason("not-called")
        change = self.relative_change
        if change is None:
            return reason("change-undefined")
        if change == 0:
            return reason("output-unchanged")
        if change <= self._resolution:
            return reason("output-changed-by-rounding", change=change)
        return None


def positions_first(module: nn.Module, tensor: Tensor) -> Tensor:
    """Return a component's output as (B, S, ..., features).

    An attention core puts out (B, heads, S, D): a feature is one of D of one of the heads, (B, S, heads * D). Of
    convolutions, and of blocks made of them, (B, C, ...), a feature is a channel.
    """
    if isinstance(module, FunctionCall) and tensor.dim() == 4:
        return tensor.transpose(1, 2).flatten(2)
    return tensor.movedim(1, -1) if _has_channels(module, tensor) else tensor


def as_returned(module: nn.Module, changed: Tensor, original: Tensor) -> Tensor:
    """Undo `positions_first`: give a changed output the shape of the original."""
    if isinstance(module, FunctionCall) and original.dim() == 4:
        return changed.reshape(original.transpose(1, 2).shape).transpose(1, 2)
    return changed.movedim(-1, 1) if _has_channels(module, original) else changed


def _has_channels(module: nn.Module, tensor: Tensor) -> bool:
    """Tell whether dimension 1 of an output are the channels of convolutions; a linear's features come last."""
    if isinstance(module, _CONVOLUTIONS):
        return tensor.dim() > 2
    return tensor.dim() == 4 and any(isinstance(part, _CONVOLUTIONS) for part in module.modules())


_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
Masks = Tensor | tuple[Tensor, ...]
"""Which positions are no padding, bool (B, S); an encoder's and a decoder's, whose S differ."""


def mask_of(tensor: Tensor, masks: Masks) -> Tensor:
    """Return the mask whose positions an output has, (B, S); the first if its shape tells of none."""
    if isinstance(masks, Tensor):
        return masks
    lead = tuple(tensor.shape[:-1])
    places = (lead[1:2], lead[2:3])
    fitting = [mask for place in places for mask in masks if place == (mask.shape[1],)]
    fitting += [mask for mask in masks if lead == (mask.numel(),)]
    return fitting[0] if fitting else masks[0]


def position_weights(tensor: Tensor, masks: Masks) -> Tensor:
    """Return how often each position of an output counts, with as many dimensions as it (the last is 1).

    Outputs of shape (B, S, ...), (B, heads, S, features) and (B * S, features) count where a mask (B, S) has no
    padding; an output (1, S, ...) that serves all examples counts at each position as often as examples have one
    there; all others, such as a pooled (B, features), count fully.
    """
    mask = mask_of(tensor, masks)
    batch, length = mask.shape
    lead = tuple(tensor.shape[:-1])
    numbers = mask.to(tensor.device, torch.float32)
    if lead[:2] == (batch, length):
        weights = numbers
    elif lead[:2] == (1, length):
        weights = numbers.sum(0, keepdim=True)
    elif lead == (batch * length,):
        weights = numbers.flatten()
    elif lead[:1] + lead[2:3] == (batch, length):
        weights = numbers.unsqueeze(1)
    else:
        weights = torch.ones(lead[:1], device=tensor.device)
    return weights.reshape(weights.shape + (1,) * (tensor.dim() - weights.dim()))


def compared(module: nn.Module, before: Any, after: Any, masks: Masks) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the exchanged tensors of a component's output, before and after a change, and their weights."""
    for old, new in zip(features_of(before), features_of(after), strict=True):
        if old is not new:
            features = positions_first(module, old)
            yield features, positions_first(module, new), position_weights(features, masks)


def as_rows(tensor: Tensor) -> Tensor:
    """Return an output (..., features) as (positions, features), without a copy where its layout allows."""
    return tensor.reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1])


def row_weights(tensor: Tensor, weights: Tensor) -> Tensor:
    """Return the weights of an output's rows, (positions, 1); ``weights`` as `position_weights` gives them."""
    return weights.expand(*tensor.shape[:-1], 1).reshape(-1, 1)


def pieces(rows: Tensor, host_elements: int = HOST_WIDENED) -> Iterator[slice]:
    """Return which rows (positions, features) to widen at once, in order; at least one piece, be it empty.

    The logits of a large vocabulary, widened as a whole, would take several times their own memory. A piece has at
    most ``host_elements`` elements on a CPU.
    """
    most = host_elements if rows.device.type == "cpu" else WIDENED
    step = max(1, most // max(1, rows.shape[-1]))
    return (slice(start, start + step) for start in range(0, max(1, len(rows)), step))


def features_of(output: Any) -> list[Tensor]:
    """Return the tensors of features in a module's output, in their order, each once."""
    tensors = {id(tensor): tensor for tensor in tensors_in(output)}
    return [tensor for tensor in tensors.values() if tensor.is_floating_point() and tensor.dim() > 1]


def first_tensor(output: Any) -> Tensor | None:
    """Return a module's output if it is a tensor, else the first tensor in it."""
    return next(tensors_in(output), None)


def exchanged(output: Any, before: Sequence[Tensor], after: Sequence[Tensor]) -> Any:
    """Return the output with some of its tensors exchanged; containers keep their type and their other items."""
    changed = {id(old): new for old, new in zip(before, after, strict=True)}
    return mapped(output, lambda tensor: changed.get(id(tensor), tensor))


def with_first_tensor(output: Any, changed: Tensor) -> Any:
    """Return the output with its first tensor exchanged."""
    return exchanged(output, [next(tensors_in(output))], [changed])


def unsuitable(output: Any) -> Reason:
    """Return why an output has no features to change."""
    tensor = first_tensor(output)
    if tensor is None:
        return reason("output-without-tensor")
    return reason("output-without-features", dtype=tensor.dtype, dimensions=tensor.dim())


def weighted(values: Tensor, weights: Tensor) -> Tensor:
    # not a plain product: attention may leave NaN at padded positions, and NaN times 0 is NaN
    return torch.where(weights > 0, values * weights, 0.0)


def _weighted_square(values: Tensor, weights: Tensor) -> Tensor:
    return weighted(values.square(), weights).sum(dtype=torch.float64)


def checksum(tensor: Tensor) -> tuple[int, int]:
    """Return two sums over a tensor's bits, computed on its device: equal bits give equal sums.

    The second weights each element by its index, so that it differs for swapped values too.
    """
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    flat = tensor.detach().contiguous().view(integers).flatten()
    total, by_place = 0, 0
    for number, piece in enumerate(torch.split(flat, PIECE)):
        place = torch.arange(1, len(piece) + 1, device=piece.device)
        total += int(piece.sum())
        by_place += (number + 1) * int((piece.long() * place).sum())
    return total, by_place

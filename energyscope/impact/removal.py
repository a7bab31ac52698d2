"""Removal: replace a component's output by something else, and record how far that changed it.

- ``zero``: zeros.
- ``mean``: the component's mean output over the data: each feature's over all positions that are no padding.
- ``resample``: what the component puts out for another example, the one before it in the batch (batches hold
  examples of about the same length). Where that one is shorter, its positions are taken again from the start.
- ``skip``: the component's own input, which for a layer is to leave it out (block influence).

Where a module returns several tensors of features, nested or not, all are changed; ``skip`` exchanges the first,
and what a layer hands on beside it stays. Integers stay.

A *router* returns which experts a token goes to, and these are indices: they have no zero and no mean. It is
removed by what it is fed, and routes that as the model does: a token of zeros (of a router without bias, all
experts score alike), the mean token (the experts that score best on average) or another example's tokens. With
``zero`` and ``mean`` all tokens go to the same experts with the same weights: what is lost is the choice, not the
experts.

It is done by forward hooks that are always removed. A module that is called several times in a pass is changed at
every call. Of a function that a module calls (`energyscope.functions`), the calls by that module are changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.functions import routed
from energyscope.impact.outputs import (
    Effect,
    Masks,
    as_returned,
    as_rows,
    compared,
    exchanged,
    features_of,
    mask_of,
    pieces,
    position_weights,
    positions_first,
    row_weights,
    unsuitable,
    weighted,
)
from energyscope.reasons import Reason, reason

# features (B, S, F), the batch's padding, and their place among the returned ones, to other features
Change = Callable[[Tensor, Masks, int], Tensor]
BY_INPUT = frozenset({"router"})  # kinds that are removed by what they are fed


@dataclass
class Mean:
    """The mean over the data of one tensor that a component returns; ``problem`` says why there is none."""

    calls: int = 0
    problem: Reason | None = None
    _sum: Tensor | None = field(default=None, repr=False)
    _count: float | Tensor = 0.0  # stays on the device: reading it at every call would wait for the GPU

    def add(self, output: Tensor, weights: Tensor) -> None:
        """Add one call's output; ``weights`` as `position_weights` gives them."""
        self.calls += 1
        if self._sum is not None and self._sum.shape[-1] != output.shape[-1]:
            self.problem = reason("output-size-varies")
        if self.problem is not None:
            return
        rows, counts = as_rows(output), row_weights(output, weights)
        total = torch.zeros(output.shape[-1], dtype=torch.float64, device=output.device)
        for piece in pieces(rows):
            total += weighted(rows[piece].float(), counts[piece]).sum(0, dtype=torch.float64)
        self._sum = total if self._sum is None else self._sum + total
        self._count = self._count + counts.sum(dtype=torch.float64)

    def vector(self) -> Tensor | None:
        """Return the mean, float64 (features,), or None with ``problem`` saying why."""
        if self.problem is None and not self.calls:
            self.problem = reason("not-called")
        if self.problem is not None or self._sum is None:
            return None
        mean = self._sum / self._count
        if not bool(torch.isfinite(mean).all()):
            self.problem = reason("output-not-finite")
            return None
        return mean


class MeanGatherer:
    """Gathers the means of many components in one pass over the data.

    ``means`` has one for each tensor that a component returns, or for the input of those named in ``by_input``.
    """

    def __init__(self, modules: Mapping[str, nn.Module], by_input: Collection[str] = ()) -> None:
        self.modules = modules
        self.means = {name: [Mean()] for name in modules}
        self._by_input = by_input

    @contextmanager
    def listening(self, masks: Masks) -> Iterator[None]:
        """Watch the outputs of all components for the forward pass of one batch with this padding."""
        with ExitStack() as stack:
            for name, module in self.modules.items():
                hook = partial(_add_call, self.means[name], masks, by_input=name in self._by_input)
                stack.callback(module.register_forward_hook(hook, with_kwargs=True).remove)
            stack.enter_context(routed(self.modules.values()))
            yield


def _add_call(
    means: list[Mean], masks: Masks, module: nn.Module, args: Any, kwargs: Any, output: Any, *, by_input: bool
) -> None:
    tensors = features_of((args, kwargs))[:1] if by_input else features_of(output)
    if not tensors:
        means[0].problem = unsuitable((args, kwargs) if by_input else output)
    means += [Mean() for _ in tensors[len(means) :]]
    for mean, tensor in zip(means, tensors, strict=False):
        features = positions_first(module, tensor)
        mean.add(features, position_weights(features, masks))


@dataclass(frozen=True)
class Removal:
    """One way to remove one component, or its features from one number up to another, such as a head's.

    ``notes`` say what a reader of its numbers should know.
    """

    module: nn.Module
    change: Change | None  # None: its own input
    features: tuple[int, int] | None = None
    by_input: bool = False
    notes: tuple[Reason, ...] = ()

    @contextmanager
    def applied(self, masks: Masks, effect: Effect) -> Iterator[None]:
        """Change the module's output as long as the context lasts; the hook is removed however it ends.

        ``masks`` say which positions are no padding; ``effect`` records how far the output changed.
        An output without features is left alone, and the effect says so.
        """
        entered: Tensor | None = None

        def before(_module: nn.Module, args: Any, kwargs: Any) -> None:
            nonlocal entered
            inputs = features_of((args, kwargs))
            entered = inputs[0].clone() if inputs else None  # a layer may write to its input

        def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            changed = self._changed((args, kwargs) if self.by_input else output, entered, masks)
            if isinstance(changed, Reason):
                effect.problem = changed
                return output
            if self.by_input:
                changed = module.forward(*changed[0], **changed[1])
            part = slice(*(self.features or (None,)))
            for old, new, weights in compared(module, output, changed, masks):
                effect.add(old[..., part], new[..., part], weights)
            return changed

        with routed([self.module]), ExitStack() as stack:
            if self.change is None:
                stack.callback(self.module.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(self.module.register_forward_hook(after, with_kwargs=True).remove)
            yield

    def _changed(self, values: Any, entered: Tensor | None, masks: Masks) -> Any:
        """Return an output, or what a router is fed, with other features; the reason where that cannot be."""
        originals = features_of(values)[: 1 if self.by_input else None]
        if not originals:
            return unsuitable(values)
        if self.change is not None:
            changed = [self._replaced(place, tensor, masks) for place, tensor in enumerate(originals)]
        elif entered is not None and entered.shape == originals[0].shape:
            changed = [entered.to(originals[0].dtype), *originals[1:]]
        else:
            return reason("input-and-output-differ")
        return exchanged(values, originals, changed)

    def _replaced(self, place: int, original: Tensor, masks: Masks) -> Tensor:
        assert self.change is not None  # noqa: S101  only called where it is not
        features = positions_first(self.module, original)
        changed = self.change(features, masks, place).to(features.dtype)
        if self.features is not None:
            part = slice(*self.features)
            removed, changed = changed, features.clone()
            changed[..., part] = removed[..., part]
        return as_returned(self.module, changed, original)


def zero(features: Tensor, _masks: Masks, _place: int = 0) -> Tensor:
    """Put zeros in the place of an output."""
    return torch.zeros_like(features)


def resample(features: Tensor, masks: Masks, _place: int = 0) -> Tensor:
    """Put every example's output in the place of the next one's in the batch; the first gets the last one's.

    Position t gets the source's position t modulo its length, so that padding, which is on the right, reaches no
    example. What has no positions, such as a pooled (B, features), moves as it is, and
    so do all windows of an image, (B * windows, ...).
    """
    mask = mask_of(features, masks)
    batch, length = mask.shape
    if features.shape[:-1][:2] == (batch, length):
        return _from_example_before(features, mask)
    if features.shape[0] == batch * length:  # positions of all examples in one dimension
        by_example = features.reshape(batch, length, *features.shape[1:])
        return _from_example_before(by_example, mask).flatten(0, 1)
    parts = features.shape[0] // batch if features.shape[0] % batch == 0 else 1  # windows of each image, say
    return features.roll(parts, 0)


def _from_example_before(features: Tensor, mask: Tensor) -> Tensor:
    batch, length = mask.shape
    sources = torch.arange(batch, device=features.device).roll(1)
    real = mask.to(features.device).bool().sum(1)[sources].clamp_min(1)
    positions = torch.arange(length, device=features.device) % real.unsqueeze(1)
    return features[sources.unsqueeze(1), positions]


def replace_by(*means: Tensor | None) -> Change:
    """Put a feature vector, (features,), in the place of each returned tensor at every position; None keeps it."""

    def change(features: Tensor, _masks: Masks, place: int) -> Tensor:
        mean = means[place] if place < len(means) else None
        if mean is None:
            return features
        # a copy of its own for every position: a model may add to the output in place
        return mean.to(features.device, features.dtype).expand_as(features).clone()

    return change


def removal(
    module: nn.Module,
    method: str,
    means: Sequence[Mean],
    features: tuple[int, int] | None = None,
    *,
    by_input: bool = False,
) -> Removal | Reason:
    """Return how a method removes a component, or why it cannot.

    ``means`` were gathered over the data, so that they also know whether the component was called at all. With
    ``by_input`` they are of what it is fed, and so is the removal.
    """
    vectors = [mean.vector() for mean in means]
    problem = means[0].problem
    if problem is not None and (method == "mean" or not means[0].calls):
        return problem
    if method == "mean":
        kept = [mean.problem for mean in means if mean.problem is not None]
        notes = (reason("some-without-mean", tensors=len(kept), why=kept[0]),) if kept else ()
        return Removal(module, replace_by(*vectors), features, by_input, notes)
    changes: dict[str, Change | None] = {"zero": zero, "resample": resample, "skip": None}
    return Removal(module, changes[method], features, by_input)

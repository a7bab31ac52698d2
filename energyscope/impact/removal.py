"""Removal: replace a component's output by something else, and record how far that changed it.

- ``zero``: zeros.
- ``mean``: the component's mean output over the data: each feature's over all positions that are no padding.
- ``resample``: what the component puts out for another example, the one before it in the batch (batches hold
  examples of about the same length). Where that one is shorter, its positions are taken again from the start.
- ``skip``: the component's own input, which for a layer is to leave it out (block influence).

It is done by forward hooks that are always removed. Where a module returns several things, the first tensor is
changed. A module that is called several times in a pass is changed at every call. Of a function that a module
calls (`energyscope.functions`), the calls by that module are changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.functions import routed
from energyscope.impact.outputs import (
    Effect,
    as_returned,
    as_rows,
    first_tensor,
    pieces,
    position_weights,
    positions_first,
    row_weights,
    unsuitable,
    weighted,
    with_first_tensor,
)
from energyscope.reasons import Reason, reason

Change = Callable[[Tensor, Tensor], Tensor]  # features (B, S, F) and their padding mask (B, S) to other features


@dataclass
class Mean:
    """The mean output of one component over the data; ``problem`` says why there is none."""

    calls: int = 0
    problem: Reason | None = None
    _sum: Tensor | None = field(default=None, repr=False)
    _count: float | Tensor = 0.0  # stays on the device: reading it at every call would wait for the GPU

    def add(self, output: Tensor, weights: Tensor) -> None:
        """Add one call's output; ``weights`` as `position_weights` gives them."""
        self.calls += 1
        rows, counts = as_rows(output), row_weights(output, weights)
        total = torch.zeros(output.shape[-1], dtype=torch.float64, device=output.device)
        for piece in pieces(rows):
            total += weighted(rows[piece].float(), counts[piece]).sum(0, dtype=torch.float64)
        if self._sum is not None and self._sum.shape != total.shape:
            self.problem = reason("output-size-varies")
            return
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
    """Gathers the means of many components in one pass over the data."""

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        self.modules = modules
        self.means = {name: Mean() for name in modules}

    @contextmanager
    def listening(self, mask: Tensor) -> Iterator[None]:
        """Watch the outputs of all components for the forward pass of one batch with this padding mask (B, S)."""
        with ExitStack() as stack:
            for name, module in self.modules.items():
                hook = partial(_add_output, self.means[name], mask)
                stack.callback(module.register_forward_hook(hook).remove)
            stack.enter_context(routed(self.modules.values()))
            yield


def _add_output(mean: Mean, mask: Tensor, module: nn.Module, _args: Any, output: Any) -> None:
    tensor = first_tensor(output)
    if tensor is None or not tensor.is_floating_point() or tensor.dim() < 2:
        mean.problem = unsuitable(tensor)
    else:
        features = positions_first(module, tensor)
        mean.add(features, position_weights(features, mask))


@dataclass(frozen=True)
class Removal:
    """One way to remove one component, or its features from one number up to another, such as a head's."""

    module: nn.Module
    change: Change | None  # None: its own input
    features: tuple[int, int] | None = None

    @contextmanager
    def applied(self, mask: Tensor, effect: Effect) -> Iterator[None]:
        """Change the module's output as long as the context lasts; the hook is removed however it ends.

        ``mask`` (B, S) says which positions are no padding; ``effect`` records how far the output changed.
        An output without a tensor of floating-point numbers is left alone, and the effect says so.
        """
        entered: Tensor | None = None

        def before(_module: nn.Module, args: Any, kwargs: Any) -> None:
            nonlocal entered
            tensor = first_tensor((*args, *kwargs.values()))
            entered = None if tensor is None else tensor.clone()  # a layer may write to its input

        def after(_module: nn.Module, _args: Any, output: Any) -> Any:
            return self._changed(entered, output, mask, effect)

        with routed([self.module]), ExitStack() as stack:
            if self.change is None:
                stack.callback(self.module.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(self.module.register_forward_hook(after).remove)
            yield

    def _changed(self, entered: Tensor | None, output: Any, mask: Tensor, effect: Effect) -> Any:
        original = first_tensor(output)
        if original is None or not original.is_floating_point():
            effect.problem = unsuitable(original)
            return output
        features = positions_first(self.module, original)
        changed = entered if self.change is None else self.change(features, mask)
        if changed is None or changed.shape != features.shape:
            effect.problem = reason("input-and-output-differ")
            return output
        part = slice(*(self.features or (None,)))
        if self.features is not None:
            removed, changed = changed, features.clone()
            changed[..., part] = removed[..., part]
        changed = changed.to(features.dtype)
        effect.add(features[..., part], changed[..., part], position_weights(features, mask))
        return with_first_tensor(output, as_returned(self.module, changed, original))


def zero(features: Tensor, _mask: Tensor) -> Tensor:
    """Put zeros in the place of an output."""
    return torch.zeros_like(features)


def resample(features: Tensor, mask: Tensor) -> Tensor:
    """Put every example's output in the place of the next one's in the batch; the first gets the last one's.

    Position t gets the source's position t modulo its length, so that padding, which is on the right, reaches no
    example. What has no positions, such as a pooled (B, features), moves as it is.
    """
    batch, length = mask.shape
    if features.shape[:-1][:2] == (batch, length):
        return _from_example_before(features, mask)
    if features.shape[0] == batch * length:  # positions of all examples in one dimension
        by_example = features.reshape(batch, length, *features.shape[1:])
        return _from_example_before(by_example, mask).flatten(0, 1)
    return features.roll(1, 0)


def _from_example_before(features: Tensor, mask: Tensor) -> Tensor:
    batch, length = mask.shape
    sources = torch.arange(batch, device=features.device).roll(1)
    real = mask.to(features.device).bool().sum(1)[sources].clamp_min(1)
    positions = torch.arange(length, device=features.device) % real.unsqueeze(1)
    return features[sources.unsqueeze(1), positions]


def replace_by(mean: Tensor) -> Change:
    """Put one feature vector, (features,), in the place of the output at every position."""

    def change(features: Tensor, _mask: Tensor) -> Tensor:
        # a copy of its own for every position: a model may add to the output in place
        return mean.to(features.device, features.dtype).expand_as(features).clone()

    return change


def removal(
    module: nn.Module, method: str, mean: Mean, features: tuple[int, int] | None = None
) -> Removal | Reason:
    """Return how a method removes a component, or why it cannot.

    ``mean`` was gathered over the data, so that it also knows whether the component was called at all.
    """
    vector = mean.vector()
    if mean.problem is not None and (method == "mean" or not mean.calls):
        return mean.problem
    if method == "mean" and vector is not None:
        return Removal(module, replace_by(vector), features)
    changes: dict[str, Change | None] = {"zero": zero, "resample": resample, "skip": None}
    return Removal(module, changes[method], features)

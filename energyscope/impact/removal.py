"""Removal: put something else in the place of what a component puts out, and prove that it changed.

- ``zero``: zeros.
- ``mean``: the component's mean output over the data (see `energyscope.impact.means`).
- ``resample``: what the component puts out for another example, the one before it in the batch (batches hold
  examples of about the same length). Where that one is shorter, its positions are taken again from the start.
- ``skip``: the component's own input, which for a layer is to leave it out (block influence).

It is done by forward hooks that are always removed. Where a module returns several things, the first tensor is
changed. A module that is called several times in a pass is changed at every call. Of a function that a module
calls (`energyscope.functions`), the calls by that module are changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.functions import routed
from energyscope.impact.means import Mean
from energyscope.impact.outputs import (
    Effect,
    as_returned,
    first_tensor,
    position_weights,
    positions_first,
    unsuitable,
    with_first_tensor,
)
from energyscope.reasons import Reason, reason

Change = Callable[[Tensor, Tensor], Tensor]  # features (B, S, F) and their padding mask (B, S) to other features


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
        inputs: list[Tensor | None] = []

        def before(_module: nn.Module, args: Any, kwargs: Any) -> None:
            tensor = first_tensor((*args, *kwargs.values()))
            inputs[:] = [None if tensor is None else tensor.clone()]  # a layer may write to its input

        def after(_module: nn.Module, _args: Any, output: Any) -> Any:
            return self._changed(inputs, output, mask, effect)

        with routed([self.module]), ExitStack() as stack:
            if self.change is None:
                stack.callback(self.module.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(self.module.register_forward_hook(after).remove)
            yield

    def _changed(self, inputs: Sequence[Tensor | None], output: Any, mask: Tensor, effect: Effect) -> Any:
        original = first_tensor(output)
        if original is None or not original.is_floating_point():
            effect.problem = unsuitable(original)
            return output
        features = positions_first(self.module, original)
        changed = self._by_input(inputs, features) if self.change is None else self._by_change(features, mask)
        if changed is None:
            effect.problem = reason("input-and-output-differ")
            return output
        weights = position_weights(features, mask)
        own = slice(*(self.features or (None,)))
        effect.add(features[..., own], changed[..., own], weights)
        return with_first_tensor(output, as_returned(self.module, changed, original))

    def _by_change(self, features: Tensor, mask: Tensor) -> Tensor:
        assert self.change is not None  # noqa: S101  said by the caller
        if self.features is None:
            return self.change(features, mask)
        own = slice(*self.features)
        changed = features.clone()
        changed[..., own] = self.change(features, mask)[..., own]
        return changed

    @staticmethod
    def _by_input(inputs: Sequence[Tensor | None], features: Tensor) -> Tensor | None:
        tensor = inputs[0] if inputs else None
        return None if tensor is None or tensor.shape != features.shape else tensor.to(features.dtype)


def zero(features: Tensor, _mask: Tensor) -> Tensor:
    """Put zeros in the place of an output."""
    return torch.zeros_like(features)


def resample(features: Tensor, mask: Tensor) -> Tensor:
    """Put every example's output in the place of the next one's in the batch; the first gets the last one's.

    Position t gets the giver's position t modulo its length, so that padding, which is on the right, reaches no
    example. What has no positions, such as a pooled (B, features), moves as it is.
    """
    batch, length = mask.shape
    if features.shape[:-1][:2] == (batch, length):
        return _from_the_one_before(features, mask)
    if features.shape[0] == batch * length:  # positions of all examples in one dimension
        by_example = features.reshape(batch, length, *features.shape[1:])
        return _from_the_one_before(by_example, mask).flatten(0, 1)
    return features.roll(1, 0)


def _from_the_one_before(features: Tensor, mask: Tensor) -> Tensor:
    batch, length = mask.shape
    givers = torch.arange(batch, device=features.device).roll(1)
    real = mask.to(features.device).bool().sum(1)[givers].clamp_min(1)
    positions = torch.arange(length, device=features.device) % real.unsqueeze(1)
    return features[givers.unsqueeze(1), positions]


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

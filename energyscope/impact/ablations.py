"""Change what one component puts out, by forward hooks that are always removed, and prove that it changed.

Zero ablation puts zeros in the place of the output, mean ablation the component's mean output over the data
(every feature's mean over examples and positions, padding left out). Where a module returns several things,
the first tensor is changed. A module that is called several times in a pass is changed at every call.

Of a function that a module calls (`energyscope.functions`), the calls by that module are changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

METHODS = ("zero", "mean")

Change = Callable[[Tensor], Tensor]


@contextmanager
def ablated(module: nn.Module, change: Change, mask: Tensor, effect: Effect) -> Iterator[None]:
    """Change the module's output as long as the context lasts; the hook is removed however it ends.

    ``change`` maps the output tensor to what takes its place; ``mask`` (B, S) says which positions are no
    padding; ``effect`` records how far the output changed. An output without a tensor of floating-point
    numbers is left alone, and the effect says so.
    """

    def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
        original = first_tensor(output)
        if original is None or not original.is_floating_point():
            effect.problem = unsuitable(original)
            return output
        features = positions_first(module, original)
        changed = change(features)
        effect.add(features, changed, position_weights(features, mask))
        return with_first_tensor(output, as_returned(module, changed, original))

    with routed([module]):
        handle = module.register_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()


def zero(tensor: Tensor) -> Tensor:
    """Put zeros in the place of an output."""
    return torch.zeros_like(tensor)


def replace_by(mean: Tensor) -> Change:
    """Put one feature vector, (features,), in the place of the output at every position."""

    def change(tensor: Tensor) -> Tensor:
        # a copy of its own for every position: a model may add to the output in place
        return mean.to(tensor.device, tensor.dtype).expand_as(tensor).clone()

    return change


def change_for(method: str, mean: Mean) -> Change | str:
    """Return what a method does to an output, or why it cannot be applied to this component.

    ``mean`` was gathered over the data, so that it also knows whether the component was called at all.
    """
    vector = mean.vector()
    if not mean.calls:
        return str(mean.problem)
    if method == "zero":
        return zero
    return replace_by(vector) if vector is not None else str(mean.problem)

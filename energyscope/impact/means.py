"""Every component's mean output over the data, gathered in one pass.

Every feature's mean over examples and positions, padding left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.functions import routed
from energyscope.impact.outputs import (
    as_rows,
    first_tensor,
    pieces,
    position_weights,
    positions_first,
    row_weights,
    unsuitable,
    weighted,
)
from energyscope.reasons import Reason, reason


@dataclass
class Mean:
    """The mean output of one component over the data; ``problem`` says why there is none."""

    calls: int = 0
    problem: Reason | None = None
    _sum: Tensor | None = field(default=None, repr=False)
    _count: float | Tensor = 0.0  # stays on the device: reading it at every call would wait for the GPU

    def add(self, output: Tensor, weights: Tensor) -> None:
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
                stack.callback(module.register_forward_hook(self._hook(self.means[name], mask)).remove)
            stack.enter_context(routed(self.modules.values()))
            yield

    @staticmethod
    def _hook(mean: Mean, mask: Tensor) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, _args: Any, output: Any) -> None:
            tensor = first_tensor(output)
            if tensor is None or not tensor.is_floating_point() or tensor.dim() < 2:
                mean.problem = unsuitable(tensor)
            else:
                features = positions_first(module, tensor)
                mean.add(features, position_weights(features, mask))

        return hook

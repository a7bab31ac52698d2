"""What quantization does to weights: quantized - original, for the predictors that multiply it with gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from energyscope.impact.predicting.gradients import widened
from energyscope.impact.predicting.weight_statistics import own_matrices
from energyscope.impact.quantizing.quantized import input_dim
from energyscope.impact.quantizing.quantizers import quantize_weight

WeightErrors = Callable[[nn.Module], Mapping[str, Tensor]]
"""Maps a module to quantized - original of the matrix weights that it owns itself, by parameter name."""


class WeightErrorCache:
    """Weight errors of several quantization methods, kept between batches as far as a budget allows."""

    def __init__(self, methods: Mapping[str, WeightErrors], budget_bytes: int) -> None:
        self.methods = methods
        self._budget = budget_bytes
        self._kept: dict[tuple[str, nn.Module], dict[str, Tensor]] = {}

    def of(self, method: str, module: nn.Module) -> dict[str, Tensor]:
        """Return the errors of a module's own matrix weights, float32 or wider, by parameter name."""
        key = (method, module)
        if key in self._kept:
            return self._kept[key]
        with torch.no_grad():
            errors = {name: widened(error.detach()) for name, error in self.methods[method](module).items()}
        size = sum(error.numel() * error.element_size() for error in errors.values())
        if size <= self._budget:
            self._budget -= size
            self._kept[key] = errors
        return errors


def simulated_errors(method: str) -> WeightErrors:
    """Return the errors of a simulated quantization; of ``-wa`` methods those of the weights only.

    Raises:
        UsageError: when it is used, if there is no such method.

    """
    return partial(_errors, method)


def _errors(method: str, module: nn.Module) -> dict[str, Tensor]:
    return {name: _error(method, module, weight.detach()) for name, weight in own_matrices(module).items()}


def _error(method: str, module: nn.Module, weight: Tensor) -> Tensor:
    if hasattr(module, "kernel_size"):  # a convolution adds over all dimensions but the output channel's
        quantized = quantize_weight(weight.flatten(1), method, input_dim=1).view_as(weight)
    else:
        quantized = quantize_weight(weight, method, input_dim=input_dim(module, weight))
    return widened(quantized) - widened(weight)

"""What weight matrices tell without data: their moments, and what quantization does to them.

A weight matrix is a parameter of two dimensions or more (see `energyscope.impact.quantizing.matrices`). Errors are
quantized - original, for the predictors that multiply them with gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from energyscope.impact.predicting.gradients import widened
from energyscope.impact.quantizing.matrices import own_matrices
from energyscope.impact.quantizing.quantized import rounded

PIECE = 2**24  # elements that are widened to float64 at once: 128 MiB

WeightErrors = Callable[[nn.Module], Mapping[str, Tensor]]
"""Maps a module to quantized - original of the matrix weights that it owns itself, by parameter name."""


@dataclass(frozen=True)
class Moments:
    """Of ``count`` weights pooled: largest magnitude, root mean square, excess kurtosis (None if all equal)."""

    count: int
    largest: float
    root_mean_square: float
    kurtosis: float | None

    @property
    def outliers(self) -> float | None:
        """Largest magnitude over root mean square; None where all weights are 0 or one is not finite."""
        ratio = self.largest / self.root_mean_square if self.root_mean_square > 0 else math.nan
        return ratio if math.isfinite(ratio) else None


def weight_moments(weights: Iterable[Tensor]) -> Moments:
    """Return the moments of several weight matrices pooled, in float64; a tied weight counts once."""
    tensors = list({id(weight): weight.detach() for weight in weights}.values())
    count = sum(tensor.numel() for tensor in tensors)
    largest = total = square = 0.0
    for piece in _pieces(tensors):
        largest = max(largest, float(piece.abs().max()))
        total += float(piece.sum())
        square += float(piece.square().sum())
    if not count:
        raise ValueError("there are no weights")
    mean = total / count
    second = fourth = 0.0
    for piece in _pieces(tensors):
        squares = (piece - mean).square()
        second += float(squares.sum())
        fourth += float(squares.square().sum())
    # of equal weights only rounding is left, which has no shape
    spread = second > count * (1e-12 * max(largest, abs(mean))) ** 2
    kurtosis = fourth * count / second**2 - 3 if spread else math.nan
    rms = math.sqrt(square / count)
    return Moments(count, largest, rms, kurtosis if math.isfinite(kurtosis) else None)


def _pieces(tensors: list[Tensor]) -> Iterator[Tensor]:
    for tensor in tensors:
        for piece in torch.split(tensor.flatten(), PIECE):
            if piece.numel():
                yield piece.double()


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
    return {
        name: widened(rounded(module, weight.detach(), method)) - widened(weight.detach())
        for name, weight in own_matrices(module).items()
    }

"""What weight matrices look like: their largest value, their spread, their tails. No data are needed.

A weight matrix is a parameter of two dimensions or more (see `energyscope.impact.quantizing.matrices`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from energyscope.impact.quantizing.matrices import about, matrices_of
from energyscope.reasons import Reason, reason

PIECE = 2**24  # elements that are widened to float64 at once: 128 MiB


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


def own_matrices(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the weight matrices that a module owns itself, by name, also those stored quantized."""
    return {matrix.name: matrix.weight for matrix in matrices_of(module) if matrix.owner is module}


def owners(module: nn.Module) -> list[nn.Module]:
    """Return the modules at and below this one that own weight matrices."""
    return list(dict.fromkeys(matrix.owner for matrix in matrices_of(module)))


def is_quantized(module: nn.Module) -> bool:
    """Whether a weight matrix that the module owns is stored as codes and not as numbers."""
    return any(_is_codes(parameter) for parameter in own_matrices(module).values())


def why_no_matrices(module: nn.Module) -> Reason | None:
    """Return why a component's weight matrices cannot be looked at, or None."""
    matrices = matrices_of(module)
    if not matrices:
        return reason("no-weight-matrix")
    quantized = [matrix for matrix in matrices if _is_codes(matrix.weight)]
    return about("weights-quantized", quantized) if quantized else None


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


def _is_codes(weight: Tensor) -> bool:
    # numbers of a byte come with scales; bitsandbytes may store 4-bit codes as any dtype
    return not weight.is_floating_point() or weight.element_size() < 2 or hasattr(weight, "quant_state")

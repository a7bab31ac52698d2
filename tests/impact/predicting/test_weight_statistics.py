from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from energyscope.functions import FunctionCall
from energyscope.impact.predicting import weight_statistics
from energyscope.impact.predicting.weight_statistics import (
    own_matrices,
    owners,
    weight_moments,
    why_no_matrices,
)
from energyscope.reasons import reason


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def test_moments_of_known_shapes() -> None:
    """GIVEN a normal, a uniform and a two-valued matrix THEN excess kurtosis is near 0, -1.2 and exactly -2."""
    assert weight_moments([normal(500, 500)]).kurtosis == pytest.approx(0, abs=0.05)
    assert weight_moments([torch.linspace(-1, 1, 10001)[None]]).kurtosis == pytest.approx(-1.2, abs=1e-3)
    assert weight_moments([torch.tensor([[1.0, -1.0]])]).kurtosis == pytest.approx(-2.0)


def test_one_outlier_shows() -> None:
    """GIVEN one weight of 100 among 9,999 ones THEN it is 100 / rms, and the kurtosis is high."""
    weight = torch.ones(100, 100)
    weight[3, 4] = -100.0
    found = weight_moments([weight])
    assert found.outliers == pytest.approx(100 / math.sqrt((9999 + 1e4) / 1e4))
    assert found.kurtosis is not None
    assert found.kurtosis > 1000


@pytest.mark.parametrize("value", [0.0, 0.1, math.nan, math.inf])
def test_flat_or_broken_weights_have_no_shape(value: float) -> None:
    """GIVEN weights that are all equal, or not finite, THEN what is undefined is None, never 0."""
    found = weight_moments([torch.full((8, 8), value)])
    assert found.kurtosis is None
    assert found.outliers == (pytest.approx(1.0) if value == 0.1 else None)


def test_pieces_and_tied_weights_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a matrix read in pieces, or listed twice, THEN its moments are those of the matrix, by numpy."""
    weight = normal(30, 20)
    monkeypatch.setattr(weight_statistics, "PIECE", 7)
    found = weight_moments([weight, weight])
    values = weight.double().numpy().ravel()
    centred = values - values.mean()
    assert found.count == 600
    assert found.root_mean_square == pytest.approx(np.sqrt((values**2).mean()))
    assert found.kurtosis == pytest.approx((centred**4).mean() / (centred**2).mean() ** 2 - 3)


def test_half_precision_is_widened() -> None:
    """GIVEN FP16 weights whose fourth powers vanish in FP16 THEN the moments are those of their values."""
    weight = (normal(64, 64) * 1e-3).half()
    assert weight_moments([weight]).kurtosis == pytest.approx(weight_moments([weight.double()]).kurtosis or 0.0)


def test_what_counts_as_a_matrix() -> None:
    """GIVEN norms, biases, functions and experts THEN matrices are parameters of two dimensions or more."""
    assert why_no_matrices(nn.LayerNorm(4)) == "no-weight-matrix"
    linear = nn.Linear(3, 4)
    function = FunctionCall("torch.nn.functional.scaled_dot_product_attention", linear)
    assert why_no_matrices(function) == "no-weight-matrix"
    assert list(own_matrices(linear)) == ["weight"]
    stack = nn.Sequential(nn.LayerNorm(4), linear, nn.Sequential(nn.Embedding(5, 4)))
    assert [type(owner).__name__ for owner in owners(stack)] == ["Linear", "Embedding"]
    assert why_no_matrices(stack) is None


def test_codes_are_no_weights() -> None:
    """GIVEN a matrix of integers THEN the component's weights are said to be quantized."""
    linear = nn.Linear(3, 4)
    linear.weight = nn.Parameter(torch.ones(4, 3, dtype=torch.int8), requires_grad=False)
    assert why_no_matrices(nn.Sequential(linear, nn.Linear(4, 4))) == reason(
        "weights-quantized", weights=1, first="0.weight"
    )

"""Weight matrices without data: their shape, and the errors of quantizing them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from energyscope.errors import UsageError
from energyscope.impact.predicting import predictors
from energyscope.impact.predicting.predictors import weight_shape
from energyscope.impact.predicting.weight_gradients import WeightErrorCache, simulated_errors


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def test_kurtosis_of_known_shapes() -> None:
    """GIVEN a normal, a uniform and a two-valued matrix THEN excess kurtosis is near 0, -1.2 and exactly -2."""
    assert weight_shape([normal(500, 500)])[1] == pytest.approx(0, abs=0.05)
    assert weight_shape([torch.linspace(-1, 1, 10001)[None]])[1] == pytest.approx(-1.2, abs=1e-3)
    assert weight_shape([torch.tensor([[1.0, -1.0]])])[1] == pytest.approx(-2.0)


def test_one_outlier_shows() -> None:
    """GIVEN one weight of 100 among 9,999 ones THEN it is 100 / rms, and the kurtosis is high."""
    weight = torch.ones(100, 100)
    weight[3, 4] = -100.0
    outliers, kurtosis = weight_shape([weight])
    assert outliers == pytest.approx(100 / math.sqrt((9999 + 1e4) / 1e4))
    assert kurtosis is not None
    assert kurtosis > 1000


@pytest.mark.parametrize("value", [0.0, 0.1, math.nan, math.inf])
def test_flat_or_broken_weights_have_no_shape(value: float) -> None:
    """GIVEN weights that are all equal, or not finite, THEN what is undefined is None, never 0."""
    expected = pytest.approx(1.0) if value == 0.1 else None
    assert weight_shape([torch.full((8, 8), value)]) == (expected, None)


def test_pieces_and_tied_weights_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a matrix read in pieces, or listed twice, THEN its shape is that of the matrix, by numpy."""
    weight = normal(30, 20)
    monkeypatch.setattr(predictors, "PIECE", 7)
    values = weight.double().numpy().ravel()
    centred = values - values.mean()
    outliers = np.abs(values).max() / np.sqrt((values**2).mean())
    kurtosis = (centred**4).mean() / (centred**2).mean() ** 2 - 3
    assert weight_shape([weight, weight]) == pytest.approx((outliers, kurtosis))


def test_half_precision_is_widened() -> None:
    """GIVEN FP16 weights whose fourth powers vanish in FP16 THEN the shape is that of their values."""
    weight = (normal(64, 64) * 1e-3).half()
    assert weight_shape([weight]) == pytest.approx(weight_shape([weight.double()]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_errors_are_small_and_do_not_touch_the_weight(dtype: torch.dtype) -> None:
    """GIVEN a linear layer THEN INT8's errors are at most half a step of each channel, and its weight stays."""
    torch.manual_seed(0)
    linear = nn.Linear(32, 8).to(dtype)
    before = linear.weight.detach().clone()
    error = simulated_errors("int8")(linear)["weight"]
    step = before.float().abs().amax(1, keepdim=True) / 127
    rounding = torch.finfo(dtype).eps * before.float().abs()
    assert error.dtype == torch.float32
    assert bool((error.abs() <= step / 2 + rounding).all())
    assert bool(error.any())
    assert torch.equal(linear.weight, before)


def test_unknown_methods_are_refused() -> None:
    """GIVEN no such method THEN a UsageError names it."""
    with pytest.raises(UsageError, match="int3"):
        simulated_errors("int3")(nn.Linear(2, 2))


@pytest.mark.parametrize(("budget", "calls"), [(10**6, 1), (0, 3)])
def test_errors_are_kept_within_their_budget(budget: int, calls: int) -> None:
    """GIVEN room THEN errors are computed once, else each time, and are the same."""
    modules = []

    def method(module: nn.Module) -> dict[str, torch.Tensor]:
        modules.append(module)
        return {"weight": torch.ones(2, 2, dtype=torch.bfloat16)}

    cache, module = WeightErrorCache({"q": method}, budget), nn.Linear(2, 2)
    errors = [cache.of("q", module)["weight"] for _ in range(3)]
    assert len(modules) == calls
    assert all(error.dtype == torch.float32 and bool((error == 1).all()) for error in errors)

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from energyscope.errors import UsageError
from energyscope.functions import FunctionCall
from energyscope.impact.predicting import weights
from energyscope.impact.predicting.weights import WeightErrorCache, simulated_errors, weight_moments
from energyscope.impact.quantizing.matrices import own_matrices, owners, why_no_matrices
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
    monkeypatch.setattr(weights, "PIECE", 7)
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


def test_channels_are_found_in_either_layout() -> None:
    """GIVEN a Linear and the Conv1D of the same product THEN their errors are each other's transpose."""
    torch.manual_seed(0)
    linear, conv = nn.Linear(16, 8), Conv1D(8, 16)
    linear.weight.data[3] *= 50  # a large channel, that must not set the others' scale
    conv.weight.data = linear.weight.data.T.contiguous()
    for method in ("int8", "int4", "nf4"):
        ours, theirs = (simulated_errors(method)(module)["weight"] for module in (linear, conv))
        torch.testing.assert_close(ours, theirs.T, rtol=0, atol=0)


def test_a_convolution_adds_over_all_but_its_channels() -> None:
    """GIVEN a convolution THEN each output channel has one scale: its largest weight keeps its value."""
    torch.manual_seed(0)
    conv = nn.Conv1d(4, 3, 5)
    error = simulated_errors("int8")(conv)["weight"].flatten(1)
    largest = conv.weight.flatten(1).abs().argmax(1, keepdim=True)
    assert float(error.gather(1, largest).abs().max()) < 1e-6
    assert bool(error.any())


def test_unknown_methods_are_refused() -> None:
    """GIVEN no such method THEN a UsageError names it."""
    with pytest.raises(UsageError, match="int3"):
        simulated_errors("int3")(nn.Linear(2, 2))


@pytest.mark.parametrize(("budget", "calls"), [(10**6, 1), (0, 3)])
def test_errors_are_kept_within_their_budget(budget: int, calls: int) -> None:
    """GIVEN room THEN errors are computed once, else each time, and are the same."""
    seen = []

    def method(module: nn.Module) -> dict[str, torch.Tensor]:
        seen.append(module)
        return {"weight": torch.ones(2, 2, dtype=torch.bfloat16)}

    errors, module = WeightErrorCache({"q": method}, budget), nn.Linear(2, 2)
    found = [errors.of("q", module)["weight"] for _ in range(3)]
    assert len(seen) == calls
    assert all(item.dtype == torch.float32 and bool((item == 1).all()) for item in found)

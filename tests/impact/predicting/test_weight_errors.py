from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from energyscope.errors import UsageError
from energyscope.impact.predicting.weight_errors import WeightErrorCache, simulated_errors


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

"""Captured tensors stay on their device within a budget, and keep how they lie in memory."""

from __future__ import annotations

import pytest
import torch

from energyscope.replay.activations import ActivationStore, device_budget, staged
from energyscope.replay.tensors import cloned


@pytest.mark.parametrize(
    "view",
    [
        torch.arange(72.0).reshape(2, 36)[:, :12],
        torch.arange(24.0).reshape(2, 3, 4).transpose(1, 2),
        torch.ones(1, 1, 4, 4).expand(1, 3, 4, 4),
        torch.tensor(3.0),
        torch.zeros(0, 3),
    ],
    ids=["gaps", "transposed", "expanded", "scalar", "empty"],
)
def test_clones_keep_values_and_strides(view):
    """A clone has the values, the shape and the strides of its original, and memory of its own."""
    clone = cloned({"x": (view,)})["x"][0]
    assert torch.equal(clone, view)
    assert clone.shape == view.shape
    assert clone.stride() == view.stride()
    assert clone.numel() == 0 or clone.data_ptr() != view.data_ptr()


class Elsewhere(torch.Tensor):
    """Tells that it was copied to the host."""

    moved = 0

    def cpu(self):
        Elsewhere.moved += 1
        return self


def test_beyond_the_budget_clones_go_to_the_host():
    """GIVEN a budget of 100 bytes THEN the first 80 stay on the device, and the next 80 are copied to the host."""
    store = ActivationStore(budget_bytes=100)
    Elsewhere.moved = 0
    for expected in (0, 1):
        store.keep(torch.zeros(20).as_subclass(Elsewhere))
        assert Elsewhere.moved == expected
    assert store.kept_bytes[torch.device("cpu")] == 80


def test_a_cpu_has_no_budget():
    """On the host itself nothing is moved."""
    assert device_budget(torch.device("cpu")) is None
    tensor = torch.ones(3)
    assert staged([tensor])[0] is tensor

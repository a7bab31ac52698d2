"""A small model runs on one thread of the CPU; a large one, a GPU's, or one with a number given keeps its own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from energyscope.loading.devices import fitting_threads

SMALL, LARGE = nn.Linear(8, 8), nn.Linear(5_000, 2_001, device="meta")
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("model", "device", "given", "threads"),
    [(SMALL, CPU, None, 1), (LARGE, CPU, None, 2), (SMALL, CUDA, None, 2), (SMALL, CPU, "2", 2)],
)
@pytest.mark.usefixtures("two_threads")
def test_a_small_model_runs_on_one_thread(monkeypatch, model, device, given, threads):
    """GIVEN two threads WHEN a model runs THEN a small one on the CPU has one, unless OMP_NUM_THREADS is given."""
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    with fitting_threads(model, device):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2

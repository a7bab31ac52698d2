"""Threads of a small model and of others; the names that torch has for GPUs of NVIDIA and AMD."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from energyscope.loading.devices import cuda_uuid, fitting_threads, visible_gpus

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


NO_NUMBER = "58580000-0000-0000-0000-000000000000"  # HIP's "XX": a board without a number of its own
HEX = "65363561-3263-3061-3365-633262366231"  # e65a2c0a3ec2b6b1, a byte a digit
PCI = {"pci_domain_id": 0, "pci_bus_id": 0xC1, "pci_device_id": 0}


@pytest.mark.parametrize(
    ("hip", "uuid", "pci", "name"),
    [
        (None, HEX, PCI, HEX),
        ("6.4", HEX, {}, "AMD-e65a2c0a3ec2b6b1"),
        ("6.4", HEX, PCI, "AMD-e65a2c0a3ec2b6b1"),
        ("6.4", NO_NUMBER, PCI, "AMD-0000:c1:00"),
        ("6.4", NO_NUMBER, {}, f"AMD-{NO_NUMBER}"),
    ],
)
def test_a_gpu_is_named_by_uuid_or_pci_address(monkeypatch, hip, uuid, pci, name):
    """GIVEN CUDA THEN the UUID is as it is; GIVEN ROCm THEN as ROCm writes it, or else the PCI address."""
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=uuid, **pci))
    assert cuda_uuid(torch.device("cuda", 0)) == name
    assert visible_gpus() == {name: torch.device("cuda", 0)}

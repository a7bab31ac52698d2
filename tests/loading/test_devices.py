"""CUDA's own view of the GPUs."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from energyscope.loading.devices import cuda_uuid, visible_gpus


def test_every_gpu_is_listed_with_its_uuid(monkeypatch):
    """Each GPU that CUDA counts is asked for its own UUID, in CUDA's order."""
    known = {0: "1a9f-11", 1: "1a2b-00"}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(known))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=known[device.index])
    )
    assert visible_gpus() == {"1a9f-11": torch.device("cuda:0"), "1a2b-00": torch.device("cuda:1")}
    assert cuda_uuid(torch.device("cuda:1")) == "1a2b-00"


def test_without_cuda_there_are_none(monkeypatch):
    """GIVEN a torch that counts no GPU THEN nothing is listed, and nothing fails."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert visible_gpus() == {}

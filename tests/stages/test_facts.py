"""What a run's document says of its device and its sensor."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from energyscope.metering.group import MeterGroup
from energyscope.metering.modelled import ModelledMeter
from energyscope.metering.nvml.meter import NvmlMeter
from energyscope.stages import facts

TWO = "gpu GPU-aaaa Fake H200\nat 0 power_w 200\ngpu GPU-bbbb Fake T4\nat 0 power_w 50"
SLICED = "gpu GPU-aaaa Fake A100\nat 0 mig_mode 1\nmig MIG-bbbb 1g.10gb"


@pytest.fixture
def cuda(monkeypatch):
    """Let CUDA's device have this UUID."""

    def has(uuid):
        found = SimpleNamespace(uuid=uuid, name="CUDA's name", total_memory=10, L2_cache_size=50 << 20)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: found)
        return torch.device("cuda", 0)

    return has


def test_whether_tf32_makes_fp32_products_is_known(monkeypatch):
    """GIVEN torch's default and its setting ``high`` THEN it says that TF32 is not, or is, allowed."""
    assert facts.environment()["float32_matmul_precision"] == "highest (no TF32)"
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert facts.environment()["float32_matmul_precision"] == "high (TF32 allowed)"


def test_a_gpu_is_described_by_nvml(fake_nvml, cuda):
    """GIVEN NVML numbers GPUs otherwise THEN the facts are those of the GPU with CUDA's UUID."""
    fake_nvml(TWO)
    found = facts.device_facts(cuda("bbbb"))
    assert (found["uuid"], found["name"], found["index"]) == ("GPU-bbbb", "Fake T4", 0)
    assert found["power_limit_w"] == 700


def test_a_slice_is_itself_on_its_gpu(fake_nvml, cuda):
    """GIVEN a MIG slice THEN the UUID is the slice's, and the GPU's name and mode are known."""
    fake_nvml(SLICED)
    found = facts.device_facts(cuda("bbbb"))
    assert (found["uuid"], found["name"], found["mig"]) == ("MIG-bbbb", "Fake A100", True)


def test_a_gpu_without_nvml_is_described_by_cuda(fake_nvml, cuda):
    """WHEN NVML cannot be asked THEN what CUDA knows is left, and the rest is None."""
    fake_nvml("at 0 fail nvmlInit 9")
    found = facts.device_facts(cuda("bbbb"))
    assert (found["uuid"], found["name"], found["power_limit_w"]) == ("GPU-bbbb", "CUDA's name", None)


def test_only_measured_gpus_are_named(fake_nvml):
    """A modelled meter measures no GPU."""
    fake_nvml(TWO)
    assert facts.measured_gpus(MeterGroup([NvmlMeter("GPU-bbbb"), NvmlMeter("GPU-aaaa")])) == [
        "GPU-bbbb",
        "GPU-aaaa",
    ]
    assert facts.measured_gpus(MeterGroup([ModelledMeter(50.0)])) == []


def test_the_idle_sensor_of_several_gpus(monkeypatch):
    """Idle powers add up, each device is listed, and one unknown power makes the sum unknown."""
    idle = {"GPU-aaaa": 70.0, "GPU-bbbb": 30.0}
    monkeypatch.setattr(facts, "idle_facts", lambda meter: {"meter": "nvml", "idle_w": idle[meter.device]})
    group = SimpleNamespace(meters=[SimpleNamespace(device=name) for name in idle])
    found = facts.idle_sensor(group)
    assert (found["idle_w"], [one["idle_w"] for one in found["devices"]]) == (100.0, [70.0, 30.0])
    idle["GPU-bbbb"] = None
    assert facts.idle_sensor(group)["idle_w"] is None


def test_one_gpu_is_not_listed():
    """GIVEN a single meter THEN its facts stand by themselves."""
    with MeterGroup([ModelledMeter(50.0)]) as group:
        found = facts.idle_sensor(group)
    assert "devices" not in found
    assert (found["device"], found["idle_w"]) == ("cpu", None)


def test_what_was_known_is_kept():
    """WHEN a later description lacks a fact, or knows it no more, THEN the earlier one stays, for each device."""
    before = {"idle_w": 100.0, "tick_period_s": 0.1, "devices": [{"idle_w": 70.0}, {"idle_w": 30.0}]}
    now = {"tick_period_s": None, "read_cost_s": 0.004, "notes": [], "devices": [{"read_cost_s": 0.004}, {}]}
    assert facts.known_of_sensor(before, now) == {
        "idle_w": 100.0, "tick_period_s": 0.1, "read_cost_s": 0.004, "notes": [],
        "devices": [{"idle_w": 70.0, "read_cost_s": 0.004}, {"idle_w": 30.0}],
    }  # fmt: skip


def test_the_most_host_memory_is_known():
    """It holds what was allocated, also after it is gone: 64 MB more show."""
    from energyscope.stages.facts import host_peak_bytes

    before = host_peak_bytes()
    held = bytearray(b"x") * (before + (64 << 20))
    del held
    assert host_peak_bytes() > before + (32 << 20)

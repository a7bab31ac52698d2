"""What a run's document says of its device, its sensor and its model."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from fake_powercap import one_socket

from energyscope.loading import load_model
from energyscope.metering.group import MeterGroup
from energyscope.metering.modelled import ModelledMeter
from energyscope.metering.nvml.meter import NvmlMeter
from energyscope.metering.rapl.meter import RaplMeter
from energyscope.reasons import reason, words
from energyscope.stages import facts

TWO = "gpu GPU-aaaa Fake H200\nat 0 power_w 200\ngpu GPU-bbbb Fake T4\nat 0 power_w 50"
SLICED = "gpu GPU-aaaa Fake A100\nat 0 mig_mode 1\nmig MIG-bbbb 1g.10gb"


@pytest.fixture
def cuda(monkeypatch):
    """Let CUDA's device have this UUID."""

    def has(uuid):
        properties = SimpleNamespace(uuid=uuid, name="CUDA's name", total_memory=10, L2_cache_size=50 << 20)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
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
    device = facts.device_facts(cuda("bbbb"))
    assert (device["uuid"], device["name"], device["index"]) == ("GPU-bbbb", "Fake T4", 0)
    assert device["power_limit_w"] == 700


def test_a_slice_is_itself_on_its_gpu(fake_nvml, cuda):
    """GIVEN a MIG slice THEN the UUID is the slice's, and the GPU's name and mode are known."""
    fake_nvml(SLICED)
    device = facts.device_facts(cuda("bbbb"))
    assert (device["uuid"], device["name"], device["mig"]) == ("MIG-bbbb", "Fake A100", True)


def test_a_gpu_without_nvml_is_described_by_cuda(fake_nvml, cuda):
    """WHEN NVML cannot be asked THEN what CUDA knows is left, and the rest is None."""
    fake_nvml("at 0 fail nvmlInit 9")
    device = facts.device_facts(cuda("bbbb"))
    assert (device["uuid"], device["name"], device["power_limit_w"]) == ("GPU-bbbb", "CUDA's name", None)


def test_a_gpu_of_rocm_is_described_without_nvml(fake_nvml, cuda, monkeypatch):
    """GIVEN torch with ROCm THEN the GPU has the UUID that ROCm writes, and NVML is not asked."""
    fake_nvml(TWO)
    monkeypatch.setattr("energyscope.metering.nvml.devices.find_gpu", None)
    monkeypatch.setattr(torch.version, "hip", "6.4.1")
    device = facts.device_facts(cuda("65363561-3263-3061-3365-633262366231"))
    assert (device["type"], device["name"], device["power_limit_w"]) == ("cuda", "CUDA's name", None)
    assert device["uuid"] == facts.gpu_uuid(torch.device("cuda", 0)) == "AMD-e65a2c0a3ec2b6b1"
    assert facts.environment()["hip"] == "6.4.1"


def test_only_measured_gpus_are_named(fake_nvml):
    """A modelled meter measures no GPU."""
    fake_nvml(TWO)
    assert facts.measured_gpus(MeterGroup([NvmlMeter("GPU-bbbb"), NvmlMeter("GPU-aaaa")])) == [
        "GPU-bbbb",
        "GPU-aaaa",
    ]
    assert facts.measured_gpus(MeterGroup([ModelledMeter(50.0)])) == []


def test_the_processor_is_measured_and_is_no_gpu(tmp_path):
    """GIVEN the processor's counters THEN one run claims it, and no GPU; a modelled one is not claimed."""
    with one_socket(tmp_path).writing():
        group = MeterGroup([RaplMeter(tmp_path)])
    assert (facts.measured_devices(group), facts.measured_gpus(group)) == (["cpu"], [])
    assert facts.measured_devices(MeterGroup([ModelledMeter(50.0)])) == []


def test_the_idle_sensor_of_several_gpus(monkeypatch):
    """Idle powers add up, each device is listed, and one unknown power makes the sum unknown."""
    idle = {"GPU-aaaa": 70.0, "GPU-bbbb": 30.0}
    monkeypatch.setattr(facts, "idle_facts", lambda meter: {"meter": "nvml", "idle_w": idle[meter.device]})
    group = MeterGroup([SimpleNamespace(device=name, name="nvml", modelled=False) for name in idle])
    sensor = facts.idle_sensor(group)
    assert (sensor["idle_w"], [device["idle_w"] for device in sensor["devices"]]) == (100.0, [70.0, 30.0])
    idle["GPU-bbbb"] = None
    assert facts.idle_sensor(group)["idle_w"] is None


def test_one_gpu_is_not_listed():
    """GIVEN a single meter THEN its facts stand by themselves."""
    with MeterGroup([ModelledMeter(50.0)]) as group:
        sensor = facts.idle_sensor(group)
    assert "devices" not in sensor
    assert (sensor["device"], sensor["idle_w"]) == ("cpu", None)


def test_what_was_known_is_kept():
    """WHEN a later description lacks a fact, or knows it no more, THEN the earlier one stays, for each device."""
    before = {"idle_w": 100.0, "tick_period_s": 0.1, "devices": [{"idle_w": 70.0}, {"idle_w": 30.0}]}
    now = {"tick_period_s": None, "read_cost_s": 0.004, "notes": [], "devices": [{"read_cost_s": 0.004}, {}]}
    assert facts.known_of_sensor(before, now) == {
        "idle_w": 100.0, "tick_period_s": 0.1, "read_cost_s": 0.004, "notes": [],
        "devices": [{"idle_w": 70.0, "read_cost_s": 0.004}, {"idle_w": 30.0}],
    }  # fmt: skip


def test_reasons_of_the_host_are_kept_by_stage():
    """GIVEN a reason of an earlier stage THEN it stays and each is named once; where nothing is read, without."""
    read, lost = (
        {"host_domains": ["package-0"], "host_reason": why}
        for why in (None, str(reason("meter-unusable", error="gone")))
    )
    first = facts.host_so_far({}, lost, "generate")
    both = facts.host_so_far(facts.host_so_far(first, read, "profile"), lost, "benchmark")
    again = facts.host_so_far(both, lost, "benchmark")
    assert words(both["host_reason"]) == words(again["host_reason"]) == "generate: gone; benchmark: gone"
    closed = {"host_domains": [], "host_reason": lost["host_reason"]}
    assert facts.host_so_far(facts.host_so_far({}, closed, "generate"), closed, "profile") == closed
    assert facts.host_so_far(read, closed, "profile") == facts.host_so_far({}, lost, "profile")
    assert facts.host_so_far(read, {}, "profile") == {}
    opened = facts.host_so_far(closed, read, "profile")["host_reason"]
    assert words(opened) == "earlier stages: gone"


def test_the_most_host_memory_is_known():
    """It holds what was allocated, also after it is gone: 64 MB more show."""
    from energyscope.stages.facts import host_peak_bytes

    before = host_peak_bytes()
    held = bytearray(b"x") * (before + (64 << 20))
    del held
    assert host_peak_bytes() > before + (32 << 20)


# --- a quantized model: what it really has, not what was asked for ---------------------------------------------


def quantization(**options):
    return facts.model_facts(load_model("tiny-llama", device="cpu", **options))["quantization"]


def test_a_model_that_is_not_quantized_has_none():
    """GIVEN fp32, THEN the block is None."""
    assert quantization() is None


def test_the_default_compute_dtype_is_the_one_used():
    """GIVEN nf4 on a CPU without --compute-dtype, THEN the block says float32, and that the head is left."""
    pytest.importorskip("bitsandbytes")
    assert quantization(precision="nf4") == {
        "method": "nf4", "double_quant": False, "compute_dtype": "float32", "skipped": ["lm_head"],
    }  # fmt: skip


def test_options_are_seen_in_the_layers():
    """GIVEN double quantization, bf16 and a module to skip, THEN the block has all three."""
    pytest.importorskip("bitsandbytes")
    options = quantization(
        precision="nf4", double_quant=True, compute_dtype="bf16", skip_modules=("model.layers.0",)
    )
    assert (options["double_quant"], options["compute_dtype"]) == (True, "bfloat16")
    assert "model.layers.0.mlp.up_proj" in options["skipped"]
    assert "model.layers.1.mlp.up_proj" not in options["skipped"]


def test_int8_has_neither_scales_to_quantize_nor_one_dtype():
    """GIVEN int8, THEN what does not apply is None."""
    pytest.importorskip("bitsandbytes")
    options = quantization(precision="int8")
    assert (options["method"], options["double_quant"], options["compute_dtype"]) == ("int8", None, None)


@pytest.mark.parametrize(
    ("load", "modelled", "device", "told"),
    [
        (12.0, True, "cpu", True),
        (2.0, True, "cpu", False),
        (12.0, False, "cpu", False),
        (12.0, True, "cuda", False),
    ],
)
def test_a_busy_host_is_told_before_times_are_measured(monkeypatch, load, modelled, device, told):
    """GIVEN two cores WHEN the load is 12 THEN a run that takes times of the CPU says so, with both numbers."""
    monkeypatch.setattr(facts.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(facts.os, "getloadavg", lambda: (load, 0.0, 0.0))
    found = facts.load_of_host(torch.device(device), SimpleNamespace(modelled=modelled))
    assert [note.words.startswith("load 12.0 on 2 cores") for note in found] == [True] * told

"""The choice of a meter: by name, or the best that answers, with the reason; never silently a modelled one."""

from __future__ import annotations

import sys

import pytest
from fake_counters.fake_scene import place
from fake_nvml.nvidia_smi import install
from fake_powercap import one_socket

from energyscope.errors import MeterError, UsageError
from energyscope.metering.choice import open_meter, would_model
from energyscope.metering.rapl.powercap import ROOT_VARIABLE
from energyscope.reasons import reason, split

STEADY = "gpu GPU-aaaa Fake H200\nat 0 power_w 200"
NO_COUNTER = f"{STEADY}\nat 0 fail nvmlDeviceGetTotalEnergyConsumption 3"
NO_POWER = f"{NO_COUNTER}\nat 0 fail nvmlDeviceGetFieldValues 3\nat 0 fail nvmlDeviceGetPowerUsage 3"
AMD = {"bdf": "0000:c1:00.0", "serial": "0xE65A2C0A3EC2B6B1", "watts": 300.0}
SMI = {"uuid": "GPU-aaaa", "answers": {"name": "Fake H200", "power.draw": "200.0"}}


@pytest.fixture(autouse=True)
def without_command(tmp_path, monkeypatch):
    """No nvidia-smi is on PATH unless a test installs one there."""
    monkeypatch.setenv("PATH", str(tmp_path))


def test_auto_takes_the_counter_and_says_why(fake_nvml):
    """GIVEN a counter that ticks THEN auto takes it."""
    fake_nvml(STEADY)
    meter = open_meter("auto", gpu_uuid="GPU-aaaa")
    assert meter.name == "nvml"
    (choice,) = split(meter.describe()["choice"])
    assert choice.code == "counter-ticks"
    assert choice.values["period_s"] == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("code", [3, 4])
def test_without_a_readable_counter_auto_integrates_power(fake_nvml, code):
    """GIVEN no counter, or none that we may read, THEN the power field is next, and the reason is kept."""
    fake_nvml(NO_COUNTER.replace("Consumption 3", f"Consumption {code}"))
    meter = open_meter("auto", gpu_uuid="GPU-aaaa")
    taken, failed = split(meter.describe()["choice"])
    assert meter.name == "nvml-power"
    assert taken == reason("power-answers", field="the instant power of NVML")
    assert failed.code == "meter-unusable"
    assert {3: "NVMLError_NotSupported", 4: "NVMLError_NoPermission"}[code] in failed.values["error"]


def test_a_frozen_counter_is_passed_over(fake_nvml, monkeypatch):
    """GIVEN a counter that exists but stands still THEN auto goes on to the next."""
    monkeypatch.setattr("energyscope.metering.nvml.meter.TICKING_TIMEOUT_S", 0.4)
    fake_nvml(f"{STEADY}\nat 0 frozen 1")
    meter = open_meter("auto", gpu_uuid="GPU-aaaa")
    assert meter.name == "nvml-power"
    assert "stands still" in meter.describe()["choice"]


def test_the_command_is_the_last_resort(fake_nvml, tmp_path):
    """GIVEN NVML without energy and power THEN nvidia-smi is taken where it reports power."""
    fake_nvml(NO_POWER)
    install(tmp_path, SMI)
    meter = open_meter("auto", gpu_uuid="GPU-aaaa")
    assert meter.name == "nvidia-smi"
    taken, *failed = split(meter.describe()["choice"])
    assert taken == reason("power-answers", field="power.draw of nvidia-smi")
    assert [failure.code for failure in failed] == ["meter-unusable"] * 2


def test_a_gpu_that_nothing_can_read_is_never_modelled_silently(fake_nvml):
    """GIVEN no way to read the GPU THEN auto is an error that names each failure and --meter modelled."""
    fake_nvml(NO_POWER)
    with pytest.raises(MeterError, match=r"energy counter.*no power field.*nvidia-smi.*--meter modelled"):
        open_meter("auto", gpu_uuid="GPU-aaaa")


def test_without_nvml_the_command_still_works(fake_nvml, tmp_path):
    """WHEN Python cannot reach NVML THEN auto and nvidia-smi use the command, and nvml says what is missing."""
    fake_nvml("at 0 fail nvmlInit 9")
    install(tmp_path, SMI)
    assert open_meter("auto", gpu_uuid="GPU-aaaa").name == "nvidia-smi"
    assert open_meter("nvidia-smi", gpu_uuid="GPU-aaaa", interval_s=0.5).interval_s == 0.5
    with pytest.raises(MeterError, match="driver"):
        open_meter("nvml", gpu_uuid="GPU-aaaa")


@pytest.mark.parametrize(("name", "chosen"), [("nvml", "nvml"), ("nvml-power", "nvml-power")])
def test_a_meter_by_name_is_that_meter(fake_nvml, name, chosen):
    """What was asked for is opened, and the description says that it was asked for."""
    fake_nvml(STEADY)
    meter = open_meter(name, gpu_uuid="aaaa")
    assert (meter.name, meter.device, meter.describe()["choice"]) == (chosen, "GPU-aaaa", "asked-for")


def test_a_named_meter_is_never_replaced(fake_nvml):
    """WHEN the counter cannot be read THEN --meter nvml fails."""
    fake_nvml(NO_COUNTER)
    with pytest.raises(MeterError, match="energy counter"):
        open_meter("nvml", gpu_uuid="GPU-aaaa")


@pytest.mark.parametrize("name", ["auto", "nvml", "nvml-power"])
def test_a_slice_is_refused_or_measured_whole(fake_nvml, name):
    """GIVEN a MIG slice THEN the meter asks for --whole-gpu, and with it measures and labels the parent."""
    fake_nvml(f"{STEADY}\nat 0 mig_mode 1\nmig MIG-bbbb 1g.10gb")
    with pytest.raises(MeterError, match=r"MIG slice.*--whole-gpu"):
        open_meter(name, gpu_uuid="GPU-bbbb")
    meter = open_meter(name, gpu_uuid="GPU-bbbb", whole_gpu=True)
    assert meter.device == "GPU-aaaa"
    assert reason("whole-gpu-of-slice") in meter.describe()["notes"]


def test_auto_without_counters_is_modelled():
    """GIVEN a model on a CPU without energy counters THEN auto models the joules and says so, and why."""
    meter = open_meter("auto", gpu_uuid=None)
    assert meter.modelled
    assert meter.describe()["notes"][0].code == "modelled-joules"
    not_metered, unusable = split(meter.describe()["choice"])
    assert not_metered == reason("cpu-not-metered")
    assert "no energy counter of a processor" in unusable.values["error"]
    assert would_model("auto", on_gpu=False)


def test_auto_takes_the_processors_counters(tmp_path, monkeypatch):
    """GIVEN a model on a CPU whose counters change THEN auto measures them, and says why."""
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    with one_socket(tmp_path).writing():
        meter = open_meter("auto", gpu_uuid=None)
        modelled = would_model("auto", on_gpu=False)
    assert (meter.name, meter.device, meter.modelled, modelled) == ("rapl", "cpu", False, False)
    (choice,) = split(meter.describe()["choice"])
    assert choice.code == "counter-ticks"
    assert would_model("modelled", on_gpu=False)
    assert would_model("modelled", on_gpu=True)
    assert not would_model("auto", on_gpu=True)


def test_counters_that_stand_still_are_not_measured_silently(tmp_path, monkeypatch):
    """GIVEN counters that are frozen THEN auto models and says why, and rapl by its name fails."""
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    one_socket(tmp_path)
    monkeypatch.setattr("energyscope.metering.counter.meter.STILL_S", 0.2)
    assert "stands still" in open_meter("auto", gpu_uuid=None).describe()["choice"]
    with pytest.raises(MeterError, match="stands still"):
        open_meter("rapl", gpu_uuid=None)


def test_auto_on_a_mac_takes_its_chip(tmp_path, monkeypatch):
    """GIVEN macOS without RAPL THEN auto takes the chip's counters and says why not RAPL's; only there."""
    place(monkeypatch, tmp_path / "scene.json", cpu_w=10.0)
    assert open_meter("auto", gpu_uuid=None).modelled
    monkeypatch.setattr("sys.platform", "darwin")
    meter = open_meter("auto", gpu_uuid=None)
    taken, failed = split(meter.describe()["choice"])
    assert (meter.name, meter.device, meter.modelled) == ("apple", "cpu", False)
    assert taken.code == "counter-ticks"
    assert "no energy counter of a processor" in failed.values["error"]


def test_a_mac_without_the_package_is_modelled(tmp_path, monkeypatch):
    """GIVEN macOS without the package THEN auto models, and says what is missing."""
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setitem(sys.modules, "zeus_apple_silicon", None)
    meter = open_meter("auto", gpu_uuid=None)
    assert meter.modelled
    assert "energyscope-llm[apple]" in meter.describe()["choice"]


def test_auto_on_an_amd_gpu_takes_its_counter(fake_nvml, tmp_path, monkeypatch):
    """GIVEN a GPU of ROCm THEN auto takes AMD SMI's counter, and NVML is not asked, though it answers."""
    fake_nvml(STEADY)
    monkeypatch.setattr("energyscope.metering.nvml.binding.load_nvml", None)
    place(monkeypatch, tmp_path / "scene.json", boards=[AMD])
    meter = open_meter("auto", gpu_uuid="AMD-e65a2c0a3ec2b6b1")
    (choice,) = split(meter.describe()["choice"])
    assert (meter.name, meter.device, choice.code) == ("amd", "AMD-e65a2c0a3ec2b6b1", "counter-ticks")


def test_an_amd_gpu_without_a_counter_is_never_modelled_silently(tmp_path, monkeypatch):
    """GIVEN no counter of a board THEN auto is an error that says so and names --meter modelled."""
    place(monkeypatch, tmp_path / "scene.json", boards=[AMD], errors={"energy": 2})
    with pytest.raises(MeterError, match=r"does not offer it.*--meter modelled"):
        open_meter("auto", gpu_uuid="AMD-e65a2c0a3ec2b6b1")


@pytest.mark.parametrize(
    ("name", "gpu"), [("nvml", "AMD-e65a2c0a3ec2b6b1"), ("nvidia-smi", "AMD-0000:c1:00"), ("amd", "GPU-aaaa")]
)
def test_a_meter_of_the_other_maker_is_refused(name, gpu):
    """WHEN a GPU is of another maker than the meter THEN one line says so."""
    with pytest.raises(UsageError, match=r"measures (AMD|NVIDIA)'s GPUs, and this is one of (NVIDIA|AMD)"):
        open_meter(name, gpu_uuid=gpu)


@pytest.mark.parametrize("name", ["rapl", "apple"])
@pytest.mark.parametrize("gpu", ["GPU-aaaa", "AMD-e65a2c0a3ec2b6b1"])
def test_a_gpus_joules_are_not_those_of_the_processor(name, gpu):
    """WHEN the model runs on a GPU THEN the meters of processors are refused."""
    with pytest.raises(UsageError, match="measures the processor"):
        open_meter(name, gpu_uuid=gpu)


@pytest.mark.parametrize("name", ["nvml", "nvml-power", "nvidia-smi", "amd"])
def test_measuring_meters_on_a_cpu_are_refused(name):
    """A meter that measures GPUs is never replaced silently."""
    with pytest.raises(UsageError, match="modelled"):
        open_meter(name, gpu_uuid=None)


@pytest.mark.parametrize("name", ["nvidia-smu", "recorded"])
def test_unknown_meters_are_refused(name):
    """A meter that cannot be used from the command line is refused in one line."""
    with pytest.raises(UsageError, match="meter"):
        open_meter(name, gpu_uuid=None)

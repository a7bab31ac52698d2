"""The doctor as a whole, on a CPU and on a fake NVML machine."""

from __future__ import annotations

import os
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from clocks import ThreadClock
from fake_counters.fake_scene import place
from fake_powercap import one_socket
from sensor_stand_ins import IDLE_W, MACHINE, STEP, UUID, Counter, FakeLoad, Load, hurry, simulated

from energyscope.cli.doctor import sensor_lines
from energyscope.diagnostics import polling, sensor
from energyscope.errors import MeterError
from energyscope.metering.counter.source import DeniedError
from energyscope.metering.host import open_host
from energyscope.metering.rapl import powercap
from energyscope.metering.rapl.powercap import ROOT_VARIABLE
from energyscope.reasons import read, reason
from energyscope.stages import doctor
from energyscope.stages.doctor import examine

QUIET = SimpleNamespace(notes=[], signs=lambda own_bytes: [])  # nothing else runs on the processor


@pytest.fixture
def gpu(fake_nvml, monkeypatch):
    """Return a function that makes the doctor meet a fake machine."""

    def make(script):
        from energyscope.metering.nvml.board import Board

        machine = fake_nvml(script)
        monkeypatch.setattr(doctor, "pick_device", lambda device: torch.device("cuda", 0))
        monkeypatch.setattr(doctor, "gpu_uuid", lambda device: UUID)
        monkeypatch.setattr(doctor, "device_facts", lambda device: {"type": "cuda", **Board(UUID).facts()})
        monkeypatch.setattr(doctor, "steady_load", lambda device: STEP)
        monkeypatch.setattr(doctor, "Replayer", lambda device: FakeLoad(machine))
        return machine

    return make


@pytest.fixture
def hurried(monkeypatch):
    """Let nothing be waited for that only real fields of power need."""
    hurry(monkeypatch)


@pytest.fixture
def own_time(gpu, monkeypatch):
    """Return a healthy GPU whose meter, load and probe are simulated, in its own time: no host holds them up."""
    gpu(MACHINE + "at 0 persistence 1\n")
    simulated_gpu = simulated(monkeypatch)
    monkeypatch.setattr(doctor, "Replayer", lambda device: simulated_gpu)
    return simulated_gpu


def test_a_cpu_is_modelled_and_that_is_no_failure():
    """GIVEN no GPU THEN the verdict says MODELLED, and nothing is advised."""
    findings = examine("cpu")
    assert findings["verdict"].code == "energy-only-modelled"
    assert findings["sensor"]["meter"] == "modelled"
    assert "no energy counter of a processor" in findings["sensor"]["choice"]
    assert findings["advice"] == []


def test_a_processor_with_counters(tmp_path, monkeypatch):
    """GIVEN counters of 48 W THEN period, power at rest and under load, and their noise are told."""
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    monkeypatch.setattr(sensor, "IDLE_S", 0.5)
    monkeypatch.setattr(sensor, "STEP_S", 0.5)
    monkeypatch.setattr("energyscope.metering.counter.meter.OtherLoad", lambda: QUIET)
    with one_socket(tmp_path).writing():
        findings = examine("cpu")
    found = findings["sensor"]
    assert (found["meter"], found["bystanders"]) == ("rapl", [])
    assert found["idle_w"] == pytest.approx(48, rel=0.1)
    assert found["load_w"] == pytest.approx(48, rel=0.1)
    assert 0.001 <= found["update_period_s"] < 0.01
    assert 0 <= found["idle_noise"] < 1
    assert 0 <= found["load_noise"] < 1
    assert findings["verdict"].code == "processor-measurable"
    assert findings["advice"] == []


def test_counters_that_only_root_may_read(tmp_path, monkeypatch):
    """GIVEN counters that are denied THEN the command that lets everybody read them is advised."""
    refused = DeniedError("sudo chmod")
    monkeypatch.setattr(doctor, "processor_meter", Mock(side_effect=refused))
    findings = examine("cpu")
    assert findings["advice"] == [reason("meter-unusable", error="sudo chmod")]
    assert findings["verdict"].code == "energy-only-modelled"


def test_counters_of_a_gpus_host_that_only_root_may_read(tmp_path, monkeypatch):
    """GIVEN a GPU whose host's counters are denied THEN the sensor's lines have the command that opens them."""
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    one_socket(tmp_path)
    monkeypatch.setattr(powercap.Domain, "shown_uj", Mock(side_effect=PermissionError))
    lines = dict(sensor_lines(open_host().describe()))
    assert f"sudo chmod a+r {tmp_path}/intel-rapl:*/energy_uj" in lines["host beside it"]
    assert lines["host domains"] == "none"


def test_an_amd_gpu(tmp_path, monkeypatch):
    """GIVEN a counter of 300 W THEN it is told at rest and under load, and nothing is asked of NVML."""
    uuid = "AMD-e65a2c0a3ec2b6b1"
    place(
        monkeypatch,
        tmp_path / "scene.json",
        boards=[{"bdf": "0000:c1:00.0", "serial": "0xE65A2C0A3EC2B6B1", "watts": 300.0}],
    )
    monkeypatch.setattr(doctor, "pick_device", lambda device: torch.device("cpu"))
    monkeypatch.setattr(doctor, "gpu_uuid", lambda device: uuid)
    monkeypatch.setattr(doctor, "device_facts", lambda device: {"type": "cuda", "name": "MI300X", "uuid": uuid})
    monkeypatch.setattr(doctor, "steady_load", lambda device: sensor.processor_load())
    monkeypatch.setattr(doctor, "binding_problem", Mock(side_effect=AssertionError))
    hurry(monkeypatch)
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "powercap"))
    with one_socket(tmp_path / "powercap").writing():
        findings = examine("auto")
    found = dict(sensor_lines(findings["sensor"]))
    assert findings["sensor"]["host_idle_w"] == pytest.approx(48, rel=0.2)
    assert found["host domains"] == "package-0; dram"
    assert findings["sensor"]["meter"] == "amd"
    assert findings["sensor"]["load_w"] == pytest.approx(300, rel=0.1)
    assert found["note"] == "AMD SMI's energy counter, polled by a separate process"
    assert (findings["advice"], findings["verdict"].code) == ([], "energy-measurable")


def test_a_mac(tmp_path, monkeypatch):
    """GIVEN the counters of Apple's chip THEN the doctor shows them as it does RAPL's."""
    place(monkeypatch, tmp_path / "scene.json", cpu_w=10.0, gpu_w=1.0, dram_w=1.0)
    monkeypatch.setattr("energyscope.metering.counter.meter.OtherLoad", lambda: QUIET)
    monkeypatch.setattr("sys.platform", "darwin")
    hurry(monkeypatch)
    findings = examine("cpu")
    assert findings["sensor"]["meter"] == "apple"
    assert findings["sensor"]["load_w"] == pytest.approx(12, rel=0.1)
    assert findings["verdict"].code == "processor-measurable"
    assert findings["advice"] == []


def test_a_gpu_that_torch_cannot_use_is_said(fake_nvml, monkeypatch):
    """GIVEN a GPU that NVML sees and torch does not THEN installing torch with CUDA is advised."""
    fake_nvml(MACHINE)
    monkeypatch.setattr(doctor, "pick_device", lambda device: torch.device("cpu"))
    (advice,) = examine("auto")["advice"]
    assert advice.code == "gpu-unused-by-torch"
    assert advice.values == {"gpus": 1, "first": "Fake H200"}


def test_a_healthy_gpu(own_time):
    """GIVEN a GPU of its own THEN idle power and fields are found in seconds, and nothing is in the way."""
    begin_s = own_time.now()
    findings = examine("auto")
    assert own_time.now() - begin_s < 5  # beside what the meter and the probe take to start
    assert findings["sensor"]["idle_w"] == pytest.approx(IDLE_W, rel=0.03)
    assert set(findings["sensor"]["power_fields"]) == {"instant", "average", "usage"}
    assert findings["advice"] == []
    assert findings["verdict"].code == "energy-measurable"
    assert "polling" not in findings["sensor"]


def test_the_reference_workload_is_measured_where_it_is_asked_for(own_time, monkeypatch):
    """GIVEN a GPU THEN its own meter measures the workload; one that is lost is a reason and no error."""
    monkeypatch.setattr(doctor, "open_meter", lambda name, gpu_uuid: own_time)
    asked = []

    def measured(meter, device, facts, progress):
        asked.append((meter.name, str(device), facts["uuid"]))
        return {"energy_mj": 50.0}

    monkeypatch.setattr(doctor, "measure_reference", measured)
    assert examine("auto", reference=True)["reference"] == {"energy_mj": 50.0}
    assert asked == [("nvml", "cuda:0", UUID)]
    monkeypatch.setattr(doctor, "measure_reference", Mock(side_effect=MeterError("the GPU is gone")))
    why = reason("energy-not-measurable", error="the GPU is gone")
    assert examine("auto", reference=True)["reference"] == {"energy_mj": None, "reason": why}


@pytest.mark.usefixtures("hurried")
def test_what_stands_in_the_way_is_listed(gpu):
    """GIVEN another process, persistence off and a lowered limit THEN each gives advice."""
    other = os.getppid()
    gpu(f"{MACHINE}process {other} 500\nat 0 persistence 0\nat 0 limit_w 400\nat 0 default_limit_w 700\n")
    findings = examine("auto")
    advice = {entry.code: entry.values for entry in findings["advice"]}
    assert set(advice) == {"gpu-used-by-others", "persistence-off", "power-limit-lowered"}
    assert read(advice["gpu-used-by-others"]["who"]).values == {"pid": other}
    assert advice["power-limit-lowered"] == {"limit_w": 400, "default_w": 700}
    assert findings["verdict"].code == "energy-measurable-with-advice"


@pytest.mark.usefixtures("hurried")
def test_without_a_counter_another_meter_is_named(gpu):
    """GIVEN a board without a counter THEN the verdict names the meter that is used instead, the advice why."""
    gpu(MACHINE + "at 0 persistence 1\nat 0 fail nvmlDeviceGetTotalEnergyConsumption 3\n")
    findings = examine("auto")
    assert findings["verdict"] == reason("energy-from-power", meter="nvml-power")
    assert [entry.code for entry in findings["advice"]] == ["counter-unused"]
    assert "NotSupported" in findings["advice"][0].values["why"]


def test_a_denied_board_is_a_verdict_and_no_error(gpu, monkeypatch):
    """WHEN nothing may be read THEN the verdict says what failed and what to do."""
    denied = "".join(
        f"at 0 fail {what} 4\n"
        for what in ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage", "field185", "field186")
    )
    gpu(MACHINE + denied)
    monkeypatch.setenv("PATH", "/nonexistent")  # no nvidia-smi either
    findings = examine("auto")
    assert findings["verdict"].code == "energy-not-measurable"
    assert "NoPermission" in findings["verdict"].values["error"]
    assert findings["sensor"] == {}


def test_mig_is_a_verdict_and_advice(gpu):
    """GIVEN a GPU in MIG mode THEN it is said that only the whole GPU can be measured."""
    gpu(MACHINE + "at 0 persistence 1\nat 0 mig_mode 1\n")
    findings = examine("auto")
    assert findings["verdict"].code == "energy-not-measurable"
    assert "mig-on" in [entry.code for entry in findings["advice"]]


@pytest.mark.usefixtures("hurried")
def test_a_shadowed_binding_is_said(gpu, monkeypatch):
    """WHEN the deprecated package hides the binding THEN the advice says which to remove."""
    gpu(MACHINE + "at 0 persistence 1\n")
    monkeypatch.setattr(doctor, "binding_problem", lambda: reason("nvml-shadowed"))
    assert examine("auto")["advice"][0].code == "nvml-shadowed"


@pytest.mark.slow
def test_a_thorough_examination(own_time, monkeypatch):
    """GIVEN a healthy GPU THEN fields, agreement and polling are measured and shown, without a complaint."""
    clock, calls, real = ThreadClock(), Load(), doctor.effect_of_polling
    monkeypatch.setattr(polling, "ROUNDS", 2)
    monkeypatch.setattr(polling, "time", clock)
    monkeypatch.setattr(polling, "_counter", lambda uuid: Counter(clock, calls))
    monkeypatch.setattr(
        doctor, "effect_of_polling", lambda uuid, *_, seconds: real(uuid, calls, [], seconds=seconds)
    )
    monkeypatch.setattr(doctor, "sampling_interval", lambda meter, device, again: 804e-6)
    seen = []
    findings = examine(
        "auto", thorough=True, seconds=2.0,
        progress=lambda stage, label, done, total: seen.append((label, done, total)),
    )  # fmt: skip
    assert findings["advice"] == []
    lines = dict(sensor_lines(findings["sensor"]))
    assert "moving average over" in lines["power field average"]
    assert "of the instant power" in lines["counter against power"]
    assert "counted energy" in lines["polled: sampler"]
    assert lines["samples power every"] == "0.804 ms"
    assert seen == [
        ("a step of power (about 12 s)", 0, 3),
        ("the effect of polling (about 26 s)", 1, 3),
        ("the interval of the sensor's samples (about 15 s)", 2, 3),
    ]

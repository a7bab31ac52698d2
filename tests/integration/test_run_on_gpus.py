"""Whole runs on fake GPUs: the model runs on the CPU, and the meters read a fake NVML machine."""

from __future__ import annotations

import pytest
import torch

import energyscope
from energyscope.comparison.compare import compare
from energyscope.comparison.difference import NOT_COMPARABLE
from energyscope.metering import waiting
from energyscope.reporting.run.terminal import answer_of
from energyscope.runs import schema
from energyscope.runs.store import load_run
from energyscope.stages import phases, session
from energyscope.stages import run as stage
from energyscope.stages.measured_devices import MeasuredDevices

FIRST = "gpu GPU-aaaa Fake H200\nat 0 power_w 200\nat 0 read_s 0.0005"
SECOND = "gpu GPU-bbbb Fake T4\nat 0 power_w 50\nat 0 read_s 0.0005"
QUICK = {"granularity": "coarse", "passes": 2, "sequence_length": 16}


@pytest.fixture
def machine(fake_nvml, monkeypatch):
    """Return a function that measures GPUs of a fake machine, with little idling."""

    def make(script, *gpus):
        monkeypatch.setattr(waiting, "SETTLE_S", 0.1)
        monkeypatch.setattr(waiting, "IDLE_S", 0.3)
        monkeypatch.setattr(phases, "PREHEAT_S", 0.1)
        monkeypatch.setattr(session, "REWARM_S", 0.1)
        monkeypatch.setattr(stage, "find_devices", lambda settings: MeasuredDevices(torch.device("cpu"), gpus))
        return fake_nvml(script)

    return make


@pytest.mark.slow
def test_a_triggered_run_below_the_tick_still_makes_a_report(machine, tmp_path):
    """GIVEN components shorter than the tick THEN no energy is invented, and all stages cope with that."""
    machine(f"{FIRST}\nat 0 period_s 0.25", "GPU-aaaa")  # so long that no busy host holds a component up for it
    run = energyscope.run("tiny-gpt2", sampling="triggered", max_examples=16, root=tmp_path,
        stages=("profile", "ablate", "correlate", "report"), **QUICK,
    )  # fmt: skip
    states = {name: entry["state"] for name, entry in run.document["stages"].items()}
    assert states == {
        **dict.fromkeys(("load", "profile", "ablate", "correlate", "report"), "done"),
        **dict.fromkeys(("benchmark", "generate", "alternatives", "plan"), "skipped"),
    }  # fmt: skip
    assert run.energy["energy_mj"].isna().all()
    assert run.energy["time_us"].notna().all()
    assert run.energy["power_w"].between(190, 210).all()
    assert run.energy["reasons"].str.contains("shorter-than-tick").all()
    assert set(run.energy["meter"]) == {"nvml"}
    assert run.correlation["points"] == []
    assert run.merged["zero:kl"].notna().sum() == len(run.energy) - 1
    assert (run.path / schema.REPORT_FILE).exists()
    assert answer_of(run, 80) is not None
    assert {part.verdict for part in compare([run, run]).pairs[0].parts} <= {NOT_COMPARABLE}


@pytest.mark.slow
@pytest.mark.alone
def test_two_gpus_are_summed_and_listed(machine, tmp_path):
    """GIVEN two GPUs of 200 and 50 W THEN energies are those of both, and listed, and the run names them."""
    machine(f"{FIRST}\nat 0 period_s 0.02\n{SECOND}\nat 0 period_s 0.02", "GPU-aaaa", "GPU-bbbb")
    run = energyscope.run(
        "tiny-gpt2", weights="random", stages=("profile",), window_s=0.15, component_budget_s=0.4, root=tmp_path,
        **QUICK,
    )  # fmt: skip
    model = run.energy.iloc[0]
    first, second = (float(sensor) for sensor in model["devices_mj"].split(";"))
    assert first + second == pytest.approx(model["energy_mj"], rel=1e-4)
    assert first == pytest.approx(4 * second, rel=0.25)  # samplers that are held up know ticks less sharply
    assert model["power_w"] == pytest.approx(250, rel=0.15)
    assert run.document["device"]["measured"] == ["GPU-aaaa", "GPU-bbbb"]
    listed = run.document["sensor"]["devices"]
    assert [sensor["device"] for sensor in listed] == ["GPU-aaaa", "GPU-bbbb"]
    assert listed[1]["idle_w"] == pytest.approx(50, rel=0.15)
    assert run.document["sensor"]["idle_w"] == pytest.approx(250, rel=0.15)
    assert set(run.trace["device"]) == {"GPU-aaaa", "GPU-bbbb"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_is_known_of_the_sensor_survives_an_interruption(machine, tmp_path, monkeypatch, error):
    """WHEN a run ends before its first window THEN the idle sensor's facts are in its document."""

    def stop(*arguments, **options):
        raise error

    machine(FIRST, "GPU-aaaa")
    monkeypatch.setattr(phases, "profile", stop)
    with pytest.raises(error):
        energyscope.run("tiny-gpt2", weights="random", stages=("profile",), name="cut", root=tmp_path, **QUICK)
    sensor = load_run("cut", tmp_path).document["sensor"]
    assert sensor["idle_w"] == pytest.approx(200, rel=0.15)
    assert sensor["tick_period_s"] == pytest.approx(0.1, rel=0.15)
    assert sensor["read_cost_s"] > 0
    assert sensor["device"] == "GPU-aaaa"


def test_an_unreadable_meter_is_refused_before_the_model_is_loaded(machine, tmp_path, monkeypatch):
    """WHEN no counter can be read THEN nothing is loaded and nothing is written."""
    machine(f"{FIRST}\nat 0 fail nvmlDeviceGetTotalEnergyConsumption 4", "GPU-aaaa")
    monkeypatch.setattr(stage, "load", lambda settings: pytest.fail("it was loaded"))
    with pytest.raises(energyscope.errors.MeterError, match="administrator"):
        energyscope.run("tiny-gpt2", meter="nvml", root=tmp_path / "runs", **QUICK)
    assert list(tmp_path.glob("runs")) == []

"""A whole run whose joules are those of the processor's counters, which stand-ins write."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pandas as pd
import pytest
from fake_counters.fake_scene import place
from fake_powercap import one_socket

from energyscope.metering import claims, waiting
from energyscope.metering.counter import meter as counter
from energyscope.reasons import reason
from energyscope.runs.store import load_run
from energyscope.stages import phases, session, settling

WATTS = 48.0  # package and DRAM
QUICK = ["--stages", "profile,report", "--granularity", "coarse", "--passes", "2", "--sequence-length", "16",
         "--component-budget", "0.2", "--window", "0.2", "--device", "cpu", "--name", "measured",
         "--root", "."]  # fmt: skip


@pytest.fixture
def quick(monkeypatch):
    """Idle and settle little; nothing else runs on the processor."""
    monkeypatch.setattr(waiting, "SETTLE_S", 0.1)
    monkeypatch.setattr(waiting, "IDLE_S", 0.3)
    monkeypatch.setattr(phases, "PREHEAT_S", 0.1)
    monkeypatch.setattr(session, "REWARM_S", 0.1)
    monkeypatch.setattr(settling, "LEADS_S", (0.0,))
    monkeypatch.setattr(settling, "SETTLED_S", 0.1)
    monkeypatch.setattr(counter, "OtherLoad", lambda: SimpleNamespace(notes=[], signs=lambda own_bytes: []))


@pytest.mark.slow
@pytest.mark.parametrize("meter", ["rapl", "auto"])
@pytest.mark.usefixtures("quick")
def test_a_run_on_the_processor_is_measured(command, tmp_path, meter):
    """GIVEN counters of 48 W WHEN a model runs on the CPU THEN its joules are theirs, and nothing is MODELLED."""
    tree, begin_s = one_socket(tmp_path / "powercap"), time.monotonic()
    with tree.writing():
        done = command(
            "run", "tiny-gpt2", "--meter", meter, *QUICK, cwd=tmp_path, ENERGYSCOPE_POWERCAP=str(tree.root)
        )
        made_mj = WATTS * 1e3 * (time.monotonic() - begin_s)
    assert done.returncode == 0, done.stderr
    run = load_run(tmp_path / "measured")
    assert (run.document["sensor"]["meter"], run.modelled) == ("rapl", False)
    assert set(run.energy["meter"]) == {"rapl"}
    model = run.energy.iloc[0]
    assert model["energy_mj"] == pytest.approx(WATTS * model["time_us"] / 1e3, rel=0.05)
    trace = pd.read_csv(run.path / "power_trace.csv")
    risen_mj = trace["energy_mj"].iloc[-1] - trace["energy_mj"].iloc[0]
    assert risen_mj == pytest.approx(WATTS * 1e3 * (trace["time_s"].iloc[-1] - trace["time_s"].iloc[0]), rel=0.02)
    assert model["energy_mj"] < risen_mj < made_mj
    for text in (done.stdout, done.stderr, (run.path / "report.html").read_text(encoding="utf-8")):
        assert "MODELLED" not in text
        assert "CUDA graph or larger" not in text
    assert reason("processor-counters", domains=["package-0", "dram"]) in run.document["sensor"]["notes"]
    assert run.document["device"]["measured"] == []  # of GPUs


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_run_on_apples_chip_is_measured(command, tmp_path, monkeypatch):
    """GIVEN a stand-in for a Mac's counters of 15 W WHEN a model runs on the CPU THEN its joules are theirs."""
    place(monkeypatch, tmp_path / "scene.json", cpu_w=12.0, gpu_w=2.0, dram_w=1.0)
    done = command("run", "tiny-gpt2", "--meter", "apple", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = load_run(tmp_path / "measured")
    assert (run.document["sensor"]["meter"], run.modelled, set(run.energy["meter"])) == ("apple", False, {"apple"})
    model = run.energy.iloc[0]
    assert model["energy_mj"] == pytest.approx(15.0 * model["time_us"] / 1e3, rel=0.05)
    assert reason("apple-counters", domains=["cpu", "gpu", "dram"]) in run.document["sensor"]["notes"]
    assert "MODELLED" not in done.stdout + (run.path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_another_run_on_the_processor_is_named(command, tmp_path):
    """GIVEN a run that measures the processor WHEN another one begins THEN that one warns."""
    tree = one_socket(tmp_path / "powercap")
    with tree.writing(), claims.claimed(["cpu"], "the-first"):
        done = command(
            "run", "tiny-gpt2", "--meter", "rapl", *QUICK, cwd=tmp_path, ENERGYSCOPE_POWERCAP=str(tree.root)
        )
    assert done.returncode == 0, done.stderr
    (warning,) = load_run(tmp_path / "measured").document["warnings"]
    assert "the-first" in warning


def test_counters_that_cannot_be_read_end_the_run_at_once(command, tmp_path):
    """GIVEN no counters WHEN rapl is asked for THEN one line says so, and nothing is measured."""
    (tmp_path / "powercap").mkdir()
    done = command("run", "tiny-gpt2", "--meter", "rapl", *QUICK, cwd=tmp_path,
                   ENERGYSCOPE_POWERCAP=str(tmp_path / "powercap"))  # fmt: skip
    assert done.returncode == 1
    assert "no energy counter of a processor" in done.stderr
    assert not (tmp_path / "measured").exists()

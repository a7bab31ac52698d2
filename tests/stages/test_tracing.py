"""The power trace says of every tick what the run was doing then."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from simulated import measure

from energyscope.generation.timeline import GenerationTimes
from energyscope.metering.group import MeterGroup
from energyscope.metering.recorded import RecordedMeter
from energyscope.metering.ticks import Calls
from energyscope.metering.window import estimate_window
from energyscope.runs import schema
from energyscope.runs.store import RunStore, load_run
from energyscope.settings.run import RunSettings
from energyscope.stages.context import Context, _write_trace, earlier_trace, generated, metered, trace_row
from energyscope.stages.sampling_budget import SamplingBudget
from energyscope.testing import SimulatedBoard, SimulatedCall, SimulatedGpu, SimulatedSensor

FIRST, SECOND = GenerationTimes(10.0, (10.5, 10.7, 10.9), 11.0), GenerationTimes(12.0, (12.4, 12.6, 12.8), 12.9)
WINDOWS = [(21.0, 21.4, "prefill/node:model#0"), (22.0, 22.4, "prefill/node:mlp#0")]
PROFILED = [(20.0, "prefill"), (30.0, "decode")]


def row(stage, now):
    state = {
        "after_s": now,
        "before_s": now - 0.004,
        "device": "GPU-a",
        "energy_mj": 1.0,
        "power_w": 2.0,
        "sm_clock_mhz": 3,
        "temperature_c": 4,
    }
    return trace_row(stage, {**state, "throttle": 0}, 5.0, PROFILED, [FIRST, SECOND], [(11.3, 11.6)], WINDOWS)


@pytest.mark.parametrize(
    ("now", "phase", "token"),
    [
        (9.9, "generate", None),
        (10.2, "prefill", 1),
        (10.6, "decode", 2),
        (10.8, "decode", 3),
        (11.2, "generate", None),
        (11.5, "step", None),
        (12.1, "prefill", 1),
        (12.7, "decode", 3),
    ],
)
def test_a_tick_of_a_generation_has_its_phase_and_token(now, phase, token):
    """Before the first token it is the prefill, then the decode of the next one; between generations neither.

    While the step is replayed by itself, that is said.
    """
    traced = row("generate", now)
    assert (traced["phase"], traced["token"]) == (phase, token)
    assert traced["time_s"] == pytest.approx(now - 5.0)


def test_a_tick_of_the_profile_has_the_phase_that_was_profiled():
    """Scenes follow one another; before the first the stage itself is named, as for every other stage."""
    assert [row("profile", now)["phase"] for now in (19.0, 21.0, 31.0)] == ["profile", "prefill", "decode"]
    assert row("benchmark", 21.0)["phase"] == "benchmark"


@pytest.mark.parametrize(
    ("now", "window"),
    [
        (20.9, None),
        (21.0, "prefill/node:model#0"),
        (21.4, "prefill/node:model#0"),
        (21.7, None),
        (22.2, "prefill/node:mlp#0"),
        (22.5, None),
    ],
)
def test_a_tick_names_the_window_in_which_it_was_seen(now, window):
    """Between windows, before the first and after the last, there is none."""
    assert row("profile", now)["window"] == window


def test_what_is_known_of_a_tick_is_kept():
    """When its value was first seen, and when the one before was last seen, both since the trace's origin."""
    traced = row("profile", 21.0)
    assert (traced["time_s"], traced["before_s"]) == (16.0, 15.996)


def test_only_what_the_table_holds_is_kept():
    """The row has the columns of the trace and no others."""
    assert set(row("profile", 21.0)) == set(schema.TRACE_COLUMNS)


def test_the_marks_are_those_of_the_journal():
    """Generations are read from the journal, in their order; other entries are passed over."""
    entries = [
        {"stage": "profile"},
        {"stage": "generate", "generation": vars(FIRST)},
        {"generation": vars(SECOND)},
    ]
    assert generated(entries) == [FIRST, SECOND]


PAGE = Path(__file__).parents[2] / "docs" / "python.md"
MODEL, MLP, RESTORED = SimulatedCall(21864.0, 63558.0), SimulatedCall(700.0, 2000.0), SimulatedCall(60.0, 200.0)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """Return a finished run of a simulated GPU of known joules, as an example run is shipped."""
    root = tmp_path_factory.mktemp("shipped")
    store = RunStore.create("llama-3.3-70b-nf4-h200", root / "reports")
    gpu = SimulatedGpu(SimulatedSensor(), SimulatedBoard(window_noise=0.01))
    context = Context(
        RunSettings("llama"), None, None, None, None, {"profile": MeterGroup([gpu])}, store, lambda *_: None,
        sensor={"idle_w": 100.0}, marks=[(0.0, "decode")],
    )  # fmt: skip
    with metered(context, "profile"):
        measure(
            gpu,
            {"node:model": [MODEL], "node:mlp": [MLP]},
            overheads={"node:mlp": [RESTORED]},
            sampling_budget=SamplingBudget(passes=3),
            keep=lambda entry: store.journal({"stage": "profile", "scene": "decode@1024", **entry}),
        )
    store.compress_journal()
    return load_run(store.path)


def test_the_example_of_the_page_works_on_a_simulated_run(shipped, monkeypatch, capsys):
    """GIVEN a step of 21,864 mJ THEN the lines of docs/python.md find it in the files, to within 3 %."""
    monkeypatch.chdir(shipped.path.parent.parent)
    example = next(
        code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        if ".windows()" in code
    )  # fmt: skip
    exec(example, {})  # noqa: S102  our own page
    by_hand, said = (
        float(number.replace(",", "")) for number in re.findall(r"([\d,]+) mJ", capsys.readouterr().out)
    )
    assert by_hand == pytest.approx(MODEL.energy_mj, rel=0.03)
    assert said == pytest.approx(MODEL.energy_mj, rel=0.03)


def test_an_estimator_gives_of_the_files_what_the_run_gave(shipped):
    """GIVEN only journal and trace THEN the estimator of the run finds its energies again, overheads included."""
    meter = RecordedMeter.from_csv(shipped.path / schema.TRACE_FILE)
    windows = shipped.windows()
    assert len(windows) > 6
    energies = {}
    for name, window in windows.iterrows():
        calls = Calls(np.array([window["begin_s"], window["end_s"]]), np.array([0.0, window["calls"]]))
        ticks = meter.ticks(window["begin_s"] - 3.0, window["end_s"])
        energies[name] = estimate_window(ticks, calls, settle_s=0.0).energy_mj
    for name, window in windows.iterrows():
        subtracted = energies.get(f"{name}/overhead", 0.0)
        assert energies[name] - subtracted == pytest.approx(window["energy_mj"], rel=1e-3)


def test_every_tick_of_a_window_has_its_name(shipped):
    """Ticks with a window's name are those seen while it ran, on one clock with the windows; some are in none."""
    trace, windows = shipped.trace, shipped.windows()
    assert trace["window"].isna().any()
    for name, window in windows.iterrows():
        seen = trace["time_s"].between(window["begin_s"], window["end_s"])
        assert seen.sum() >= 3
        assert (trace["window"] == name).tolist() == seen.tolist()


def test_the_trace_of_a_resumed_run_goes_on(tmp_path: Path) -> None:
    """GIVEN ticks from before THEN they stand before the new ones, on the same clock, with windows that count."""
    earlier = {"stage": "profile", "scene": "prefill", "subject": "node:model", "pass": 0, "ran_s": [10.0, 10.5],
               "window": {"calls": 1, "energy_mj": 1.0, "time_us": 1.0}}  # fmt: skip
    store = RunStore(tmp_path)
    for entry in (earlier, {**earlier, "pass": 1, "ran_s": [11.0, 11.5]}):
        store.journal(entry)
    store.update(trace_origin_s=10.0)
    rows = [row("profile", now) | {"time_s": now - 10.0, "window": "lost"} for now in (10.2, 10.8)]
    store.write_rows(schema.TRACE_FILE, rows, schema.TRACE_COLUMNS)

    context = SimpleNamespace(
        store=store, marks=[], earlier_trace=earlier_trace(tmp_path), meters={"profile": Seen([11.2])}
    )
    _write_trace(context)
    trace = pd.read_csv(tmp_path / schema.TRACE_FILE)
    assert trace["time_s"].tolist() == pytest.approx([0.2, 0.8, 1.2])
    assert trace["window"].fillna("").tolist() == ["prefill/node:model#0", "", "prefill/node:model#1"]
    assert trace["sm_clock_mhz"].tolist() == [3, 3, 3]


class Seen:
    """A meter that saw ticks at some times."""

    def __init__(self, times):
        self.times = times

    def states(self, *_):
        return [{"after_s": now, "before_s": now - 0.004, "device": "GPU-a", "energy_mj": 1.0, "power_w": 2.0,
                 "sm_clock_mhz": 3, "temperature_c": 4, "throttle": 0} for now in self.times]  # fmt: skip

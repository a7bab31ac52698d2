"""Chrome trace events, by the fields that the format documents: no reader of Perfetto's own works offline."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from generation_builder import Inference, build_inference
from page_gallery import LINES

from energyscope.errors import RunError
from energyscope.exporting import export
from energyscope.exporting.perfetto import _lanes
from energyscope.runs import schema
from energyscope.runs.store import RunStore, load_run

NUMBER = int | float


@pytest.fixture
def run(tmp_path):
    return build_inference(tmp_path / "run", Inference(layers=2, generations=3))


def events_of(run) -> list[dict]:
    written = export(run, "perfetto", run.path / "out.json", force=True)
    return json.loads(written.path.read_text())["traceEvents"]


def tracks(events) -> dict[tuple[int, str], list[dict]]:
    found: dict[tuple[int, str], list[dict]] = {}
    for event in events:
        if event["ph"] == "C":
            found.setdefault((event["pid"], event["name"]), []).append(event)
    return found


def threads(events) -> dict[str, list[dict]]:
    """Return the slices of each thread by its name."""
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    return {name: [each for each in events if each["ph"] == "X" and each["tid"] == tid]
            for tid, name in names.items()}  # fmt: skip


def test_every_event_has_the_fields_of_its_phase(run):
    """GIVEN a trace THEN metadata, counters and complete events have what the format asks, and times from 0."""
    events = events_of(run)
    assert {event["ph"] for event in events} == {"M", "C", "X"}
    for event in events:
        assert isinstance(event["pid"], int)
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            assert event["name"] in {"process_name", "thread_name"}
            assert isinstance(event["args"]["name"], str)
            continue
        assert isinstance(event["ts"], NUMBER)
        assert event["ts"] >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, NUMBER) for value in event["args"].values())
        else:
            assert event["dur"] > 0
            assert isinstance(event["tid"], int)
    assert min(event["ts"] for event in events if "ts" in event) == 0


def test_the_area_of_power_is_the_energy_of_the_counter(run):
    """GIVEN ticks at uneven times THEN power x time, from the first to the last, is what the counter rose by."""
    rows = run.trace.sort_values("time_s").iloc[[0, 1, 4, 5, 9, *range(12, 40)]]
    RunStore.open(run.path).write_rows(schema.TRACE_FILE, rows.to_dict("records"), schema.TRACE_COLUMNS)
    found = tracks(events_of(load_run(run.path)))
    power, ticks_us = found[2, "power"], [event["ts"] for event in found[2, "SM clock"]]
    times = [*(event["ts"] for event in power), ticks_us[-1]]
    assert times == ticks_us
    joules = sum(
        event["args"]["W"] * (after - before) / 1e6
        for event, (before, after) in zip(power, pairwise(times), strict=True)
    )
    rise_j = (rows["energy_mj"].iloc[-1] - rows["energy_mj"].iloc[0]) / 1e3
    assert joules == pytest.approx(rise_j, rel=1e-6)


def test_a_track_for_each_board(run):
    """GIVEN two boards THEN each is a process with its own track of power, with the second's power on its own."""
    trace = run.trace.copy()
    trace["energy_mj"] *= 2
    trace["device"] = "cuda:1"
    rows = [*run.trace.to_dict("records"), *trace.to_dict("records")]
    RunStore.open(run.path).write_rows(schema.TRACE_FILE, rows, schema.TRACE_COLUMNS)
    events = events_of(load_run(run.path))
    boards = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert [name.rpartition(" ")[2] for name in boards.values()][1:] == ["cuda:0", "cuda:1"]
    first, second = (tracks(events)[pid, "power"] for pid in (2, 3))
    assert [event["args"]["W"] * 2 for event in first] == pytest.approx([event["args"]["W"] for event in second])


def test_generations_are_slices_with_prefill_and_decode_in_them(run):
    """GIVEN traced generations THEN each is a slice of its time, in which its prefill and decode lie."""
    slices = threads(events_of(run))["generations"]
    marks = run.generation["marks"]
    assert len(slices) == 3 * len(marks)
    for mark, (whole, prefill, decode) in zip(marks, zip(*[iter(slices)] * 3, strict=True), strict=True):
        assert (prefill["name"], decode["name"]) == ("prefill", "decode")
        assert whole["dur"] == pytest.approx((mark["end_s"] - mark["begin_s"]) * 1e6, abs=0.01)
        assert prefill["dur"] == pytest.approx((mark["prefill_end_s"] - mark["begin_s"]) * 1e6, abs=0.01)
        assert prefill["ts"] == whole["ts"]
        assert prefill["ts"] + prefill["dur"] == pytest.approx(decode["ts"], abs=1e-3)
        assert decode["ts"] + decode["dur"] == pytest.approx(whole["ts"] + whole["dur"], abs=1e-3)


def test_windows_are_slices_with_what_they_measured(run):
    """GIVEN a journal on the trace's clock THEN a window is a slice of its time; generations are elsewhere."""
    store = RunStore.open(run.path)
    store.update(trace_origin_s=1000.0)
    generation = {"begin_s": 1031.0, "prefill_end_s": 1031.1, "end_s": 1032.0, "tokens_s": [1031.1, 1032.0]}
    store.journal({"stage": "generate", "generation": generation})
    window = {"calls": 40, "energy_mj": 5.5, "time_us": None}
    store.journal({"stage": "profile", "scene": "decode@1024", "subject": "node:model", "pass": 0,
                   "window": window, "ran_s": [1030.0, 1030.5]})  # fmt: skip
    events = events_of(load_run(run.path))
    (made,) = threads(events)["windows"]
    assert (made["name"], made["dur"]) == ("decode@1024/node:model#0", 500_000)
    assert made["args"] == {"calls": 40, "energy_mj": 5.5}
    began_s = run.trace["time_s"].min()
    assert made["ts"] == pytest.approx((30.0 - began_s) * 1e6, abs=0.01)


def test_slices_of_a_thread_never_overlap_in_part():
    """GIVEN slices that nest, touch and overlap THEN only those that overlap in part go to another thread."""
    spans = {"whole": (0, 9), "in it": (1, 3), "touches": (3, 9), "across": (8, 12), "later": (12, 13)}
    lanes = _lanes([(begin, end, name, {}) for name, (begin, end) in spans.items()])
    assert [[part[2] for part in lane] for lane in lanes] == [["whole", "in it", "touches", "later"], ["across"]]


def test_names_of_others_are_one_line(tmp_path):
    """GIVEN a board and a run with control characters in their names THEN the trace shows them without."""
    run = build_inference(tmp_path / "run", Inference(layers=1), device={"name": LINES})
    RunStore.open(run.path).update(name="\x1b]0;a\x07")
    run = load_run(run.path)
    names = [event["args"]["name"] for event in events_of(run) if event["ph"] == "M"]
    assert names[:2] == ["]0;a", "one two three cuda:0"]


def test_a_run_without_samples_is_one_line(tmp_path):
    """GIVEN a modelled run, whose meter has no ticks, THEN the error says so."""
    run = build_inference(tmp_path / "run", Inference(layers=1, modelled=True))
    with pytest.raises(RunError, match=r"no samples over time \(modelled joules are time x watts\)"):
        export(run, "perfetto")

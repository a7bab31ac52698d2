"""What would change a run's energy: told by intervals, recommended where measurements support it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advice_builder import cell, document, row
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from hypothesis import given
from hypothesis import strategies as st
from run_builder import Shape, build_run

from energyscope.changes.savings import Change, best, changes, winner
from energyscope.intervals import Interval
from energyscope.runs.store import RunStore, load_run


def change(ratio, **fields):
    """Return a change with this ratio."""
    return Change(what="execution", value="cuda-graph", phase="decode", energy=ratio, time=None, grade="A",
                  **{"modelled": False, **fields})  # fmt: skip


@pytest.mark.parametrize(
    ("ratio", "fields", "verdict", "recommended"),
    [
        (Interval(0.4, 0.35, 0.45), {}, "saves", True), (Interval(1.3, 1.1, 1.5), {}, "costs", False),
        (Interval(0.9, 0.7, 1.1), {}, "unclear", False), (Interval(0.4), {}, "unclear", False),
        (Interval(0.4, 0.35, 0.45), {"disturbed": True}, "unclear", False),
        (Interval(0.4, 0.35, 0.45), {"modelled": True}, "saves", False),
        (Interval(0.4, 0.35, 0.45), {"degrades": True}, "saves", False),
    ],
)  # fmt: skip
def test_an_interval_decides(ratio, fields, verdict, recommended):
    """GIVEN a ratio, THEN it saves or costs where its interval excludes 1; if modelled or worse, no advice."""
    found = change(ratio, **fields)
    assert (found.verdict, found.recommended) == (verdict, recommended)


def test_what_is_saved_is_one_minus_the_ratio_with_its_limits_turned():
    """GIVEN a ratio of 0.4 [0.3, 0.6], THEN 60 % [40, 70] are saved."""
    assert change(Interval(0.4, 0.3, 0.6)).saved == Interval(0.6, 0.4, 0.7)


def test_alternatives_are_ratios_of_the_same_work(tmp_path):
    """GIVEN measured alternatives, THEN each but other contexts is a change with the file's ratio, best first."""
    run = build_inference(tmp_path / "run", Inference(layers=2))
    found = changes(run)
    rows = {(row["what"], row["value"], row["phase"]): row for row in run.alternatives["rows"]}
    assert found
    for one in found:
        if (one.what, one.value, one.phase) in rows:
            assert one.energy.value == pytest.approx(rows[one.what, one.value, one.phase]["ratio"]["value"])
    assert not {"base", "context_length"} & {one.what for one in found}
    clear = [one.energy.value for one in found if one.verdict != "unclear"]
    assert clear == sorted(clear)


def test_the_best_change_leaves_the_workload_alone(tmp_path):
    """GIVEN batches that save most, THEN the change that is recommended first is one that everybody can make."""
    run = build_inference(tmp_path / "run", Inference(layers=2))
    assert best(changes(run), "decode").what != "batch_size"


def test_both_executions_of_a_run_are_a_change(tmp_path):
    """GIVEN moments in both executions and no alternatives, THEN the graph against eager, by measured energies."""
    shape = Inference(layers=2, contexts=(1024,), executions=("eager", "cuda-graph"), alternatives=False)
    found = [one for one in changes(build_inference(tmp_path / "run", shape)) if one.what == "execution"]
    assert {one.phase for one in found} == {"prefill", "decode"}
    assert {one.value for one in found} == {"cuda-graph"}


@pytest.mark.parametrize(
    ("metric", "difference", "degrades"),
    [
        ("accuracy", (-0.03, -0.04, -0.02), True), ("accuracy", (-0.001, -0.003, 0.001), False),
        ("accuracy", (-0.01, -0.05, 0.03), None), ("perplexity", (0.2, 0.15, 0.25), True),
        ("perplexity", (0.001, -0.001, 0.003), False), ("accuracy", None, None),
    ],
)  # fmt: skip
def test_a_loss_counts_where_somebody_would_notice(tmp_path, metric, difference, degrades):
    """GIVEN a difference of accuracy, or of perplexity relative to it, THEN more than 0.5 % is a loss if shown."""
    run = build_run(tmp_path / "run", Shape(benchmark=Bench(metric=metric)))
    document = run.benchmark
    for one in document["predictions"]:
        if one["precision"] == "fp16":
            one["value"] = {"value": 0.9 if metric == "accuracy" else 20.2, "low": None, "high": None}
            one["difference"] = (
                None if difference is None else dict(zip(("value", "low", "high"), difference, strict=True))
            )
    RunStore.open(run.path).write_json("benchmark.json", document)
    found = next(one for one in changes(load_run(run.path)) if one.value == "fp16")
    assert found.degrades is degrades


def test_the_winner_saves_most_of_those_that_lose_nothing(tmp_path):
    """GIVEN precisions of which the cheapest is worse, THEN the winner is the cheapest of the others."""
    run = build_run(
        tmp_path / "run", Shape(benchmark=Bench(precisions=("fp32", "fp16", "nf4"), metric="accuracy"))
    )
    document = run.benchmark
    ratios = {"fp16": (0.3, 0.29, 0.31), "nf4": (0.2, 0.19, 0.21)}
    for held in document["cells"]:
        if held["precision"] in ratios:
            held["energy_ratio"] = dict(zip(("value", "low", "high"), ratios[held["precision"]], strict=True))
    for one in document["predictions"]:
        if one["precision"] == "nf4":
            one["difference"] = {"value": -0.1, "low": -0.12, "high": -0.08}
        if one["precision"] == "fp16":
            one["difference"] = {"value": 0.0, "low": -0.001, "high": 0.001}
    RunStore.open(run.path).write_json("benchmark.json", document)
    assert winner(load_run(run.path)).value == "fp16"


def test_a_precision_that_was_disturbed_is_not_told(tmp_path):
    """GIVEN a cell of grade 'invalid', THEN scatter leaves the verdict to the interval; a disturbance does not."""
    run = build_run(tmp_path / "run", Shape(benchmark=Bench(precisions=("fp32", "fp16"))))
    causes = {
        "wide-interval(half_width=0.2)": "saves",
        "retaken-windows(windows=2); throttling-unknown": "saves",
        "slowed-by-heat": "unclear",
        'on-device(device="GPU 1", what="slowed-by-heat")': "unclear",
    }
    for cause, verdict in causes.items():
        (_, held) = cells = [dict(one) for one in run.benchmark["cells"]]
        held.update(quality="invalid", reasons=cause, energy_ratio={"value": 0.3, "low": 0.25, "high": 0.35})
        (found,) = of_documents(run, benchmark={**run.benchmark, "cells": cells})
        assert found.verdict == verdict


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return a run of bf16 that measured neither alternatives nor a benchmark."""
    return build_run(tmp_path_factory.mktemp("plain") / "run", settings={"precision": "bf16"})


def of_documents(run, alternatives=None, benchmark=None):
    return changes(replace(run, alternatives=alternatives, benchmark=benchmark))


@given(
    st.floats(0.01, 100), st.floats(0.001, 0.2), st.sampled_from(["A", "B", "C", "invalid"]),
    st.sampled_from([[], ["another process"]]), st.sampled_from([2, 5]),
)  # fmt: skip
def test_only_undisturbed_intervals_without_one_are_told(plain, value, half, quality, guards, windows):
    """Whatever the ratio, its width, grade, guards and windows, the verdict follows interval and reasons."""
    measured = row("batch_size", "16", mj=100 * value, half=half, quality=quality, guards=guards, windows=windows)
    (found,) = of_documents(plain, document(measured))
    disturbed = quality == "invalid" and (bool(guards) or windows < 3)
    clear = (value * (1 - half) > 1 or value * (1 + half) < 1) and not disturbed
    assert (found.verdict != "unclear") == clear
    assert found.recommended == (clear and value < 1)
    assert found.grade == quality


def test_a_base_that_was_disturbed_makes_every_change_beside_it_unclear(plain):
    """GIVEN the run's own setting beside another process, THEN nothing is told of what was compared with it."""
    measured = document(row("batch_size", "16", mj=10.0))
    measured["rows"][0].update(quality="invalid", guards=["another process"])
    assert [one.verdict for one in of_documents(plain, measured)] == ["unclear"]


def test_rows_of_an_older_version_without_guards_are_told_by_good_grades_only(plain):
    """GIVEN a row of grade 'invalid' that does not say why, THEN nothing is told of it."""
    older = row("batch_size", "16", mj=10.0, quality="invalid")
    del older["guards"]
    assert [one.verdict for one in of_documents(plain, document(older))] == ["unclear"]


def test_both_phases_have_changes_of_their_own(plain):
    """GIVEN rows of prefill and decode, THEN each is held against the base of its phase."""
    rows = (
        row(phase="prefill"),
        row("batch_size", "16", mj=50.0, phase="prefill"),
        row("batch_size", "16", mj=10.0),
    )
    found = {one.phase: one.energy.value for one in of_documents(plain, document(*rows))}
    assert found == pytest.approx({"prefill": 0.5, "decode": 0.1})


def test_a_time_is_of_a_step_and_capturing_once_is_apart(plain):
    """GIVEN a graph that took 0.3 of a step's time and 50 ms to capture, THEN both are kept."""
    (found,) = of_documents(plain, document(row("execution", "cuda-graph", mj=40.0, us=300.0, setup_s=0.05)))
    assert found.time.value == pytest.approx(0.3)
    assert found.setup_s == pytest.approx(0.05)


def test_joules_of_a_model_of_watts_are_shown_and_not_recommended(plain):
    """GIVEN joules that are time x stated watts, THEN changes keep their ratios, and none is recommended."""
    (found,) = of_documents(plain, document(row("batch_size", "16", mj=10.0), modelled=True))
    assert (found.verdict, found.recommended) == ("saves", False)


def test_against_another_baseline_precisions_are_compared_with_the_runs_own(plain):
    """GIVEN a benchmark against fp32 WHEN the run is bf16 THEN the ratio is that of the cells' energies."""
    cells = [cell("fp32", 300.0, ratio=1.0), cell("bf16", 100.0, ratio=0.33), cell("nf4", 80.0, ratio=0.27)]
    found = {one.value: one for one in of_documents(plain, None, {"baseline": "fp32", "cells": cells})}
    assert found["nf4"].energy.value == pytest.approx(0.8)
    assert found["nf4"].energy.low < 0.8 < found["nf4"].energy.high
    assert found["nf4"].quality is None, "predictions were judged against fp32"


def test_a_run_without_alternatives_and_benchmark_has_no_changes(plain):
    """GIVEN neither document, or no base among the rows, THEN nothing changes."""
    assert of_documents(plain) == []
    assert of_documents(plain, {**document(), "rows": [row("batch_size", "16", mj=10.0)]}) == []

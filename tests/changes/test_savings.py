"""What would change a run's energy: decided by intervals, recommended where measurements support it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advice_builder import cell, document, row
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from hypothesis import given
from hypothesis import strategies as st
from plan_builder import add_levers, build_plan, lever_rows
from run_builder import Shape, build_run

from energyscope.changes.savings import Change, best, changes, levers, winner
from energyscope.intervals import Interval
from energyscope.runs.store import RunStore, load_run


def figure(value, low, high):
    return {"value": value, "low": low, "high": high}


def edited(run, predictions, cells=None):
    """Change entries of a run's benchmark.json, by their precision."""
    document = run.benchmark
    for name, edits in (("predictions", predictions), ("cells", cells or {})):
        for entry in document[name]:
            entry.update(edits.get(entry["precision"], {}))
    RunStore.open(run.path).write_json("benchmark.json", document)


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
    measured = change(ratio, **fields)
    assert (measured.verdict, measured.recommended) == (verdict, recommended)


def test_what_is_saved_is_one_minus_the_ratio_with_its_limits_turned():
    """GIVEN a ratio of 0.4 [0.3, 0.6], THEN 60 % [40, 70] are saved."""
    assert change(Interval(0.4, 0.3, 0.6)).saved == Interval(0.6, 0.4, 0.7)


def test_alternatives_are_ratios_of_the_same_work(tmp_path):
    """GIVEN measured alternatives, THEN each but other contexts is a change with the file's ratio, best first."""
    run = build_inference(tmp_path / "run", Inference(layers=2))
    measured = changes(run)
    rows = {(row["what"], row["value"], row["phase"]): row for row in run.alternatives["rows"]}
    assert measured
    for change in measured:
        if row := rows.get((change.what, change.value, change.phase)):
            assert change.energy.value == pytest.approx(row["ratio"]["value"])
    assert not {"base", "context_length"} & {change.what for change in measured}
    clear = [change.energy.value for change in measured if change.verdict != "unclear"]
    assert clear == sorted(clear)


def test_the_best_change_leaves_the_workload_alone(tmp_path):
    """GIVEN batches that save most, THEN the change that is recommended first is one that everybody can make."""
    run = build_inference(tmp_path / "run", Inference(layers=2))
    assert best(changes(run), "decode").what != "batch_size"


def test_both_executions_of_a_run_are_a_change(tmp_path):
    """GIVEN moments in both executions and no alternatives, THEN the graph against eager, by measured energies."""
    shape = Inference(layers=2, contexts=(1024,), executions=("eager", "cuda-graph"), alternatives=False)
    measured = changes(build_inference(tmp_path / "run", shape))
    executions = {(change.phase, change.value) for change in measured if change.what == "execution"}
    assert executions == {("prefill", "cuda-graph"), ("decode", "cuda-graph")}


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
    value = {"value": 0.9 if metric == "accuracy" else 20.2, "low": None, "high": None}
    edited(run, {"fp16": {"value": value, "difference": difference and figure(*difference)}})
    fp16 = next(change for change in changes(load_run(run.path)) if change.value == "fp16")
    assert fp16.degrades is degrades


def test_the_winner_saves_most_of_those_that_lose_nothing(tmp_path):
    """GIVEN precisions of which the cheapest is worse, THEN the winner is the cheapest of the others."""
    run = build_run(
        tmp_path / "run", Shape(benchmark=Bench(precisions=("fp32", "fp16", "nf4"), metric="accuracy"))
    )
    edited(
        run,
        predictions={
            "fp16": {"difference": figure(0.0, -0.001, 0.001)},
            "nf4": {"difference": figure(-0.1, -0.12, -0.08)},
        },
        cells={
            "fp16": {"energy_ratio": figure(0.3, 0.29, 0.31)},
            "nf4": {"energy_ratio": figure(0.2, 0.19, 0.21)},
        },
    )
    assert winner(load_run(run.path)).value == "fp16"


def test_a_precision_that_was_disturbed_is_unclear(tmp_path):
    """GIVEN a cell of grade 'invalid', THEN scatter leaves the verdict to the interval; a disturbance does not."""
    run = build_run(tmp_path / "run", Shape(benchmark=Bench(precisions=("fp32", "fp16"))))
    causes = {
        "wide-interval(half_width=0.2)": "saves",
        "retaken-windows(windows=2); throttling-unknown": "saves",
        "slowed-by-heat": "unclear",
        'on-device(device="GPU 1", what="slowed-by-heat")': "unclear",
    }
    for cause, verdict in causes.items():
        (_, held) = cells = [dict(held) for held in run.benchmark["cells"]]
        held.update(quality="invalid", reasons=cause, energy_ratio=figure(0.3, 0.25, 0.35))
        (change,) = of_documents(run, benchmark={**run.benchmark, "cells": cells})
        assert change.verdict == verdict


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
def test_only_undisturbed_intervals_that_exclude_one_are_clear(plain, value, half, quality, guards, windows):
    """Whatever the ratio, its width, grade, guards and windows, the verdict follows interval and reasons."""
    measured = row("batch_size", "16", mj=100 * value, half=half, quality=quality, guards=guards, windows=windows)
    (change,) = of_documents(plain, document(measured))
    disturbed = quality == "invalid" and (bool(guards) or windows < 3)
    clear = (value * (1 - half) > 1 or value * (1 + half) < 1) and not disturbed
    assert (change.verdict != "unclear") == clear
    assert change.recommended == (clear and value < 1)
    assert change.grade == quality


def test_a_change_is_unclear_where_the_base_was_disturbed(plain):
    """GIVEN the run's own setting beside another process, THEN what was compared with it is unclear."""
    measured = document(row("batch_size", "16", mj=10.0))
    measured["rows"][0].update(quality="invalid", guards=["another process"])
    assert [change.verdict for change in of_documents(plain, measured)] == ["unclear"]


def test_an_invalid_row_of_an_older_version_without_guards_is_unclear(plain):
    """GIVEN a row of grade 'invalid' that does not say why, THEN it is unclear."""
    older = row("batch_size", "16", mj=10.0, quality="invalid")
    del older["guards"]
    assert [change.verdict for change in of_documents(plain, document(older))] == ["unclear"]


def test_both_phases_have_changes_of_their_own(plain):
    """GIVEN rows of prefill and decode, THEN each is held against the base of its phase."""
    rows = (
        row(phase="prefill"),
        row("batch_size", "16", mj=50.0, phase="prefill"),
        row("batch_size", "16", mj=10.0),
    )
    ratios = {change.phase: change.energy.value for change in of_documents(plain, document(*rows))}
    assert ratios == pytest.approx({"prefill": 0.5, "decode": 0.1})


def test_a_time_is_of_a_step_and_capturing_once_is_apart(plain):
    """GIVEN a graph that took 0.3 of a step's time and 50 ms to capture, THEN both are kept."""
    (change,) = of_documents(plain, document(row("execution", "cuda-graph", mj=40.0, us=300.0, setup_s=0.05)))
    assert change.time.value == pytest.approx(0.3)
    assert change.setup_s == pytest.approx(0.05)


def test_joules_of_a_model_of_watts_are_shown_and_not_recommended(plain):
    """GIVEN joules that are time x stated watts, THEN changes keep their ratios, and none is recommended."""
    (change,) = of_documents(plain, document(row("batch_size", "16", mj=10.0), modelled=True))
    assert (change.verdict, change.recommended) == ("saves", False)


def test_against_another_baseline_precisions_are_compared_with_the_runs_own(plain):
    """GIVEN a benchmark against fp32 WHEN the run is bf16 THEN the ratio is that of the cells' energies."""
    cells = [cell("fp32", 300.0, ratio=1.0), cell("bf16", 100.0, ratio=0.33), cell("nf4", 80.0, ratio=0.27)]
    measured = of_documents(plain, benchmark={"baseline": "fp32", "cells": cells})
    nf4 = next(change for change in measured if change.value == "nf4")
    assert nf4.energy.value == pytest.approx(0.8)
    assert nf4.energy.low < 0.8 < nf4.energy.high
    assert nf4.quality is None, "predictions were judged against fp32"


def test_a_run_without_alternatives_and_benchmark_has_no_changes(plain):
    """GIVEN neither document, or no base among the rows, THEN nothing changes."""
    assert of_documents(plain) == []
    assert of_documents(plain, {**document(), "rows": [row("batch_size", "16", mj=10.0)]}) == []


SAVES, COSTS, UNCLEAR = (0.7, 0.65, 0.75), (1.2, 1.15, 1.25), (0.95, 0.85, 1.05)


@pytest.mark.parametrize(
    ("alone", "with_plan", "dropped"),
    [
        (SAVES, COSTS, True),
        (SAVES, UNCLEAR, True),
        (SAVES, SAVES, False),
        (COSTS, COSTS, False),
        (COSTS, SAVES, False),
    ],
)
def test_a_lever_that_saves_alone_and_not_with_the_plan_is_dropped(tmp_path, alone, with_plan, dropped):
    """GIVEN a lever measured alone and with the plan THEN it is dropped where it is shown to save alone only."""
    documents = lever_rows(prompt_lookup=with_plan), lever_rows(prompt_lookup=alone)
    (lever,) = levers(add_levers(build_plan(tmp_path / "run"), *documents))
    assert (lever.change.energy.value, lever.alone.energy.value, lever.dropped) == (
        with_plan[0],
        alone[0],
        dropped,
    )


def test_a_lever_is_compared_with_the_same_setting_only(tmp_path):
    """GIVEN alternatives of another batch, or none, THEN nothing is known of a lever alone; none is dropped."""
    other = lever_rows(prompt_lookup=SAVES)
    other["base"]["batch_size"] = 8
    run = build_plan(tmp_path / "run")
    for alone in (None, other):
        (lever,) = levers(add_levers(run, lever_rows(prompt_lookup=COSTS), alone))
        assert (lever.alone, lever.dropped) == (None, False)


def test_time_with_prompt_lookup_is_that_of_a_token(tmp_path):
    """GIVEN steps twice as long that make three tokens THEN the time is two thirds of that without."""
    document = lever_rows(prompt_lookup=SAVES)
    base, lookup = document["rows"]
    base |= {"time_us": figure(100.0, 99.0, 101.0), "tokens_per_s": figure(1e4, 0.99e4, 1.01e4)}
    lookup |= {"time_us": figure(200.0, 199.0, 201.0), "tokens_per_s": figure(1.5e4, 1.49e4, 1.51e4)}
    lookup["acceptance"] = {"tokens_per_step": figure(3.0, 2.9, 3.1)}
    (lever,) = levers(add_levers(build_plan(tmp_path / "run"), document))
    assert lever.change.time.value == pytest.approx(2 / 3)

"""Runs of before and after a change of the method: told apart where the change concerns them, and only there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prediction_builder import planted_run
from run_builder import Shape, build_run

from energyscope.comparison.compare import compare
from energyscope.reasons import reason
from energyscope.reporting.run.method import section
from energyscope.reporting.run.report import Report
from energyscope.runs.method import (
    CHANGES,
    REVISION,
    MethodChange,
    changes_between,
    changes_since,
    execution_of,
    method_of,
    revision_of,
)
from energyscope.runs.store import Run

GRAPH = ("prefill", "cuda-graph")
UNCONCERNED = [("prefill", "eager"), ("decode", "eager"), ("decode", "cuda-graph")]


def test_a_run_that_notes_none_is_of_revision_0() -> None:
    """GIVEN run.json as it was before revisions THEN it is of revision 0; revisions count up from 1."""
    assert [revision_of(document) for document in ({}, {"method": None}, {"method": 1})] == [0, 0, 1]
    assert [change.revision for change in CHANGES] == list(range(1, REVISION + 1))


def test_prefills_in_graphs_are_told_apart() -> None:
    """GIVEN graph prefills of revisions 0 and 1 THEN their methods differ, and what was changed is said."""
    assert [method_of(document, *GRAPH) for document in ({}, {"method": 1})] == [0, REVISION]
    assert changes_between(0, 1, *GRAPH) == reason("methods-differ", first=0, second=1, changes="graph-masks")
    assert changes_since(0, *GRAPH) == CHANGES[0].before
    assert changes_since(REVISION, *GRAPH) is None


@pytest.mark.parametrize("passes", UNCONCERNED)
def test_passes_that_a_change_does_not_concern_stay_alike(passes: tuple[str, str]) -> None:
    """GIVEN eager passes, or steps, of revision 0 THEN they are as good as those of today."""
    assert method_of({}, *passes) == method_of({"method": REVISION}, *passes) == REVISION


def test_a_change_of_no_phase_or_execution_concerns_all() -> None:
    """A change whose author did not narrow it is one of all passes; a newer run is newer than what is known."""
    assert all(MethodChange(2, reason("graph-masks")).concerns(*passes) for passes in (GRAPH, *UNCONCERNED))
    assert method_of({"method": REVISION + 1}, *GRAPH) == REVISION + 1


def _older(run: Run) -> list[str]:
    content = section(Report(run))
    assert content is not None
    return list(content.data["older"])


@pytest.fixture
def graphs(tmp_path: Path) -> dict[int | None, Run]:
    """Two prefills in graphs that differ in their method alone."""
    return {
        method: planted_run(tmp_path / str(method), 32, execution="cuda-graph", method=method)
        for method in (None, 1)
    }


def in_graphs(run: Run) -> Run:
    """Say in run.json too how the passes were launched."""
    run.document["settings"]["execution"] = "cuda-graph"
    return run


def test_compare_gives_no_verdict_across_methods(graphs: dict[int | None, Run]) -> None:
    """GIVEN graph prefills of both revisions THEN the joules are not comparable, and the reason is said."""
    pair = compare([in_graphs(run) for run in graphs.values()]).pairs[0]
    assert [(item.field, item.baseline, item.other) for item in pair.obstacles] == [("method", 0, 1)]
    assert [remark.code for remark in pair.remarks] == ["methods-differ"]
    assert {row.verdict for row in pair.whole} == {"not-comparable"}


def test_compare_says_so_between_executions(tmp_path: Path, graphs: dict[int | None, Run]) -> None:
    """GIVEN an old graph against eager THEN that is a remark, as launching is the question; of a new one not."""
    eager = planted_run(tmp_path / "eager", 32)
    old, new = (compare([eager, in_graphs(graphs[method])]).pairs[0] for method in (None, 1))
    assert [[(remark.code, remark.values.get("whose")) for remark in pair.remarks] for pair in (old, new)] == [
        [("eager-total", None), ("older-method-in", ["the other run"])],
        [("eager-total", None)],
    ]
    assert not any(condition.field == "method" for pair in (old, new) for condition in pair.obstacles)


def test_compare_of_eager_runs_says_nothing_of_methods(tmp_path: Path) -> None:
    """GIVEN eager runs of revisions 0 and 1 THEN they are compared as before."""
    first, second = build_run(tmp_path / "a"), build_run(tmp_path / "b", method=1)
    assert json.loads((tmp_path / "b" / "run.json").read_text())["method"] == 1
    pair = compare([first, second]).pairs[0]
    assert (pair.obstacles, [remark.code for remark in pair.remarks]) == ((), ["eager-total"])


def test_compare_of_two_old_graphs_says_that_both_are_old(tmp_path: Path) -> None:
    """GIVEN two graph prefills of revision 0 THEN they are compared, and a remark says what was mended since."""
    old, new = (
        [
            in_graphs(planted_run(tmp_path / f"{name}-{method}", 32, execution="cuda-graph", method=method))
            for name in "ab"
        ]
        for method in (None, REVISION)
    )
    before, after = (compare(runs).pairs[0] for runs in (old, new))
    (remark,) = before.remarks
    assert (remark.code, remark.values["whose"]) == ("older-method-in", ["the baseline", "the other run"])
    assert (before.obstacles, after.obstacles, after.remarks) == ((), (), ())


def test_a_page_says_that_its_run_is_old(tmp_path: Path, graphs: dict[int | None, Run]) -> None:
    """GIVEN a graph prefill of revision 0 THEN its page says what was mended; of others they do not."""
    eager = planted_run(tmp_path / "eager", 32, method=None)
    assert [_older(run) for run in (*graphs.values(), eager)] == [["graph-masks"], [], []]


def test_a_benchmark_says_that_it_is_old(tmp_path: Path) -> None:
    """GIVEN a benchmark alone, in graphs and of revision 0, THEN its page says so too."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False, execution="cuda-graph", benchmark=True))
    assert run.energy is None
    assert _older(run) == ["graph-masks"]


def test_all_but_the_profile_of_a_run_in_both_is_eager() -> None:
    """GIVEN both executions THEN the run's other passes are eager, as those of runs without a choice."""
    for settings in ({"execution": "both"}, {}, None):
        assert execution_of({"settings": settings}) == "eager"
    assert execution_of({"settings": {"execution": "cuda-graph"}}) == "cuda-graph"

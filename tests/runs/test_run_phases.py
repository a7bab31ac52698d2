"""What the names of moments say, and which moments of two runs are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from generation_builder import Inference, build_inference
from run_builder import build_run

from energyscope.comparison.compare import PairComparison, compare
from energyscope.comparison.conditions import EXECUTION
from energyscope.runs.phases import PhaseName, same_phases
from energyscope.runs.store import Run

EAGER, GRAPH, BOTH = ("eager",), ("cuda-graph",), ("eager", "cuda-graph")


def made(folder: Path, name: str, executions: tuple[str, ...]) -> Run:
    return build_inference(folder / name, Inference(layers=2, contexts=(1024,), executions=executions))


def _remarks(pair: PairComparison) -> list[dict[str, Any]]:
    return [{"code": remark.code, **remark.values} for remark in pair.remarks]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("prefill", ("prefill", None, None)),
        ("decode@1024", ("decode", 1024, None)),
        ("prefill/cuda-graph", ("prefill", None, "cuda-graph")),
        ("decode@1024/cuda-graph", ("decode", 1024, "cuda-graph")),
        ("decode@many", ("decode", None, None)),
    ],
)
def test_a_name_says_phase_context_and_further_execution(name: str, parts: tuple[object, ...]) -> None:
    """GIVEN a name THEN each part of it that is there is read, and what is no number of tokens is left out."""
    moment = PhaseName.of(name)
    assert (moment.phase, moment.context, moment.execution) == parts


def test_moments_are_the_same_in_the_same_execution(tmp_path: Path) -> None:
    """GIVEN a run in both executions THEN a run in either is compared with its own, whatever they are called."""
    both = made(tmp_path, "both", BOTH)
    assert same_phases(both, made(tmp_path, "eager", EAGER)) == [
        ("prefill", "prefill"), ("decode@1024", "decode@1024"),
    ]  # fmt: skip
    graph = made(tmp_path, "graph", GRAPH)
    assert same_phases(both, graph) == [
        ("prefill/cuda-graph", "prefill"), ("decode@1024/cuda-graph", "decode@1024"),
    ]  # fmt: skip
    assert same_phases(graph, both) == [(right, left) for left, right in same_phases(both, graph)]


def test_one_execution_may_be_compared_with_the_other(tmp_path: Path) -> None:
    """GIVEN an eager run and one in graphs THEN what is compared is the executions, and a note says so."""
    eager, graph = made(tmp_path, "eager", EAGER), made(tmp_path, "graph", GRAPH)
    assert same_phases(eager, graph) == [("prefill", "prefill"), ("decode@1024", "decode@1024")]
    for pair in compare([eager, graph]).pairs:
        assert [(note.baseline, note.other) for note in pair.notes if note.field == EXECUTION] == [
            ("eager", "cuda-graph")
        ]


def test_a_moment_is_compared_as_its_own_execution(tmp_path: Path) -> None:
    """GIVEN both in one run and graphs in the other THEN like is set against like, which a note says."""
    both, graph = made(tmp_path, "both", BOTH), made(tmp_path, "graph", GRAPH)
    pairs = compare([both, graph]).pairs
    assert [(pair.scene, pair.other_scene) for pair in pairs] == same_phases(both, graph)
    for pair in pairs:
        assert {"code": "same-execution", "execution": "cuda-graph"} in _remarks(pair)
        assert EXECUTION not in [condition.field for condition in (*pair.notes, *pair.obstacles)]
        assert pair.whole[0].relative is not None
        assert pair.whole[0].relative.value == pytest.approx(1.0)


def test_moments_that_are_compared_with_none_are_named(tmp_path: Path) -> None:
    """GIVEN moments in one run alone THEN the first comparison says which, and of which run; else nothing."""
    both, graph = made(tmp_path, "both", BOTH), made(tmp_path, "graph", GRAPH)
    first, *others = compare([both, graph]).pairs
    alone = {"code": "moments-alone", "run": "both", "moments": ["prefill", "decode@1024"]}
    assert alone in _remarks(first)
    assert not any(remark["code"] == alone["code"] for pair in others for remark in _remarks(pair))
    again = made(tmp_path, "again", GRAPH)
    repeated = compare([graph, again]).pairs
    assert not any(remark["code"] == alone["code"] for pair in repeated for remark in _remarks(pair))


def test_a_run_that_names_no_moments_is_one(tmp_path: Path) -> None:
    """GIVEN a run from before moments had names THEN its pass is set against the other run's prefill."""
    old, new = build_run(tmp_path / "old"), made(tmp_path, "new", EAGER)
    assert same_phases(old, new) == [(None, "prefill")]
    assert same_phases(new, old) == [("prefill", None)]
    (pair,) = compare([old, new]).pairs
    assert "phase" not in [condition.field for condition in pair.obstacles]

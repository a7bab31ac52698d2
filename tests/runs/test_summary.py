from __future__ import annotations

from pathlib import Path

from run_builder import Shape, build_run

from energyscope.runs.summary import summary


def test_a_summary_says_what_its_numbers_are_of(tmp_path: Path) -> None:
    """GIVEN a run in CUDA graphs, THEN a machine reads execution, sampling, closure with its state, and drift."""
    found = summary(build_run(tmp_path / "run", Shape(execution="cuda-graph")))
    assert (found["execution"], found["sampling"]) == ("cuda-graph", "replay")
    assert (found["closure"], found["closure_state"], found["drift"]) == (0.98, "closed", 0.002)


def test_what_an_older_run_does_not_know_is_none(tmp_path: Path) -> None:
    """GIVEN a run of before closures and drift were judged, THEN both are None, and it is of replay."""
    found = summary(build_run(tmp_path / "run", Shape(old=True)))
    assert (found["closure_state"], found["drift"], found["sampling"]) == (None, None, "replay")

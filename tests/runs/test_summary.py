from __future__ import annotations

from pathlib import Path

from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.runs.summary import summary
from energyscope.runs.tree import energy_tree


def test_a_summary_says_what_its_numbers_are_of(tmp_path: Path) -> None:
    """GIVEN a run in CUDA graphs, THEN a machine reads execution, sampling, closure with its state, and drift."""
    figures = summary(build_run(tmp_path / "run", Shape(execution="cuda-graph")))
    assert (figures["execution"], figures["sampling"]) == ("cuda-graph", "replay")
    assert (figures["closure"], figures["closure_state"], figures["drift"]) == (0.98, "closed", 0.002)


def test_a_run_in_both_executions_names_the_one_of_its_energy(tmp_path: Path) -> None:
    """GIVEN a run in both, THEN its energy is that of the eager pass, which it names, and both are listed."""
    run = build_inference(tmp_path / "run", Inference(layers=2, executions=("eager", "cuda-graph")))
    figures = summary(run)
    assert (figures["execution"], figures["executions"]) == ("eager", ["eager", "cuda-graph"])
    assert figures["energy_mj"] == energy_tree(run.scene("prefill").energy).root.energy.value


def test_without_a_profile_the_settings_name_the_execution(tmp_path: Path) -> None:
    """GIVEN a benchmark alone, THEN no execution was profiled, and the one asked for stands."""
    figures = summary(build_run(tmp_path / "run", Shape(profile=False, benchmark=Bench())))
    assert (figures["execution"], figures["executions"]) == ("eager", [])


def test_what_an_older_run_does_not_know_is_none(tmp_path: Path) -> None:
    """GIVEN a run of before closures and drift were judged, THEN both are None, and it is of replay."""
    figures = summary(build_run(tmp_path / "run", Shape(old=True)))
    assert (figures["closure_state"], figures["drift"], figures["sampling"]) == (None, None, "replay")

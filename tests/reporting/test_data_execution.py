from __future__ import annotations

from pathlib import Path

from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.reporting.data import report_data
from energyscope.reporting.data.execution import execution_of


def test_the_table_decides_which_execution_it_is(tmp_path: Path) -> None:
    """GIVEN a table of CUDA graphs, THEN title, meaning and method are of CUDA graphs."""
    found = execution_of(build_run(tmp_path / "run", Shape(execution="cuda-graph")))
    assert (found.name, found.sampling, found.title) == ("cuda-graph", "replay", "CUDA graphs")
    assert "what the silicon needs" in found.text
    assert "in CUDA graphs" in found.how


def test_older_runs_used_replay(tmp_path: Path) -> None:
    """GIVEN a run that names no sampling, THEN it is of replay, and eager as its table says."""
    found = execution_of(build_run(tmp_path / "run", Shape(old=True)))
    assert (found.name, found.sampling) == ("eager", "replay")


def test_triggered_sampling_has_a_banner(tmp_path: Path) -> None:
    """GIVEN triggered sampling, THEN a banner says what it cannot know, and the method is not called replay."""
    data = report_data(build_run(tmp_path / "run", settings={"sampling": "triggered"}))
    assert [banner.title for banner in data.banners] == ["TRIGGERED SAMPLING"]
    assert "right before and after" in data.execution.how


def test_an_execution_of_a_later_version_is_named(tmp_path: Path) -> None:
    """GIVEN an execution that this version does not know, THEN it is named and nothing is claimed of it."""
    found = execution_of(build_run(tmp_path / "run", Shape(execution="compiled")))
    assert found.title == "Execution: compiled"
    assert "not known to this version" in found.text


def test_modelled_runs_say_how_their_joules_came_about(tmp_path: Path) -> None:
    """GIVEN the modelled meter, THEN the method is time multiplied by stated watts."""
    assert "stated watts" in execution_of(build_run(tmp_path / "run", Shape(modelled=True))).how


def test_the_headline_says_which_execution_its_energy_is_of(tmp_path: Path) -> None:
    """The first number carries the execution as its note."""
    first = report_data(build_run(tmp_path / "run", Shape(execution="cuda-graph"))).headline[0]
    assert first.note == "CUDA graphs"


def test_a_run_in_both_says_so_and_each_moment_which_it_is(tmp_path: Path) -> None:
    """GIVEN moments in both executions THEN the page is of both, and a moment seen alone of its own."""
    run = build_inference(tmp_path / "run", Inference(layers=2, executions=("eager", "cuda-graph")))
    found = execution_of(run)
    assert (found.name, found.title) == ("both", "Eager execution and CUDA graphs")
    assert "eagerly and in CUDA graphs" in found.how
    assert [execution_of(run.scene(name)).name for name in ("prefill", "prefill/cuda-graph")] == [
        "eager", "cuda-graph",
    ]  # fmt: skip

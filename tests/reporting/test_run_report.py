"""What a run's page is about: its workloads, the costliest first."""

from __future__ import annotations

import pytest
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.intervals import Interval
from energyscope.reporting.run.report import Report, tokens_per_kwh


def test_the_costliest_moment_comes_first(tmp_path):
    """GIVEN a prefill and decode steps, THEN a step counts as often as a generation takes it."""
    report = Report(build_inference(tmp_path / "run", Inference(layers=2, contexts=(1024, 128))))
    assert [workload.name for workload in report.workloads] == ["decode@1024", "decode@128", "prefill"]
    assert report.main.weight == 128
    costs = [workload.cost for workload in report.workloads]
    assert costs == sorted(costs, reverse=True)


def test_a_moment_of_the_whole_model_alone_is_no_choice(tmp_path):
    """GIVEN a step of which only the model was measured, THEN the switch leaves it out and the list has it."""
    report = Report(build_inference(tmp_path / "run", Inference(layers=2, contexts=(1024,), step_as_scene=True)))
    assert len(report.every_workload) == 3
    assert [value for value, _ in report.phase_dimension] == ["decode@1024", "prefill"]


def test_executions_are_told_apart(tmp_path):
    """GIVEN both executions, THEN each label names its own, and eager and graph stand as workloads of one run."""
    both = Inference(layers=2, contexts=(1024,), executions=("eager", "cuda-graph"))
    report = Report(build_inference(tmp_path / "run", both))
    assert {workload.execution for workload in report.workloads} == {"eager", "cuda-graph"}
    assert len(report.phase_dimension) == len({label for _, label in report.phase_dimension}) == 4


def test_a_run_of_one_moment_has_no_switch(tmp_path):
    """GIVEN a forward pass of a measured and of a modelled run, THEN no phases, and parts only where known."""
    measured, modelled = (Report(build_run(tmp_path / str(at), Shape(modelled=at == 1))) for at in range(2))
    assert measured.phase_dimension == []
    assert [value for value, _ in measured.part_dimension] == ["energy", "work", "idle"]
    assert modelled.part_dimension == []


def test_a_run_without_energy_has_no_moment(tmp_path):
    """GIVEN a run whose profile left nothing, THEN there is no workload and no error."""
    report = Report(build_run(tmp_path / "run", Shape(profile=False, impact=False)))
    assert (report.workloads, report.main, report.generates) == ([], None, False)


def test_tokens_per_kilowatt_hour():
    """GIVEN 3.6 J a token, THEN a kilowatt-hour makes a million, with limits the other way round."""
    tokens = tokens_per_kwh(Interval(3600.0, 1800.0, 7200.0))
    assert (tokens.value, tokens.low, tokens.high) == pytest.approx((1e6, 5e5, 2e6))
    assert tokens_per_kwh(None) is None

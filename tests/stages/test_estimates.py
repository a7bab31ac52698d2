"""What is estimated of a run's time once its model is loaded: the dry run's plan, moment by moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from energyscope.diagnostics.sensor import IDLE_WATCH_S
from energyscope.errors import ModelError
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.run import RunSettings
from energyscope.stages import dry_run as preview_module
from energyscope.stages import pace_estimates
from energyscope.stages import run as module
from energyscope.stages.dry_run import estimated_times, preview
from energyscope.stages.sampling_budget import TimeEstimate

SMALL = {"device": "cpu", "granularity": "coarse", "sequence_length": 8, "window_s": 0.02, "max_examples": 4}
Told = Mapping[str, Sequence[TimeEstimate]]


class EnoughError(Exception):
    """Ends a run before its first stage."""


def estimate(root: Path, model: str = "tiny-llama", **options: Any) -> Told:
    told: list[Told] = []

    def stop(_: Path, estimates: Told) -> None:
        told.append(estimates)
        raise EnoughError

    with pytest.raises(EnoughError):
        module.run(model, root=root, on_open=stop, **{**SMALL, **options})
    return told[0]


def test_it_is_the_plan_of_the_dry_run_by_phases(tmp_path: Path) -> None:
    """GIVEN prefill and decode, THEN each has its time, together that of the plan, and more only for retakes."""
    estimates = estimate(tmp_path, phase="both")
    plan = preview(RunSettings("tiny-llama", root=tmp_path, phase="both", **SMALL))  # type: ignore[arg-type]
    assert len(estimates["profile"]) == len(plan.scenes) == 2
    assert sum(moment.least_s for moment in estimates["profile"]) == pytest.approx(plan.profile_seconds)
    assert sum(moment.most_s for moment in estimates["profile"]) > plan.profile_seconds_most
    assert sum(moment.steps_most for moment in estimates["profile"]) > plan.windows
    assert estimates["generate"] == [TimeEstimate(plan.generate_seconds, plan.generate_seconds)]
    assert estimates["alternatives"] == [TimeEstimate(0.0, plan.alternatives_seconds_most)]


def test_relating_and_drawing_go_at_the_pace_of_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN correlations of 0.1 s, THEN both stages take a multiple of that, more with many components."""
    estimates = estimate(tmp_path, phase="prefill")
    assert all(0 < estimates[stage][0].least_s < estimates[stage][0].most_s for stage in ("correlate", "report"))
    monkeypatch.setattr(pace_estimates, "_correlation_s", lambda points: 0.1 * points / 25)
    few, many = pace_estimates.table_times(20), pace_estimates.table_times(100)
    assert few["correlate"] == TimeEstimate(pytest.approx(10), pytest.approx(24))
    assert many["correlate"] == TimeEstimate(pytest.approx(16), pytest.approx(63))
    assert few["report"].most_s < many["report"].most_s < 2 * few["report"].most_s


def test_what_cannot_be_foreseen_has_no_entry(tmp_path: Path) -> None:
    """GIVEN reads around components, whose length no plan knows, THEN they are not there."""
    assert "profile" not in estimate(tmp_path, phase="prefill", sampling="triggered", window_s=None)


def test_stages_that_will_be_skipped_take_no_time(tmp_path: Path) -> None:
    """GIVEN a prefill of random weights, no plan, THEN generation, alternatives, impact and plan take no time."""
    estimates = estimate(tmp_path, phase="prefill", weights="random")
    assert {stage for stage, moments in estimates.items() if not moments} == {
        "generate", "alternatives", "ablate", "correlate", "plan"
    }  # fmt: skip
    left_out = estimate(tmp_path, phase="prefill", stages=("benchmark", "ablate", "correlate"))
    assert left_out["profile"] == left_out["correlate"] == []
    assert left_out["ablate"]


def test_ablations_and_trials_go_at_the_pace_of_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN passes of 0.1 s over one batch of data, THEN each change takes 0.03 to 0.12 s, each trial its passes.

    Two precisions of three trials of 4 + 2 passes, judged once: at least 2 (3 x 0.6 + 0.1 + 0.2) s.
    """
    monkeypatch.setattr(pace_estimates, "_pass_s", lambda context, inputs: 0.1)
    bench = {"num_iters": 4, "warmup_steps": 2, "trials": 3, "precisions": ("fp32", "int8")}
    estimates = estimate(tmp_path, phase="prefill", benchmark=BenchmarkSettings(**bench, trial_seconds=None))
    (ablate,), (benchmark,) = estimates["ablate"], estimates["benchmark"]
    changes = preview(RunSettings("tiny-llama", root=tmp_path, phase="prefill", **SMALL)).ablations  # type: ignore[arg-type]
    assert ablate == TimeEstimate(pytest.approx(changes * 0.03), pytest.approx(0.1 + changes * 0.12), changes)
    assert benchmark.least_s == pytest.approx(2 * (3 * 0.6 + 0.1 + 0.2))
    assert benchmark.most_s > 2 * benchmark.least_s


def test_a_model_that_fails_in_a_pass_is_not_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a pass that raises, THEN the stages of passes have no time: each says by itself what failed."""

    def fail(*_: object) -> float:
        raise RuntimeError

    monkeypatch.setattr(pace_estimates, "_pass_s", fail)
    assert not {"benchmark", "ablate"} & set(estimate(tmp_path, phase="prefill"))


def test_a_profile_begins_with_fewer_steps_than_it_may_come_to(tmp_path: Path) -> None:
    """GIVEN a profile whose components may need more windows, THEN its first count leaves room for these."""
    told: list[Told] = []
    steps: list[int] = []

    def progress(stage: str, _label: str, _done: int, total: int) -> None:
        if stage == "profile":
            steps.append(total)

    more = {**SMALL, "passes": 2, "component_budget_s": 0.4}
    module.run("tiny-llama", root=tmp_path, phase="prefill", stages=("profile",), progress=progress,
               on_open=lambda _, estimates: told.append(estimates), **more)  # fmt: skip
    (moment,) = told[0]["profile"]
    plan = preview(RunSettings("tiny-llama", root=tmp_path, phase="prefill", **more))  # type: ignore[arg-type]
    assert steps[0] == plan.windows < moment.steps_most
    assert moment.least_s < moment.most_s


def test_a_profile_that_will_fail_is_not_foreseen_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN an adapter whose part is not there, THEN the run still begins, and its profile says so in its turn."""

    def broken(*_args: Any, **_options: Any) -> None:
        raise ModelError("the adapter's part is not there")

    monkeypatch.setattr(preview_module, "component_tree", broken)
    estimates = estimate(tmp_path)
    assert "profile" not in estimates
    assert estimates["generate"]


def test_a_profile_that_was_not_asked_for_is_not_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a benchmark alone, THEN no scene is planned, and the profile is known to be skipped."""
    monkeypatch.setattr(preview_module, "plan_phases", lambda *_: pytest.fail("nothing is to be profiled"))
    assert estimate(tmp_path, stages=("benchmark",))["profile"] == []


@pytest.mark.parametrize(("sensor", "modelled", "watches"), [(None, False, 2), ({}, False, 0), (None, True, 0)])
def test_sensors_that_nobody_knows_yet_are_watched_before_the_first_scene(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sensor: object, modelled: bool, watches: int
) -> None:
    """GIVEN two meters, THEN the first scene has their watch and the search for the samples' interval, if any."""
    contexts: list[Any] = []

    def keep(context: Any) -> Told:
        contexts.append(context)
        return {}

    monkeypatch.setattr(module, "estimated_times", keep)
    estimate(tmp_path, phase="both", stages=("profile",))
    context = contexts[0]
    context.sensor = sensor

    def times(*meters: str) -> Sequence[TimeEstimate]:
        context.meters["profile"] = SimpleNamespace(modelled=modelled, meters=meters)
        return estimated_times(context)["profile"]

    watch_s = watches * IDLE_WATCH_S
    first, second = times()
    monkeypatch.setattr(preview_module, "search_s", lambda meter, device: 15.0)
    searched, again = times()
    assert (searched.least_s, searched.most_s) == (first.least_s + 15, first.most_s + 15)
    assert again == second
    monkeypatch.setattr(preview_module, "search_s", lambda meter, device: 0.0)
    assert times("first", "second") == [
        TimeEstimate(first.least_s + watch_s, first.most_s + watch_s, first.steps_most), second,
    ]  # fmt: skip

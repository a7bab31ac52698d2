"""How long a run has still to go: what was shown or planned, and no number of what nobody can know."""

from __future__ import annotations

import pytest

from energyscope.cli.time_left import StageProgress, estimate_of, is_skipped, left_of_run, phase_of
from energyscope.reporting.terminal_live import TimeLeft, TimeRange

FORESEEN = {
    "generate": [(12.0, 12.0, 0, "")],
    "profile": [(40.0, 90.0, 100, "")],
    "alternatives": [(0.0, 20.0, 0, "")],
}
LATER = ["generate", "profile", "alternatives", "ablate", "report"]


PLAN = [
    (20.0, 30.0, 60, "prices"), (0.0, 10.0, 9, "everywhere"), (20.0, 30.0, 60, "prices"),
    (0.0, 10.0, 9, "everywhere"), (None, None, 48, "sensitivity"), (5.0, 8.0, 12, "verification"),
]  # fmt: skip


def paced(*steps: tuple[int, int, float] | tuple[int, int, float, str], begun_s: float = 0.0) -> StageProgress:
    pace = StageProgress(begun_s)
    for step in steps:
        pace.step(*step)
    return pace


def test_later_stages_are_added_to_the_running_one() -> None:
    """GIVEN 2 of 10 steps in 20 s and a plan of others, THEN 80 s and the plan are left, then the others."""
    pace = paced((0, 10, 0.0), (2, 10, 20.0))
    assert left_of_run("benchmark", pace, LATER, FORESEEN, 20.0) == TimeLeft(
        TimeRange(132.0, 202.0), ["ablate", "report"]
    )


def test_a_stage_without_a_pace_is_not_counted() -> None:
    """GIVEN a running stage of which nothing is known yet, THEN the time is said to be without it, too."""
    left = left_of_run("benchmark", paced((0, 1, 0.0)), LATER, FORESEEN, 5.0)
    assert left == TimeLeft(TimeRange(52.0, 122.0), ["benchmark", "ablate", "report"])


def test_a_stage_that_will_be_skipped_takes_no_time_and_has_no_name() -> None:
    """GIVEN stages that will be skipped, THEN they are neither counted nor named."""
    pace = paced((0, 10, 0.0), (5, 10, 5.0))
    skipped = {**FORESEEN, "ablate": [], "generate": []}
    assert left_of_run("benchmark", pace, LATER, skipped, 5.0) == TimeLeft(TimeRange(45.0, 115.0), ["report"])
    assert estimate_of("ablate", skipped) is None
    assert is_skipped("ablate", skipped)
    assert not is_skipped("profile", skipped)
    assert not is_skipped("report", skipped)
    assert not is_skipped("ablate", None)


def test_a_planned_stage_takes_the_rest_of_its_plan_until_it_has_a_pace() -> None:
    """GIVEN a profile without a finished step, THEN its plan less what it has had is left, and never below 0."""
    for now_s, span in (
        (110.0, TimeRange(30.0, 80.0)),
        (160.0, TimeRange(0.0, 30.0)),
        (999.0, TimeRange(0.0, 0.0)),
    ):
        pace = paced((0, 50, 100.0), begun_s=95.0)
        assert left_of_run("profile", pace, [], FORESEEN, now_s) == TimeLeft(span, [])


def test_a_stage_that_may_take_more_steps_has_a_range() -> None:
    """GIVEN 10 of 50 planned steps at 1 s, and up to 100 where all need more, THEN 40 to 90 s are left."""
    pace = paced((0, 50, 0.0), (10, 50, 10.0))
    assert left_of_run("profile", pace, [], FORESEEN, 10.0) == TimeLeft(TimeRange(40.0, 90.0), [])
    pace.step(110, 120, 110.0)  # more than was planned at most
    assert left_of_run("profile", pace, [], FORESEEN, 110.0) == TimeLeft(TimeRange(10.0, 10.0), [])


def test_later_moments_of_the_running_stage_are_to_come() -> None:
    """GIVEN a prefill at its pace, and a step planned after it, THEN both are left; in the step, itself alone."""
    estimates = {"profile": [(40.0, 40.0, 0, ""), (70.0, 80.0, 0, "")]}
    pace = paced((0, 10, 0.0), (5, 10, 5.0))
    assert left_of_run("profile", pace, [], estimates, 5.0) == TimeLeft(TimeRange(75.0, 85.0), [])
    pace.step(0, 10, 20.0)
    assert left_of_run("profile", pace, [], estimates, 20.0) == TimeLeft(TimeRange(70.0, 80.0), [])
    pace.step(5, 10, 30.0)
    assert left_of_run("profile", pace, [], estimates, 30.0) == TimeLeft(TimeRange(10.0, 10.0), [])


@pytest.mark.parametrize(
    ("running", "waiting", "estimates", "left"),
    [
        ("load", ["profile", "ablate"], None, TimeLeft(None, ["profile", "ablate"])),
        ("load", [], None, None),
        ("correlate", ["report"], FORESEEN, None),
        ("report", [], FORESEEN, None),
    ],
)
def test_what_nobody_knows_has_no_number(
    running: str, waiting: list[str], estimates: object, left: object
) -> None:
    """GIVEN no estimate of what is left, THEN no time is said; before the load, when it will be."""
    assert left_of_run(running, paced((0, 1, 0.0)), waiting, estimates, 3.0) == left  # type: ignore[arg-type]


def test_a_sweep_has_its_own_time_and_no_other() -> None:
    """GIVEN a command that names no stages, THEN what is left of its one stage is said there alone."""
    assert left_of_run("sweep", paced((0, 10, 0.0), (5, 10, 5.0)), [], None, 5.0) is None


def test_what_comes_after_the_last_step_has_no_pace() -> None:
    """GIVEN all steps behind, THEN how long the stage's end takes is not known, and not 0."""
    assert paced((0, 10, 0.0), (10, 10, 10.0)).left(10.0) is None


def test_what_prepares_a_step_is_in_no_pace() -> None:
    """GIVEN 15 s of set-up and preheating before 70 windows of 0.5 s, THEN 69 such windows are left."""
    pace = paced((0, 1, 0.0), (0, 1, 5.0), (0, 70, 10.0), (0, 70, 15.0), (1, 70, 15.5))
    assert pace.left(15.5) == 34.5
    assert pace.spent(15.5) == 15.5
    pace.step(2, 70, 16.0)
    assert pace.left(16.0) == 34.0


def test_parts_that_come_again_are_told_apart() -> None:
    """GIVEN prices of two workloads, THEN each has the later parts left, and the judging is named."""
    pace = paced((0, 60, 0.0, "prices"))
    everything = TimeLeft(TimeRange(45.0, 88.0), ["plan: sensitivity", "report"])
    assert left_of_run("plan", pace, ["report"], {"plan": PLAN}, 0.0) == everything
    pace.step(0, 60, 20.0, "prices")  # of the second workload: no precision saved anything for the first
    pace.step(0, 60, 20.0, "prices")
    assert phase_of("plan", pace, {"plan": PLAN}) == (1, 6)
    pace.step(30, 60, 50.0, "prices")
    assert left_of_run("plan", pace, [], {"plan": PLAN}, 50.0) == TimeLeft(
        TimeRange(30.0 + 25.0, 30.0 + 58.0), ["plan: sensitivity"]
    )
    pace.step(0, 60, 90.0, "prices")
    assert phase_of("plan", pace, {"plan": PLAN}) == (3, 6)
    assert left_of_run("plan", pace, [], {"plan": PLAN}, 90.0) == TimeLeft(
        TimeRange(25.0, 48.0), ["plan: sensitivity"]
    )


def test_a_part_that_nobody_could_estimate_has_its_own_pace() -> None:
    """GIVEN a judging without a finished step, THEN it is named as not counted; with one, it has its pace."""
    pace = paced((0, 60, 0.0, "prices"), (0, 48, 20.0, "sensitivity"))
    assert left_of_run("plan", pace, [], {"plan": PLAN}, 25.0) == TimeLeft(
        TimeRange(5.0, 8.0), ["plan: sensitivity"]
    )
    pace.step(8, 48, 28.0, "sensitivity")
    assert left_of_run("plan", pace, [], {"plan": PLAN}, 28.0) == TimeLeft(TimeRange(45.0, 48.0), [])
    pace.step(0, 1, 70.0, "export")  # that no estimate has
    assert phase_of("plan", pace, {"plan": PLAN}) == (6, 6)

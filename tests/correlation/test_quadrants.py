from __future__ import annotations

import math

import pytest

from energyscope.correlation.quadrants import UNDECIDED, Point, assign_quadrants, side
from energyscope.reasons import reason


def point(energy: float, impact: float, half_width: float | None = 0.1) -> Point:
    bounds = (None,) * 4
    if half_width is not None:
        bounds = (energy - half_width, energy + half_width, impact - half_width, impact + half_width)
    return Point(
        component=f"{energy}/{impact}",
        kind="mlp",
        layer=None,
        energy_mj=energy,
        energy_ci_low_mj=bounds[0],
        energy_ci_high_mj=bounds[1],
        impact=impact,
        impact_ci_low=bounds[2],
        impact_ci_high=bounds[3],
    )


def test_each_quadrant() -> None:
    """GIVEN four clear points, THEN the medians lie between them and each is in its quadrant."""
    points = [point(4, 4), point(3, 1), point(1, 3), point(0, 0)]
    thresholds = assign_quadrants(points, "kl")
    assert (thresholds.energy_mj, thresholds.impact) == (2, 2)
    assert [p.quadrant for p in points] == [
        "high energy, high impact",
        "high energy, low impact",
        "low energy, high impact",
        "low energy, low impact",
    ]


def test_interval_over_a_threshold_is_undecided() -> None:
    """GIVEN intervals that hold a threshold on one axis, THEN the component is undecided."""
    points = [point(4, 4, 2.5), point(3, 1), point(1, 3), point(0, 0)]
    assign_quadrants(points, "kl")
    assert [p.quadrant == UNDECIDED for p in points] == [True, False, False, False]


def test_unknown_interval_is_undecided() -> None:
    """GIVEN a value without an interval, however far from the threshold, THEN it is undecided."""
    points = [point(400, 400, None), point(3, 1), point(1, 3), point(0, 0)]
    assign_quadrants(points, "kl")
    assert points[0].quadrant == UNDECIDED


def test_ties_are_undecided() -> None:
    """GIVEN points that all have the median's value exactly, THEN none is called high or low."""
    points = [point(2, 2, 0.0) for _ in range(5)]
    assign_quadrants(points, "kl")
    assert {p.quadrant for p in points} == {UNDECIDED}


@pytest.mark.parametrize("metric", ["top1_agreement", "accuracy_difference"])
def test_low_agreement_is_high_impact(metric: str) -> None:
    """GIVEN a metric that falls as impact grows, THEN values below the median are high impact."""
    points = [point(4, 0.1, 0.01), point(3, 0.9, 0.01), point(1, 0.2, 0.01), point(0, 0.8, 0.01)]
    thresholds = assign_quadrants(points, metric)
    assert points[0].quadrant == "high energy, high impact"
    assert points[3].quadrant == "low energy, low impact"
    assert thresholds.rule == reason("median-split", side="below")


def test_no_points_have_no_thresholds() -> None:
    """GIVEN nothing, THEN the thresholds are unknown, not 0."""
    thresholds = assign_quadrants([], "kl")
    assert (thresholds.energy_mj, thresholds.impact) == (None, None)


def test_not_a_number_has_no_side() -> None:
    """GIVEN an interval with NaN in it, THEN it lies on no side."""
    assert side(math.nan, 3.0, 1.0) is None
    assert side(2.0, 3.0, 1.0) == "high"
    assert side(2.0, 3.0, 3.0) is None

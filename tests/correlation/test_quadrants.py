from __future__ import annotations

import math

import numpy as np
import pytest

from energyscope.correlation.quadrants import UNDECIDED, Point, add_stability, assign_quadrants, side
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


def clusters(half_width: float) -> list[Point]:
    """Four groups of five points, one far out in each quadrant."""
    rng = np.random.default_rng(0)
    return [
        point(energy + rng.uniform(), impact + rng.uniform(), half_width)
        for energy in (0, 100)
        for impact in (0, 100)
        for _ in range(5)
    ]


def test_far_points_stay_and_near_points_move() -> None:
    """GIVEN points far from the medians, THEN they stay in their quadrant; with errors as wide, they do not."""
    far, near = clusters(0.1), clusters(300.0)
    for points in (far, near):
        assign_quadrants(points, "kl")
        add_stability(points, "kl")
    assert np.mean([point.stability or 0 for point in far]) > 0.8
    assert np.mean([point.stability or 0 for point in near]) < 0.5
    assert all(point.likely_quadrant == point.quadrant for point in far)


def test_undecided_points_have_a_likely_quadrant() -> None:
    """GIVEN a point whose interval holds a median, THEN its stability is that of its likely quadrant."""
    points = [point(4, 4, 3.5), *(point(*place, 0.1) for place in ((3, 1), (1, 3), (0, 0)) for _ in range(3))]
    assign_quadrants(points, "kl")
    add_stability(points, "kl")
    assert points[0].quadrant == "undecided"
    assert points[0].likely_quadrant == "high energy, high impact"
    assert points[0].stability is not None
    assert 0.25 <= points[0].stability < 1


def test_rank_intervals_count_from_the_most() -> None:
    """GIVEN exact and blurred values, THEN exact ranks have no width, and rank 1 is most of each."""
    points = [point(float(energy), float(9 - energy), 0.001) for energy in range(8)]
    points[3].energy_ci_low_mj, points[3].energy_ci_high_mj = -0.5, 6.5
    add_stability(points, "kl")
    assert (points[7].energy_rank_low, points[7].energy_rank_high) == (1, 1)
    assert (points[7].impact_rank_low, points[0].impact_rank_high) == (8, 1)
    assert points[3].energy_rank_low == pytest.approx(2, abs=0.6)
    assert points[3].energy_rank_high == pytest.approx(8, abs=0.6)


def test_low_agreement_ranks_first() -> None:
    """GIVEN a metric that falls with impact, THEN the lowest value has impact rank 1, and its quadrant is high."""
    points = [point(float(place), place / 10, 0.001) for place in range(8)]
    assign_quadrants(points, "top1_agreement")
    add_stability(points, "top1_agreement")
    assert points[0].impact_rank_low == 1
    assert points[0].quadrant == "low energy, high impact"
    assert points[0].stability is not None
    assert points[0].stability > 0.8


def test_few_points_have_no_stability() -> None:
    """GIVEN seven points, THEN they have none."""
    points = [point(1, 1, 0.1)] * 7
    add_stability(points, "kl")
    assert points[0].stability is None

from __future__ import annotations

import numpy as np
import pytest

from energyscope.correlation.quadrants import Point, assign_quadrants
from energyscope.correlation.stability import add_stability


def point(energy: float, impact: float, half_width: float) -> Point:
    return Point(
        component=f"{energy}/{impact}",
        kind="mlp",
        layer=None,
        energy_mj=energy,
        energy_ci_low_mj=energy - half_width,
        energy_ci_high_mj=energy + half_width,
        impact=impact,
        impact_ci_low=impact - half_width,
        impact_ci_high=impact + half_width,
    )


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
    assert np.mean([one.stability or 0 for one in far]) > 0.8
    assert np.mean([one.stability or 0 for one in near]) < 0.5
    assert all(one.likely_quadrant == one.quadrant for one in far)


def test_undecided_points_have_a_likely_quadrant() -> None:
    """GIVEN a point whose interval holds a median, THEN its stability is that of its likely quadrant."""
    points = [point(4, 4, 3.5), *(point(*at, 0.1) for at in ((3, 1), (1, 3), (0, 0)) for _ in range(3))]
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

from __future__ import annotations

import numpy as np
import pytest

from energyscope.correlation.resampling import Resamples, axis, clusters_of, interval_of


def test_redrawn_values_have_the_interval_that_was_given() -> None:
    """GIVEN an asymmetric interval, THEN its ends and the value are the 2.5, 97.5 and 50 % points of the draws."""
    drawn = axis([10.0], [9.0], [14.0]).redrawn(40_000, (0,))[:, 0]
    assert np.quantile(drawn, [0.025, 0.5, 0.975]) == pytest.approx([9, 10, 14], abs=0.06)


def test_unknown_ends_are_taken_as_exact() -> None:
    """GIVEN one end unknown, or a value outside its interval, THEN nothing is drawn on that side."""
    values = axis([1.0, 2.0, 3.0], [np.nan, 2.5, 2.0], [2.0, 4.0, 4.0])
    drawn = values.redrawn(500, (0,))
    assert set(drawn[:, 0]) == {1.0}
    assert drawn[:, 1].min() == 2.0
    assert drawn[:, 2].min() < 3.0
    assert axis([1.0, 2.0]).exact


def test_points_are_drawn_within_their_stratum() -> None:
    """GIVEN strata of 2, 3 and 1 points, THEN each place holds a point of its own stratum, each as often."""
    strata = np.array([0, 0, 1, 1, 1, 2])
    chosen = Resamples(6, strata=strata, rows=6000).chosen
    assert (strata[chosen] == strata).all()
    assert np.bincount(chosen[:, 2], minlength=6)[2:5] / 6000 == pytest.approx([1 / 3] * 3, abs=0.03)


def test_a_point_drawn_twice_brings_the_same_value() -> None:
    """GIVEN a resample, THEN it holds values of the same redraw that ``keep`` gives: the axes stay paired."""
    values = axis([1.0, 2.0, 3.0], [0.5, 1.5, 2.5], [1.5, 2.5, 3.5])
    resamples = Resamples(3, rows=20)
    kept, taken = resamples.keep(values, 0), resamples.take(values, 0)
    assert (taken == np.take_along_axis(kept, resamples.chosen, 1)).all()
    assert not np.array_equal(kept, resamples.keep(values, 1))


def test_the_pull_of_redrawing_is_taken_back() -> None:
    """GIVEN draws that errors alone move from 0.8 to 0.6, THEN the interval lies 0.2 higher, and within -1..1."""
    both = np.linspace(0.2, 0.9, 1001)
    low, high = interval_of(0.8, both, np.full(9, 0.6)) or (0, 0)
    assert low == pytest.approx(0.2 + 0.7 * 0.025 + 0.2)
    assert high == 1.0


def test_no_interval_where_most_draws_have_no_coefficient() -> None:
    """GIVEN more NaN than numbers, THEN there is no interval."""
    assert interval_of(0.5, np.array([np.nan, np.nan, 0.5]), None) is None


def test_points_of_a_kind_come_and_go_together() -> None:
    """GIVEN kinds of 10 and 2 points, each with a value of its own, THEN resamples of one kind alone have no
    coefficient: half of them, as two kinds are drawn of two. Points by themselves would almost always mix.
    """
    values = axis([*[0.0] * 10, *[1.0] * 2])
    resamples = Resamples(12, clusters=clusters_of(["mlp"] * 10 + ["norm"] * 2))
    assert np.isnan(resamples.coefficients(values, values, "pearson")).mean() == pytest.approx(0.5, abs=0.04)
    apart = Resamples(12).coefficients(values, values, "pearson")
    assert np.isnan(apart).mean() == pytest.approx((10 / 12) ** 12, abs=0.03)


def test_points_are_drawn_anew_within_a_kind_drawn() -> None:
    """GIVEN two kinds whose points differ, THEN the resamples of one kind alone differ among themselves."""
    x, y = axis(np.arange(12.0)), axis(np.arange(12.0) ** 2)
    drawn = Resamples(12, clusters=clusters_of(["mlp"] * 6 + ["norm"] * 6)).coefficients(x, y, "pearson")
    assert len(np.unique(drawn.round(9))) > 1500


def test_one_kind_or_one_point_each_are_no_clusters() -> None:
    """GIVEN points of one kind, of a kind each, or without kinds, THEN points are drawn by themselves."""
    for kinds in (None, [], ["a"] * 4, ["a", "b", "c", "d"]):
        assert clusters_of(kinds) is None
    numbers = clusters_of(["b", "a", "b"])
    assert numbers is not None
    assert numbers.tolist() == [1, 0, 1]

from __future__ import annotations

import math

import numpy as np
import pytest

from energyscope.intervals import (
    Interval,
    difference,
    finite,
    from_entry,
    interval,
    ratio,
    serialize,
    total,
    total_of_same,
)


def test_missing_cells_make_no_interval() -> None:
    """A cell that is empty, NaN or text is unknown, and not 0."""
    assert interval(None) is None
    assert interval(math.nan, 1.0, 2.0) is None
    assert finite("text") is None
    assert interval(2.0, math.nan, 3.0) == Interval(2.0, None, 3.0)


def test_entries_of_documents_are_read_as_intervals() -> None:
    """GIVEN what JSON holds, THEN an interval; null and text are nothing."""
    assert from_entry({"value": 1, "low": 0.5, "high": None}) == Interval(1.0, 0.5, None)
    assert from_entry(None) is None
    assert from_entry({"value": None}) is None


def test_intervals_are_written_as_they_are_read() -> None:
    """GIVEN an interval THEN its entry reads as the same; what is not known or no number is null."""
    for item in (Interval(1.0, 0.5, 2.0), Interval(1.0), Interval(0.0, None, 2.0)):
        assert from_entry(serialize(item)) == item
    assert serialize(None) is None
    assert serialize(Interval(math.nan, 0.0, 1.0)) is None
    assert serialize(Interval(1.0, -math.inf, 2.0)) == {"value": 1.0, "low": None, "high": 2.0}


def test_errors_of_independent_values_add_in_quadrature() -> None:
    """GIVEN two independent values, THEN their sum's half-width is the root of the squares."""
    result = total([Interval(10.0, 7.0, 13.0), Interval(20.0, 16.0, 24.0)])
    assert result == Interval(30.0, 25.0, 35.0)


def test_errors_of_one_measurement_add_linearly() -> None:
    """GIVEN one measurement shown for several layers, THEN its errors add up in full."""
    assert total_of_same([Interval(10.0, 9.0, 12.0)] * 4) == Interval(40.0, 36.0, 48.0)


def test_a_sum_with_an_unknown_interval_has_none() -> None:
    """GIVEN one part without limits, THEN the sum has a value and no limits."""
    assert total([Interval(1.0, 0.5, 1.5), Interval(2.0)]) == Interval(3.0)


def test_difference_keeps_intervals_asymmetric() -> None:
    """The lower limit of a - b comes from a's lower and b's upper distance."""
    result = difference(Interval(10.0, 7.0, 10.0), Interval(4.0, 4.0, 8.0))
    assert result == Interval(6.0, 1.0, 6.0)


def test_ratio_covers_the_true_ratio_as_often_as_it_says() -> None:
    """GIVEN repeated noisy measurements of 12 and 8, THEN 95 % intervals hold 1.5 about 95 % of the time."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(2000):
        first, second = 12 + rng.normal(0, 0.5), 8 + rng.normal(0, 0.4)
        result = ratio(
            Interval(first, first - 1.96 * 0.5, first + 1.96 * 0.5),
            Interval(second, second - 1.96 * 0.4, second + 1.96 * 0.4),
        )
        assert result is not None
        held += not result.excludes(1.5)
    assert 0.935 <= held / 2000 <= 0.965


def test_ratio_needs_positive_values() -> None:
    """A ratio to a negative or zero value is unknown."""
    assert ratio(Interval(-1.0, -2.0, 0.0), Interval(2.0, 1.0, 3.0)) is None
    assert ratio(Interval(1.0), Interval(0.0)) is None
    assert ratio(Interval(1.0), Interval(2.0)) == Interval(0.5)


@pytest.mark.parametrize(("number", "outside"), [(0.0, True), (1.5, False), (2.0, False), (2.1, True)])
def test_excludes(number: float, outside: bool) -> None:
    """A number on the limit is not excluded."""
    assert Interval(1.5, 1.0, 2.0).excludes(number) is outside
    assert not Interval(1.5).excludes(number)

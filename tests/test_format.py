"""How numbers are written: one way, with three digits, a unit that fits, and an error that is known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyscope import format as fmt
from energyscope.intervals import Interval


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (1550, "mJ", "1.55 J"), (0.0021, "mJ", "2.10 µJ"), (999.9, "mJ", "1.00 J"), (0, "mJ", "0 mJ"),
        (1.83, "J", "1.83 J"), (0.00183, "J", "1.83 mJ"), (12_340, "us", "12.3 ms"), (2.5e9, "bytes", "2.33 GiB"),
        (1_235_814_400, "amount", "1.24 B"), (0.4567, "share", "46 %"), (0.0457, "share", "4.6 %"),
        (0.00001, "share", "<0.01 %"), (-0.00005, "change", ">−0.01 %"),
        (-0.62, "change", "−62 %"), (0.031, "change", "+3.1 %"),
        (8.31, "ratio", "8.3x"), (0.0431, "ratio", "0.0431x"), (123456, "count", "123,456"),
        (1.3e-7, "", "1.30e−7"), (-40.0, "mJ", "−40.0 mJ"), (None, "mJ", "–"), (math.nan, "mJ", "–"),
    ],
)  # fmt: skip
def test_a_quantity_has_three_digits_in_a_unit_that_fits(value, unit, written):
    """GIVEN a value in a unit of the run files, THEN it is written as people read it; the unknown is a dash."""
    assert fmt.quantity(value, unit) == written


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "written"),
    [
        (1735.2, 1514.5, 1955.9, "mJ", "1.74 J ± 0.22"), (654.76, 649.4, 660.1, "mJ", "655 mJ ± 5"),
        (0.363, 0.332, 0.395, "share", "36 % ± 3"), (-0.62, -0.66, -0.58, "change", "−62 % ± 4"),
        (5.0, -7.0, 17.0, "mJ", "5 mJ ± 12"), (12.0, 10.0, 19.0, "mJ", "12 mJ [10, 19]"),
        (-0.22, -1.34, 0.37, "share", "−22 % [−134, 37]"), (7.7, 7.6, 7.8, "ratio", "7.70x ± 0.10"),
        (1e-7, 0.9e-7, 1.1e-7, "", "1.0e−7 [9.0e−8, 1.1e−7]"),
        (0.0001, 0.000098, 0.000102, "share", "0.01000 % ± 0.00020"), (-0.2, -12.0, 11.6, "mJ", "0 mJ ± 12"),
    ],
)  # fmt: skip
def test_a_measured_value_carries_its_interval(value, low, high, unit, written):
    """GIVEN a 95 % interval, THEN ± its half where it is even, and both limits where it is skewed."""
    assert fmt.measured(Interval(value, low, high), unit) == written


def test_without_an_interval_a_value_stands_alone():
    """GIVEN no interval, or one of no width, THEN no error is invented."""
    assert fmt.measured(Interval(1550.0), "mJ") == "1.55 J"
    assert fmt.measured(Interval(2.0, 2.0, 2.0), "mJ") == "2.00 mJ"
    assert fmt.measured(None, "mJ") == fmt.UNKNOWN


@given(st.floats(1e-8, 1e8), st.floats(1e-4, 0.6))
def test_the_error_that_is_written_is_the_error_that_was_given(value, share):
    """GIVEN any even interval, THEN what is read back lies within a tenth of value and error (two digits)."""
    written = fmt.measured(Interval(value, value * (1 - share), value * (1 + share)), "count")
    if "±" not in written:  # tiny values are written with their limits
        assert "[" in written or share < 1e-4
        return
    shown, error = (float(part.replace(",", "")) for part in written.split(" ± "))
    assert shown == pytest.approx(value, rel=0.1, abs=0.6 * value * share)
    assert error == pytest.approx(value * share, rel=0.5)


def test_a_grade_says_what_it_means():
    """GIVEN a grade below C, THEN it reads as too noisy, with how much."""
    assert fmt.grade("invalid", Interval(100.0, 86.0, 114.0)) == "too noisy, ±14 %"
    assert fmt.grade("A", Interval(100.0, 99.5, 100.5)) == "A, ±0.5 %"
    assert fmt.grade("B") == "B"


def test_lists_and_amounts_read_as_sentences_do():
    """GIVEN words and amounts, THEN commas, one 'and', and the right plural."""
    assert fmt.listed(["a", "b", "c"]) == "a, b and c"
    assert fmt.listed(list("abcdef"), 2) == "a, b and 4 more"
    assert (fmt.count(1, "row"), fmt.count(1200, "row")) == ("1 row", "1,200 rows")


def test_a_number_stays_beside_its_unit():
    """GIVEN a sentence, THEN no line breaks between a number, its unit and its error."""
    assert fmt.unbroken("takes 1.83 J ± 0.22 or 36 %") == "takes 1.83\u00a0J\u00a0±\u00a00.22 or 36\u00a0%"

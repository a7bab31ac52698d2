from __future__ import annotations

import pytest

from energyscope.reporting import text
from energyscope.runs.intervals import Interval


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (0.0123, "mJ", "12.3 µJ"),
        (12.34, "mJ", "12.3 mJ"),
        (2500.0, "mJ", "2.50 J"),
        (-5.0, "mJ", "-5.00 mJ"),
        (1234567.0, "mJ", "1.23 kJ"),
        (1_799_349.0, "pJ", "1.80 µJ"),
        (4_120.0, "pJ", "4.12 nJ"),
        (0.612, "pJ", "0.612 pJ"),
        (227.0, "us", "227 µs"),
        (3_500_000.0, "us", "3.50 s"),
        (4938268, "bytes", "4.71 MiB"),
        (699.6, "W", "700 W"),
        (34_000_000_000.0, "FLOP", "34.0 GFLOP"),
        (412_000_000_000_000.0, "FLOP/s", "412 TFLOP/s"),
        (3_210_000_000_000.0, "bytes/s", "3.21 TB/s"),
        (0.0, "mJ", "0 mJ"),
        (None, "mJ", "not measured"),
    ],
)
def test_quantities_have_a_fitting_unit(value: float | None, unit: str, written: str) -> None:
    """Three significant digits, the unit that fits, and words where the value is unknown."""
    assert text.quantity(value, unit) == written


def test_limits_show_two_digits_of_the_width() -> None:
    """The limits are in the value's unit and precise enough to show the interval's width."""
    assert text.with_limits(Interval(1532.0, 1511.0, 1555.0), "mJ") == "1.53 J [1.511, 1.555]"
    assert text.with_limits(Interval(12.3), "mJ") == "12.3 mJ"
    assert text.with_limits(None, "mJ") == "not measured"


def test_what_cannot_be_negative_has_no_limit_at_nothing() -> None:
    """GIVEN a lower limit of 0, THEN the upper one stands alone; any other, and a value of 0, are as ever."""
    assert text.amount(Interval(20.0, 0.0, 75.0), "mJ") == "20.0 mJ [up to 75]"
    assert text.amount(Interval(1532.0, 1511.0, 1555.0), "mJ") == "1.53 J [1.511, 1.555]"
    assert text.amount(Interval(20.0), "mJ") == "20.0 mJ"
    assert text.amount(None, "mJ") == "not measured"
    assert text.amount_limits(Interval(0.0, 0.0, 0.0), "") == text.limits(Interval(0.0, 0.0, 0.0), "")


def test_shares_as_percentages() -> None:
    """Small shares keep a digit that tells them from nothing."""
    assert [text.percent(share) for share in (0.46, 0.046, 0.0046, -0.012, None)] == [
        "46 %", "4.6 %", "0.46 %", "-1.2 %", "not measured",
    ]  # fmt: skip
    assert text.percent_with_limits(Interval(0.46, 0.44, 0.48)) == "46.0 % [44.0, 48.0]"
    assert text.percent_with_limits(Interval(0.46)) == "46 %"


def test_counts_agree_with_their_noun() -> None:
    """One row, three rows, two passes."""
    assert [text.count(1, "row"), text.count(3000, "row")] == ["1 row", "3,000 rows"]
    assert text.count(2, "pass", "passes") == "2 passes"


def test_words_are_listed_as_a_sentence_does() -> None:
    """The last two are joined by "and"; beyond the limit the rest is counted."""
    assert [text.listed(list("abc")[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert text.listed(list("abcdef")) == "a, b, c, d and 2 more"


def test_changes_carry_their_sign() -> None:
    """A rise has a plus, a fall its minus, and what is unknown says so."""
    assert [text.signed_percent(change) for change in (0.65, -0.012, None)] == ["+65 %", "-1.2 %", "not measured"]

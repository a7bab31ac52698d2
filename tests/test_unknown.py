"""Arithmetic with unknowns gives None, never 0."""

from __future__ import annotations

from energyscope.unknown import mean, minus, quotient, times, total


def test_known_values_are_plain_arithmetic():
    """Where everything is known, the functions are what their names say."""
    assert (minus(5.0, 3.0), times(2.0, 4.0), quotient(1.0, 4.0)) == (2.0, 8.0, 0.25)
    assert (total([1.0, 2.0]), mean([1.0, 3.0])) == (3.0, 2.0)


def test_an_unknown_makes_the_result_unknown():
    """GIVEN one unknown THEN difference, product, quotient and sum are unknown; the mean is of the others."""
    assert minus(None, 1.0) is None
    assert minus(1.0, None) is None
    assert times(None, 2.0) is None
    assert quotient(None, 2.0) is None
    assert total([1.0, None]) is None
    assert mean([None, 3.0]) == 3.0


def test_nothing_is_not_zero():
    """A mean of nothing and a share of nothing are unknown."""
    assert mean([]) is None
    assert mean([None]) is None
    assert quotient(1.0, 0.0) is None
    assert quotient(1.0, None) is None

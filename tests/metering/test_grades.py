"""Grades follow the width of an interval, its windows and what disturbed them."""

from __future__ import annotations

import pytest

from energyscope.metering.grades import grade
from energyscope.reasons import reason


@pytest.mark.parametrize(
    ("half", "windows", "guard", "expected", "why"),
    [
        (0.004, 5, (), "A", []),
        (0.004, 4, (), "B", [reason("few-windows", windows=4)]),
        (0.02, 5, (), "B", [reason("wide-interval", half_width=0.02)]),
        (0.004, 5, ("heat",), "C", ["heat"]),
        (0.004, 5, ("heat", "clocks"), "C", ["heat", "clocks"]),
        (0.08, 5, (), "C", [reason("wide-interval", half_width=0.08)]),
        (0.2, 9, (), "invalid", [reason("wide-interval", half_width=0.2)]),
        (0.2, 9, ("heat",), "invalid", ["heat", reason("wide-interval", half_width=0.2)]),
        (None, 1, (), "invalid", [reason("no-interval", windows=1)]),
    ],
)
def test_grades(half, windows, guard, expected, why):
    """A, B, C and invalid follow the stated limits, and every grade below A says why."""
    assert grade(half, windows, guard) == (expected, why)

"""A budget refuses what no longer fits beside what is planned already."""

from __future__ import annotations

from energyscope.changes.budget import Budget
from energyscope.reasons import reason


def test_what_is_planned_counts():
    """GIVEN 10 s and five windows of 1 s planned at second 2 THEN 3 s are left, and 4 s are refused."""
    budget = Budget(10.0, 5, begin_s=100.0)
    budget.plan(1.0)
    assert budget.refused(102.0, 0.5, 0.4) is None
    assert budget.refused(102.0, 2.0, 0.4) == reason("beyond-time-budget", needed_s=4.0, left_s=3.0, budget_s=10.0)


def test_nothing_is_left_of_an_overspent_budget():
    """GIVEN more spent than there is THEN none is left, never a negative time."""
    assert Budget(10.0, 5, begin_s=0.0).refused(50.0, 1.0, 1.0).values["left_s"] == 0


def test_a_little_over_is_not_over():
    """The passes end only where the time is exceeded by a third."""
    budget = Budget(10.0, 5, begin_s=0.0)
    assert not budget.over(12.0)
    assert budget.over(14.0)

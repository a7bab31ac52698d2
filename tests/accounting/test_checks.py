"""Which shares can be relied on: leaves with overhead, and each kind from its two sides."""

from __future__ import annotations

import pytest

from energyscope.accounting.checks import AGREES, CHEAPER, COSTLIER, UNCLEAR, Checks, KindCheck, checks
from energyscope.intervals import Interval
from energyscope.reasons import reason


def around(value, half):
    return Interval(value, value - half, value + half)


@pytest.mark.parametrize(
    ("replayed", "saved", "verdict"),
    [
        (around(0.26, 0.01), around(0.37, 0.03), CHEAPER),
        (around(0.37, 0.01), around(0.26, 0.03), COSTLIER),
        (around(0.26, 0.01), around(0.37, 0.12), UNCLEAR),
        (around(0.36, 0.005), around(0.37, 0.01), AGREES),
        (around(0.36, 0.005), around(0.39, 0.005), UNCLEAR),
        (around(0.36, 0.005), around(0.37, 0.2), UNCLEAR),
        (around(0.001, 0.0001), around(-0.01, 0.02), UNCLEAR),
        (Interval(0.26), around(0.37, 0.01), UNCLEAR),
        (None, around(0.37, 0.01), UNCLEAR),
    ],
)
def test_two_sides_differ_where_their_intervals_are_apart(replayed, saved, verdict):
    """GIVEN both shares THEN they differ beyond 7 % between the intervals, and agree within 7 % if narrow."""
    check = KindCheck(replayed, saved)
    assert check.verdict == verdict
    assert check.disagrees is (verdict in {CHEAPER, COSTLIER})


def test_intervals_that_touch_are_not_apart():
    """GIVEN intervals that touch THEN the sides are not shown to differ, although their difference excludes 0."""
    assert KindCheck(around(0.26, 0.05), around(0.36, 0.05)).verdict == UNCLEAR


@pytest.mark.parametrize(
    ("execution", "decides", "quantity", "name"),
    [("eager", "dynamic", "dynamic", "work"), ("cuda-graph", "energy", "energy", "energy")],
)
def test_checks_are_read_of_the_quantity_that_decides(execution, decides, quantity, name):
    """GIVEN closure and differentials THEN leaves and kinds are of work eagerly, of energy in a graph."""
    leaves = {"energy": 0.91, "energy_low": 0.71, "energy_high": 1.14, "dynamic": 0.97, "dynamic_low": 0.95,
              "dynamic_high": 0.99, "decides": decides}  # fmt: skip
    shares = {
        key: {"replayed": {"value": value}, "saved": {"value": 0.5}}
        for key, value in (("energy", 0.2), ("dynamic", 0.3))
    }
    document = {"closure": {"leaves": leaves}, "differential": {"mlp": {"shares": shares}}}
    known = checks(document, execution)
    assert (known.quantity, known.name) == (quantity, name)
    assert known.leaves == Interval(*(leaves[f"{quantity}{end}"] for end in ("", "_low", "_high")))
    assert known.kinds["mlp"].replayed == Interval(shares[quantity]["replayed"]["value"])


def test_what_was_not_measured_is_unknown():
    """GIVEN a run without closure or differentials THEN there are no leaves, no kinds, and no state."""
    known = checks({}, "eager")
    assert (known.leaves, known.state, dict(known.kinds)) == (None, None, {})
    assert not known.add_up_wrongly
    assert known.outside() == "closure-unknown"


def test_a_sum_outside_says_what_it_is():
    """GIVEN leaves that come to 80 % THEN the reason holds that number and the limits."""
    known = Checks(leaves=around(0.8, 0.02))
    assert known.add_up_wrongly
    assert known.outside() == reason("closure-outside", closure=0.8, low=0.95, high=1.05)

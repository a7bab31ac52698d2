"""Intervals between ticks, and the energy of a load that lasts many of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from energyscope.metering.tick_intervals import energy_between, tick_intervals, ticks_from_rows, ticks_to_rows
from energyscope.metering.ticks import Ticks
from energyscope.testing import SimulatedCounter

LOAD = (10.0, 14.03)


def steady(**sensor):
    return SimulatedCounter(load_w=300.0, idle_w=100.0, **sensor).ticks(7.0, 15.0, load=LOAD)


def test_energy_between_two_times():
    """GIVEN 4 s at 300 W THEN the energy is theirs, and lies between its bounds."""
    energy = energy_between(steady(), *LOAD)
    assert energy["energy_j"] == pytest.approx(300 * 4.03, rel=0.02)
    assert energy["low"] <= 300 * 4.03 <= energy["high"]
    assert energy["high"] - energy["low"] < 2 * 0.1 * 300 + 1
    assert energy["reason"] is None


@pytest.mark.parametrize("seed", range(10))
def test_the_bounds_hold_wherever_the_ticks_lie(seed):
    """Whatever the phase of the ticks, the true energy lies between the bounds."""
    energy = energy_between(steady(seed=seed), 10.0, 10.35)
    assert energy["low"] - 1 <= 300 * 0.35 <= energy["high"] + 1


def test_what_the_ticks_do_not_reach_over_is_unknown():
    """GIVEN a phase that begins before the first tick, or ends after the last THEN None, with the reason."""
    for begin, end in ((6.0, 12.0), (10.0, 20.0)):
        energy = energy_between(steady(), begin, end)
        assert (energy["energy_j"], energy["low"], energy["high"]) == (None, None, None)
        assert energy["reason"].code == "phase-beyond-ticks"
    assert energy_between(steady().between(0, 1), 10.0, 12.0)["energy_j"] is None


def test_a_reset_within_is_unknown():
    """GIVEN a counter that restarted meanwhile THEN the energy is None, and not negative."""
    energy = energy_between(steady(reset_at_s=12.0), *LOAD)
    assert energy["energy_j"] is None
    assert energy["reason"].code == "counter-disturbed"


def test_ticks_survive_the_journal_and_come_once():
    """Ticks as plain data through JSON are the same ticks, those of two pieces each once and in order."""
    ticks = steady()
    rows = json.loads(json.dumps(ticks_to_rows(ticks)))
    again = ticks_from_rows([*rows[20:], *rows[:25]])
    for name in ("before_s", "after_s", "energy_mj", "reset"):
        assert (getattr(again, name) == getattr(ticks, name)).all()
    assert len(ticks_from_rows([])) == 0


def test_ticks_around_which_reads_failed_are_left_out():
    """GIVEN a tick seen 80 ms late THEN the interval over it is twice as long, with the energy of both."""
    times = np.arange(20) * 0.1
    late = times + 0.004
    late[10] += 0.08
    intervals = tick_intervals(Ticks(times - 0.001, late, times * 300e3))
    assert len(intervals.times_s) == 19
    assert intervals.energy_j.sum() == pytest.approx(19 * 30)
    assert intervals.good.all()

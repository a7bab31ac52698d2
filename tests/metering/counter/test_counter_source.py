"""How often a counter changes, and that one that stands still is told."""

from __future__ import annotations

import pytest
from clocks import Clock
from fake_powercap import one_socket

from energyscope.errors import MeterError
from energyscope.metering.counter import source
from energyscope.metering.counter.source import Counter, update_period_s
from energyscope.metering.rapl.powercap import Powercap


def test_a_counter_that_stands_still_is_told(tmp_path):
    """GIVEN counters that never change THEN looking for their period ends with that."""
    one_socket(tmp_path)
    with pytest.raises(MeterError, match=r"package-0 stands still: 0 changes in 0\.[12] s"):
        update_period_s(Powercap(tmp_path), changes=3, most_s=0.1)


def test_the_period_is_that_of_the_writer(tmp_path):
    """GIVEN counters that a process writes every millisecond THEN their period is about that."""
    tree = one_socket(tmp_path)
    with tree.writing():
        period_s = update_period_s(Powercap(tmp_path), changes=50, most_s=20.0)
    assert 0.001 <= period_s < 0.01


class SlowCounter(Counter):
    """A counter that changes every 0.3 s of its own time."""

    domains = ("chip",)

    def __init__(self):
        self.clock = Clock(1e-5)

    def energy_mj(self):
        self.clock.sleep(0.001)
        return self.clock.now_s // 0.3


def test_a_slow_counter_has_a_period(monkeypatch):
    """GIVEN three changes within the time, and not the 20 that were asked for, THEN the period is theirs."""
    counter = SlowCounter()
    monkeypatch.setattr(source, "time", counter.clock)
    assert update_period_s(counter, changes=20, most_s=1.0) == pytest.approx(0.3, abs=0.01)

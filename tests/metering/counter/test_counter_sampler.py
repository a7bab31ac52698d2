"""The process that watches a counter: which changes it sees, how sharply, and what it takes for a reset."""

from __future__ import annotations

import json

import pytest
from clocks import Clock

from energyscope.metering.counter import sampler


class Counter:
    """A counter of 50 W that changes every millisecond, in its own time.

    ``stops`` holds spans without reads; half a second on, it falls by ``fallen_mj``.
    """

    def __init__(self, stops=(), fallen_mj=0.0):
        self.clock = Clock(1e-5)
        self._fallen_mj = fallen_mj
        self._stops = list(stops)

    def energy_mj(self):
        self.clock.sleep(0.00003)
        return 50.0 * (self.clock.now_s // 0.001) - self._fallen_mj * (self.clock.now_s > 0.5)

    def goes_on(self):
        """Tell whether its first second lasts, and stop the reader for a while where that is due."""
        if self._stops and self.clock.now_s >= self._stops[0][0]:
            self.clock.sleep(self._stops.pop(0)[1])
        return self.clock.now_s < 1.0


def records(monkeypatch, counter, **options):
    """Return what is emitted of a counter in its first second."""
    seen = []
    monkeypatch.setattr(sampler, "time", counter.clock)
    monkeypatch.setattr("energyscope.metering.nvml.sampler.time", counter.clock)
    sampler.watch(counter.energy_mj, seen.append, counter.goes_on, **options)
    return seen


def test_changes_are_seen_sharply_and_seldom(monkeypatch):
    """GIVEN a change every millisecond THEN one is seen about every 21 ms, within a tenth of a millisecond."""
    counter = Counter()
    seen = records(monkeypatch, counter)
    assert 40 <= len(seen) <= 50
    for record in seen:
        assert record["after_s"] - record["before_s"] < 0.00015
        assert record["before_s"] <= record["energy_mj"] / 50.0 * 0.001 + 1e-4
        assert record["energy_mj"] / 50.0 * 0.001 <= record["after_s"] + 1e-4
    assert seen[0]["power_w"] is None
    assert [record["power_w"] for record in seen[1:]] == pytest.approx([50.0] * (len(seen) - 1), rel=0.02)
    json.dumps(seen)


def test_a_gap_in_which_a_counter_may_have_wrapped_is_a_reset(monkeypatch):
    """GIVEN no read for 0.3 s WHEN a counter may wrap within 0.2 s THEN that tick, and no other, is a reset."""
    seen = records(monkeypatch, Counter([(0.5, 0.3)]), most_gap_s=0.2)
    (reset,) = [record for record in seen if record["reset"]]
    assert reset["after_s"] > 0.8
    assert reset["before_s"] < 0.81


def test_a_counter_that_falls_is_a_reset(monkeypatch):
    """WHEN a counter begins again at 0 THEN the next tick, and no other, is a reset, and has no power."""
    seen = records(monkeypatch, Counter(fallen_mj=25_000.0))
    (reset,) = [record for record in seen if record["reset"]]
    assert 0.5 < reset["after_s"] < 0.53
    assert reset["power_w"] is None
    assert min(record["power_w"] for record in seen[1:] if not record["reset"]) > 0

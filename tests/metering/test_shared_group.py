"""Meters that stay started over several runs."""

from __future__ import annotations

import time

from energyscope.metering.group import MeterGroup, SharedGroup
from energyscope.metering.modelled import ModelledMeter


class Counted(ModelledMeter):
    """Counts how often it is started and stopped, and has a state now and then."""

    def __init__(self) -> None:
        super().__init__(10.0)
        self.starts = self.stops = 0
        self.seen = [time.monotonic()]

    def __enter__(self):
        self.starts += 1
        return super().__enter__()

    def __exit__(self, *rest):
        self.stops += 1
        return super().__exit__(*rest)

    def states(self, begin_s, end_s):
        return [{"after_s": time_s} for time_s in self.seen if begin_s <= time_s <= end_s]


def test_runs_start_and_stop_nothing():
    """GIVEN started meters WHEN two runs enter and leave THEN they were started once and still run."""
    meter = Counted()
    with MeterGroup([meter]) as started:
        for _ in range(2):
            with SharedGroup(started) as shared:
                assert shared.modelled
        assert (meter.starts, meter.stops) == (1, 0)
    assert meter.stops == 1


def test_a_run_sees_only_what_came_since_it_began():
    """The states of earlier runs are not the run's."""
    meter = Counted()
    with MeterGroup([meter]) as started, SharedGroup(started) as shared:
        assert shared.states(0.0, float("inf")) == []
        meter.seen.append(time.monotonic())
        assert len(shared.states(0.0, float("inf"))) == 1
        assert len(started.states(0.0, float("inf"))) == 2

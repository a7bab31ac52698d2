"""The sampler's loop reports each change of a counter, and never invents one."""

from __future__ import annotations

import pytest

from energyscope.metering.sampler import MAXIMUM_FAILURES, PAUSE_S, TICKS_TO_LEARN, Pace, watch


def collect(values):
    """Run the loop over a script of readings; an exception in it is raised by the read."""
    records, script = [], iter(values)
    remaining = len(values)

    def read():
        nonlocal remaining
        remaining -= 1
        value = next(script)
        if isinstance(value, Exception):
            raise value
        return value

    watch(read, lambda: {"power_w": 1.0}, records.append, lambda: remaining > 0)
    return records


def test_only_changes_are_reported():
    """GIVEN repeated values THEN one record for each change, none for the first value."""
    assert [record["energy_mj"] for record in collect([5, 5, 6, 6, 9])] == [6, 9]


def test_a_change_lies_between_the_reads_around_it():
    """The change is bracketed by the last read of the old value and the first of the new one."""
    (record,) = collect([5, 5, 6])
    assert record["before_s"] < record["after_s"]
    assert record["power_w"] == 1.0


def test_a_failed_read_widens_the_bracket_and_loses_nothing():
    """WHEN a read fails THEN the change is reported by the next one, over a longer bracket."""
    (clean,) = collect([5, 6])
    (failed,) = collect([5, OSError("busy"), OSError("busy"), 6])
    assert failed["energy_mj"] == 6
    assert failed["after_s"] - failed["before_s"] > clean["after_s"] - clean["before_s"]


def test_a_fall_is_marked_as_a_reset():
    """A counter that falls is marked, so that no negative energy is made of it."""
    assert [record["reset"] for record in collect([5, 3, 4])] == [True, False]


def test_a_lost_gpu_ends_the_watch_with_the_reason():
    """WHEN reads keep failing THEN the last record says that the counter was lost."""
    records = collect([5, *[OSError("GPU is lost")] * (MAXIMUM_FAILURES + 5)])
    assert records == [{"lost": "GPU is lost"}]


def learned(period_s=0.1):
    pace = Pace()
    for number in range(TICKS_TO_LEARN):
        pace.tick(number * period_s - 0.002, number * period_s + 0.002)
    return pace, (TICKS_TO_LEARN - 1) * period_s


def test_the_counter_is_left_alone_between_known_ticks():
    """GIVEN ten regular ticks THEN the next read comes shortly before the next one is due, and not earlier."""
    pace, last = learned()
    assert pace.period_s == pytest.approx(0.1)
    assert 0.08 < pace.pause_s(last + 0.002) < 0.09
    assert pace.pause_s(last + 0.11) == PAUSE_S


def test_irregular_ticks_are_polled_for_all_the_time():
    """Ticks without a common period never let the sampler sleep."""
    pace = Pace()
    for number in range(30):
        pace.tick(number * 0.1 + 0.03 * (number % 2), number * 0.1 + 0.03 * (number % 2) + 0.004)
    assert pace.pause_s(0.0) == PAUSE_S


def test_an_early_tick_unlearns_the_period():
    """WHEN a tick came while the counter was left alone THEN it is polled all the time again."""
    pace, last = learned()
    pace.tick(last + 0.002, last + 0.085)
    assert pace.period_s is None
    assert pace.pause_s(last + 0.09) == PAUSE_S

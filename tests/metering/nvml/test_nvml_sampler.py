"""The sampler's loop reports each change of a counter, and never invents one."""

from __future__ import annotations

import pytest
from clocks import Clock

from energyscope.metering.nvml import sampler
from energyscope.metering.nvml.binding import LostGpuError
from energyscope.metering.nvml.sampler import PAUSE_S, TICKS_TO_LEARN, Pace, watch, watch_power


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The sampler's loops go by a clock of their own."""
    monkeypatch.setattr(sampler, "time", Clock())


def collect(values, loop=watch):
    """Run a loop over a script of readings; an exception in it is raised by the read."""
    records, script = [], iter(values)
    remaining = len(values)

    def read():
        nonlocal remaining
        remaining -= 1
        value = next(script)
        if isinstance(value, Exception):
            raise value
        return value

    loop(read, lambda: {"power_w": 1.0}, records.append, lambda: remaining > 0)
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


@pytest.mark.parametrize(("apart_s", "asleep_s"), [(0.0, 60.0), (0.002, None)])
def test_each_record_tells_how_long_the_host_has_slept(apart_s, asleep_s):
    """GIVEN clocks of which one goes on while the host sleeps THEN records hold their difference, read at once."""

    def since_boot_s(_clock):
        sampler.time.sleep(apart_s)
        return sampler.time.monotonic() + 60.0

    sampler.time.CLOCK_BOOTTIME, sampler.time.clock_gettime = 7, since_boot_s
    (record,) = collect([5, 6])
    (reading, *_) = collect([5.0, 6.0], watch_power)
    expected = asleep_s and pytest.approx(asleep_s, abs=0.001)
    assert [record["asleep_s"], reading["asleep_s"]] == [expected, expected]


def test_a_fall_is_marked_as_a_reset():
    """A counter that falls is marked, so that no negative energy is made of it."""
    assert [record["reset"] for record in collect([5, 3, 4])] == [True, False]


def test_reads_that_keep_failing_end_the_watch_with_the_reason():
    """WHEN reads fail for two seconds THEN the last record says that the source was lost."""
    records = collect([5, *[OSError("busy")] * (sampler.MAXIMUM_FAILURES + 5)])
    assert records == [{"lost": "busy"}]


def test_a_lost_gpu_ends_the_watch_at_once():
    """WHEN the driver says that the GPU is gone THEN nothing is read again."""
    records = collect([5, LostGpuError("the GPU is gone"), 6, 7])
    assert records == [{"lost": "the GPU is gone"}]


def test_the_first_power_is_reported_at_once():
    """An integral begins with the first reading, and a change follows as soon as it is seen."""
    records = collect([100.0, 100.0, 120.0, 120.0], watch_power)
    assert [record["reading_w"] for record in records] == [100.0, 120.0]
    assert records[0]["before_s"] == records[0]["after_s"]
    assert records[1]["before_s"] < records[1]["after_s"]


def test_a_steady_power_is_reported_again_and_again(monkeypatch):
    """WHEN the power never changes THEN it is reported all the same, so that no gap is seen in it."""
    monkeypatch.setattr(sampler, "POWER_PAUSE_S", 0.01)
    records = collect([100.0] * 50, watch_power)
    assert 2 <= len(records) <= 4
    assert all(record["before_s"] == record["after_s"] for record in records)


def test_a_power_read_that_fails_is_left_out():
    """A failed read is neither a power of 0 nor an end."""
    records = collect([100.0, OSError("busy"), 120.0], watch_power)
    assert [record["reading_w"] for record in records] == [100.0, 120.0]


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

"""Readings of power become cumulative energy, and a gap in them is never energy."""

from __future__ import annotations

import pytest
from clocks import Clock

from energyscope.errors import MeterError
from energyscope.metering import process_meter
from energyscope.metering.nvml.neighbours import Neighbours, Usage
from energyscope.metering.power_meter import PowerMeter


def meter(*, averaged=False, interval_s=0.1):
    quiet = Neighbours(lambda: Usage(None, None, None))
    return PowerMeter("GPU-a", ["true"], quiet, [], field="a field", averaged=averaged, interval_s=interval_s)


def feed(power_meter, samples):
    """Give a meter readings at (before, after, watts), all in one draught, and return what it made of them."""
    keys = ("before_s", "after_s", "reading_w")
    power_meter._watcher.drain = lambda: [dict(zip(keys, sample, strict=True)) for sample in samples]
    power_meter._drain()
    return power_meter.records


def drained(power_meter, samples):
    """Feed a meter and return it; nothing more comes."""
    feed(power_meter, samples)
    power_meter._watcher.drain = list
    return power_meter


def test_energy_is_given_for_the_very_moment_of_a_tick():
    """A tick's bracket is closed: its energy is that of its middle."""
    records = feed(meter(), [(0.0, 0.0, 100.0), (0.09, 0.11, 100.0)])
    assert (records[1]["before_s"], records[1]["after_s"]) == (0.1, 0.1)
    assert records[1]["energy_mj"] == pytest.approx(10_000)


def test_a_gap_is_marked_like_a_reset():
    """WHEN no reading came for seconds THEN what was drawn meanwhile is unknown, and marked so."""
    records = feed(meter(), [(0.0, 0.0, 100.0), (0.2, 0.2, 100.0), (3.2, 3.2, 100.0), (3.4, 3.4, 100.0)])
    assert [record["reset"] for record in records] == [False, False, True, False]


def test_a_long_draught_is_not_a_gap():
    """Readings that were fetched together after seconds follow each other without a gap."""
    records = feed(meter(), [(0.1 * number, 0.1 * number, 100.0) for number in range(30)])
    assert not any(record["reset"] for record in records)


def test_slow_sampling_is_not_a_gap():
    """Readings every two seconds, as asked for, are no gaps."""
    records = feed(meter(interval_s=2.0), [(float(at), float(at), 100.0) for at in (0, 2, 4)])
    assert not any(record["reset"] for record in records)


def repeated(watts, seconds, begin_s=0.0):
    return [(begin_s + 0.2 * at, begin_s + 0.2 * at, watts) for at in range(round(seconds / 0.2))]


def test_a_reading_that_does_not_change_is_no_power():
    """WHEN a field shows the same for over ten seconds THEN no energy is made of it until it changes again."""
    records = feed(meter(), [*repeated(100.0, 15.0), *repeated(101.0, 2.0, begin_s=15.0)])
    stuck = [record["after_s"] for record in records if record["reset"]]
    assert stuck[0] == pytest.approx(10.2)
    assert stuck[-1] == pytest.approx(14.8)


def test_a_field_that_is_stuck_for_long_is_an_error():
    """WHEN a field shows the same for half a minute THEN the meter is lost; a milliwatt of noise is enough."""
    with pytest.raises(MeterError, match=r"a field has shown 100 W for over 30 s.*stuck; another --meter"):
        drained(meter(), repeated(100.0, 31.0)).ticks(0.0, 31.0)
    noisy = [(at, at, 100 + 0.001 * (number % 2)) for number, (at, _, _) in enumerate(repeated(100.0, 31.0))]
    ticks = drained(meter(), noisy).ticks(0.0, 31.0)
    assert not ticks.reset.any()


def test_a_process_that_was_stopped_does_not_take_its_meter_for_lost(monkeypatch):
    """GIVEN minutes in which nobody listened (Ctrl-Z) THEN they are no silence; 20 s of listening in vain are."""
    clock = Clock()
    monkeypatch.setattr(process_meter, "time", clock)
    made = drained(meter(), [(0.0, 0.0, 100.0)])
    clock.sleep(300.0)
    made.ticks(0.0, 1.0)
    for _ in range(3):
        clock.sleep(4.9)
        made.ticks(0.0, 1.0)
    clock.sleep(4.9)
    with pytest.raises(MeterError, match="has sent nothing for 25 s"):
        made.ticks(0.0, 1.0)


def test_energy_drawn_while_the_host_slept_is_unknown():
    """GIVEN a host that slept between two readings THEN the later one is marked: its clock stood still."""
    made = meter()
    asleep_s = [5.0, 5.001, None, 65.0, 65.0]
    made._watcher.drain = lambda: [
        {"before_s": at, "after_s": at, "reading_w": 100.0 + at, "asleep_s": slept}
        for at, slept in zip((0.0, 0.1, 0.2, 0.3, 0.4), asleep_s, strict=True)
    ]
    made._drain()
    assert [record["reset"] for record in made.records] == [False, False, False, True, False]


@pytest.mark.parametrize(("averaged", "interval_s", "window_s"), [(False, 0.1, 0.1), (True, 0.1, 1.0)])
def test_settling_covers_the_averaging_and_one_refresh(averaged, interval_s, window_s):
    """A tick counts once the readings have forgotten the load before."""
    made = meter(averaged=averaged, interval_s=interval_s)
    assert made.settle_s == pytest.approx(window_s + 0.1)
    assert made.window_s >= window_s + 0.2
    assert made.describe()["averaging_s"] == window_s


def test_an_averaged_field_is_said():
    """The description says that the instant power was not to be had."""
    assert [note.code for note in meter(averaged=True).describe()["notes"]] == ["averaged-power"]
    assert meter().describe()["notes"] == []


def test_no_reading_at_all_is_an_error():
    """A source that never gives a power is an error that names another way."""
    with pytest.raises(MeterError, match="--meter"):
        meter()._check_first_ticks()

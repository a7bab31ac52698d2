"""The rapl meter, over its real watching process and a powercap tree that a process writes."""

from __future__ import annotations

import time

import numpy as np
import pytest
from fake_nvml.waiting import wait_for_error, wait_until
from fake_powercap import FakePowercap, one_socket

from energyscope.errors import MeterError
from energyscope.metering import process_meter
from energyscope.metering.counter import meter as meters
from energyscope.metering.group import MeterGroup
from energyscope.metering.rapl.meter import RaplMeter
from energyscope.metering.ticks import mean_power
from energyscope.reasons import reason


def watched(meter, seconds=0.6):
    """Return an interval that a started meter has watched, with ticks in it."""
    begin = time.monotonic()
    time.sleep(seconds)
    wait_until(lambda: len(meter.ticks(begin, np.inf)) >= 6, "six ticks")
    return begin, time.monotonic()


def test_power_is_that_of_package_and_dram(tmp_path):
    """GIVEN 40 W and 8 W THEN ticks come some 20 ms apart, their power is 48 W, and none is MODELLED."""
    tree = one_socket(tmp_path)
    with tree.writing(), RaplMeter(tmp_path) as meter:
        begin, end = watched(meter)
        ticks, states, facts = meter.ticks(begin, end), meter.states(begin, end), meter.describe()
    assert mean_power(ticks, begin, end) == pytest.approx(48, rel=0.05)
    assert np.median(np.diff(ticks.time_s)) == pytest.approx(0.022, abs=0.006)
    assert np.median(ticks.after_s - ticks.before_s) < 0.002
    assert (facts["meter"], facts["modelled"], facts["energy_quantum_mj"]) == ("rapl", False, None)
    assert 0.001 <= facts["update_period_s"] < 0.01
    assert facts["notes"] == [reason("processor-counters", domains=["package-0", "dram"])]
    assert {"power_w", "sm_clock_mhz", "temperature_c", "energy_mj"} <= set(states[0])
    assert MeterGroup([meter]).of_cpu


def test_a_wrap_during_a_window_is_no_reset(tmp_path):
    """GIVEN a package whose counter begins again every half second THEN no tick is a reset, and power is right."""
    tree = one_socket(tmp_path, watts=4000.0, wrap_uj=2_000_000_000)
    with tree.writing(), RaplMeter(tmp_path) as meter:
        begin, end = watched(meter, 1.2)
        ticks = meter.ticks(begin, end)
    assert not ticks.reset.any()
    assert mean_power(ticks, begin, end) == pytest.approx(4008, rel=0.05)


def test_a_processor_without_dram_says_so(tmp_path):
    """GIVEN a package alone, as AMD has it, THEN its joules are measured, and a note says what is not in them."""
    tree = FakePowercap(tmp_path)
    tree.add("intel-rapl:0", "package-0", 30.0)
    with tree.writing(), RaplMeter(tmp_path) as meter:
        begin, end = watched(meter)
        power, notes = mean_power(meter.ticks(begin, end), begin, end), meter.describe()["notes"]
    assert power == pytest.approx(30, rel=0.05)
    assert reason("no-dram-counter") in notes


def test_a_frozen_counter_is_refused(tmp_path, monkeypatch):
    """GIVEN counters that stand still THEN the meter cannot be made."""
    monkeypatch.setattr(meters, "STILL_S", 0.2)
    one_socket(tmp_path)
    with pytest.raises(MeterError, match="stands still"):
        RaplMeter(tmp_path)


def test_a_counter_that_freezes_ends_the_meter(tmp_path, monkeypatch):
    """WHEN the counters stop during a run THEN reading the meter says so."""
    monkeypatch.setattr(RaplMeter, "silent_s", 0.5)
    tree = one_socket(tmp_path)
    with tree.writing():
        meter = RaplMeter(tmp_path)
        meter.__enter__()
    try:
        assert "has not changed" in wait_for_error(meter)
    finally:
        meter.__exit__()


def test_a_counter_that_goes_away_ends_the_meter(tmp_path):
    """WHEN the counters are taken away THEN reading the meter says so."""
    tree = one_socket(tmp_path)
    with tree.writing(), RaplMeter(tmp_path) as meter:
        (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
        assert "cannot be read any more" in wait_for_error(meter)


def test_it_can_be_read_at_a_moment(tmp_path):
    """Reads from the measuring process have their moment, and rise by what was drawn between them."""
    tree = one_socket(tmp_path)
    with tree.writing():
        meter = RaplMeter(tmp_path)
        first = meter.read()
        time.sleep(0.5)
        last = meter.read()
    drawn_w = (last.energy_mj - first.energy_mj) / 1e3 / (last.at_s - first.at_s)
    assert drawn_w == pytest.approx(48, rel=0.1)


def test_the_watching_process_ends_with_the_meter(tmp_path, monkeypatch):
    """Leaving the block leaves no process behind."""
    monkeypatch.setattr(process_meter, "ENDING_S", 120.0)
    tree = one_socket(tmp_path)
    with tree.writing(), RaplMeter(tmp_path) as meter:
        process = meter._watcher._process
    assert process.returncode == 0

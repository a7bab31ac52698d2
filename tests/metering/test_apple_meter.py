"""The apple meter, over its real watching process and a stand-in for zeus-apple-silicon: no Mac was met."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from fake_counters.fake_scene import place
from fake_nvml.waiting import wait_for_error, wait_until

from energyscope.errors import MeterError
from energyscope.metering import load
from energyscope.metering.apple import AppleCounter, AppleMeter
from energyscope.metering.group import MeterGroup
from energyscope.metering.load import OtherLoad
from energyscope.metering.ticks import mean_power
from energyscope.metering.window import Calls, estimate_window
from energyscope.reasons import reason

CHIP = {"cpu_w": 12.0, "gpu_w": 2.0, "dram_w": 1.0, "sram_w": 500.0, "ane_w": 500.0}


@pytest.fixture
def chip(tmp_path, monkeypatch):
    """Return a function that makes a Mac of this machine, of the scene that it is given."""
    return lambda **scene: place(monkeypatch, tmp_path / "scene.json", **{**CHIP, **scene})


def watched(meter, seconds=0.6):
    begin = time.monotonic()
    time.sleep(seconds)
    wait_until(lambda: len(meter.ticks(begin, np.inf)) >= 6, "six ticks")
    return begin, time.monotonic()


def test_power_is_that_of_cpu_gpu_and_dram(chip):
    """GIVEN 12, 2 and 1 W THEN ticks come some 20 ms apart, their power is 15 W, and none is MODELLED."""
    chip()
    with AppleMeter() as meter:
        begin, end = watched(meter)
        ticks, facts = meter.ticks(begin, end), meter.describe()
    assert mean_power(ticks, begin, end) == pytest.approx(15, rel=0.05)
    assert np.median(np.diff(ticks.time_s)) == pytest.approx(0.022, abs=0.008)
    assert (facts["meter"], facts["modelled"], meter.window_s) == ("apple", False, 0.3)
    assert facts["notes"] == [reason("apple-counters", domains=["cpu", "gpu", "dram"])]
    assert MeterGroup([meter]).of_cpu


def test_a_chip_without_dram_says_so(chip):
    """GIVEN no counter of DRAM, as on early chips, THEN the others are measured, and a note says so."""
    chip(dram_w=None)
    meter = AppleMeter()
    assert meter.counter.domains == ["cpu", "gpu"]
    assert reason("no-dram-counter") in meter.describe()["notes"]


def test_a_slow_counter_has_longer_windows(chip):
    """GIVEN a counter that changes every 0.2 s THEN a window is long enough for at least two of its ticks."""
    chip(step_s=0.2)
    meter = AppleMeter()
    assert meter.update_period_s == pytest.approx(0.2, rel=0.1)
    assert meter.window_s == pytest.approx(4.2 * 0.22, rel=0.1)


def test_a_reset_in_a_window_leaves_its_energy_unknown(chip):
    """WHEN the counter falls to 0 during a window THEN that tick is a reset, and the window has no energy."""
    begin = time.monotonic()
    chip(reset_s=begin + 2.5)
    with AppleMeter() as meter:
        wait_until(lambda: meter.ticks(begin, np.inf).reset.any() and time.monotonic() > begin + 3.0, "the reset")
        end = time.monotonic()
        ticks = meter.ticks(begin, end)
    assert ticks.reset.sum() == 1
    calls = Calls(np.array([begin + 2.2, end]), np.array([0.0, 100.0]))
    window = estimate_window(ticks, calls)
    assert window.energy_mj is None
    assert window.reason.code == "counter-reset"


def test_a_counter_that_stands_still_is_refused(chip, monkeypatch):
    """GIVEN counters that never change THEN the meter cannot be made."""
    chip(step_s=1000.0)
    with pytest.raises(MeterError, match="counter of cpu stands still"):
        AppleMeter()


def test_a_counter_that_goes_away_ends_the_meter(chip):
    """WHEN reads begin to fail THEN reading the meter says so."""
    chip(lost_s=time.monotonic() + 3.0)
    with AppleMeter() as meter:
        assert "chip cannot be read: no sample" in wait_for_error(meter)


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    """GIVEN no package THEN the line names the extra, and the system that it is for."""
    monkeypatch.setitem(sys.modules, "zeus_apple_silicon", None)
    with pytest.raises(MeterError, match=r"needs macOS on Apple silicon.*pip install 'energyscope-llm\[apple\]'"):
        AppleCounter()


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        ({"refuses": "Failed to create IOReport subscription."}, "refuses the energy counters of this chip"),
        ({"cpu_w": None}, "no energy counter of this chip's CPU: use --meter modelled"),
    ],
)
def test_a_chip_that_tells_nothing_is_one_line(chip, scene, message):
    """GIVEN no subscription, or no energy of the CPU, THEN one line says so."""
    chip(**scene)
    with pytest.raises(MeterError, match=message):
        AppleCounter()


def test_without_proc_a_note_says_that_others_are_not_watched(chip, tmp_path, monkeypatch):
    """GIVEN a system without /proc THEN nobody is accused, and a note says that nobody was looked for."""
    chip()
    monkeypatch.setattr("energyscope.metering.counter.meter.OtherLoad", lambda: OtherLoad(tmp_path / "proc"))
    meter = AppleMeter()
    assert meter.bystanders() == []
    assert reason("others-not-watched") in meter.describe()["notes"]
    assert load.PROC.exists()

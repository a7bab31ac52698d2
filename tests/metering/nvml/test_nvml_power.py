"""The power field's meter, over the real binding and the real sampler process, on a fake library."""

from __future__ import annotations

import time

import numpy as np
import pytest
from clocks import Clock
from fake_nvml.waiting import wait_for_error, wait_until

from energyscope.errors import MeterError, UsageError
from energyscope.metering.nvml import sampler
from energyscope.metering.nvml.meter import NvmlPowerMeter
from energyscope.metering.ticks import mean_power
from energyscope.metering.window import estimate_window
from energyscope.testing import steady_calls
from energyscope.testing.power import PowerTrace

STEADY = "gpu GPU-aaaa Fake T4\nat 0 power_w 60"


def test_a_steady_power_ticks_and_integrates(fake_nvml):
    """GIVEN a power that never changes THEN the meter still ticks, and finds it."""
    fake_nvml(STEADY)
    with NvmlPowerMeter("GPU-aaaa") as meter:
        meter.gap_s = np.inf  # a busy machine makes gaps
        begin = time.monotonic()
        wait_until(lambda: len(meter.ticks(begin, np.inf)) >= 4, "4 ticks")
        end = time.monotonic()
        ticks, states, facts = meter.ticks(begin, end), meter.states(begin, end), meter.describe()
    assert mean_power(ticks, begin, end) == pytest.approx(60, rel=1e-6)
    assert facts["power_field"] == "the instant power of NVML"
    assert facts["energy_quantum_mj"] is None
    assert {"energy_mj", "after_s", "power_w", "sm_clock_mhz", "temperature_c", "throttle"} <= set(states[0])


@pytest.fixture
def watched(fake_nvml, monkeypatch):
    """Return a function that gives a meter what its sampler sees of a load, in a time of its own."""

    def make(failing, trace, phase_s):
        fake_nvml(f"{STEADY}\n{failing}")
        meter, clock, records = NvmlPowerMeter("GPU-aaaa"), Clock(), []
        monkeypatch.setattr(sampler, "time", clock)

        def shown():  # the field is renewed every 0.1 s
            end = (clock.now_s - phase_s) // 0.1 * 0.1 + phase_s
            begin_j, end_j = trace.energy_j(np.array([end - meter.averaging_s, end]))
            return (end_j - begin_j) / meter.averaging_s

        sampler.watch_power(shown, dict, records.append, lambda: clock.now_s < trace.end_s)
        monkeypatch.setattr(meter._watcher, "drain", lambda: [records.pop(0) for _ in list(records)])
        return meter

    return make


def drawn(*stretches):
    """Return the trace of a power: seconds and watts of each stretch."""
    trace = PowerTrace(0.0)
    for seconds, watts in stretches:
        trace.extend(seconds, watts)
    return trace


@pytest.mark.parametrize("phase_s", [0.0, 0.04, 0.08])
@pytest.mark.parametrize(("failing", "averaging_s"), [("", 0.1), ("at 0 fail field186 3", 1.0)])
def test_a_step_gives_the_true_energy(watched, failing, averaging_s, phase_s):
    """GIVEN a burst of 300 W for a second THEN instant and averaged power both give its energy within 3 %."""
    load = drawn((1.5, 60), (1.0, 300), (0.1 + 2 * averaging_s, 60))
    meter = watched(failing, load, phase_s)
    assert meter.averaging_s == averaging_s
    ticks = meter.ticks(1.0, np.inf)
    joules = (ticks.energy_mj[-1] - ticks.energy_mj[0]) / 1e3
    truth = 60 * (ticks.time_s[-1] - ticks.time_s[0]) + 240
    assert joules == pytest.approx(truth, rel=0.03)
    assert (np.diff(ticks.energy_mj) >= 0).all()
    drawn_j = load.energy_j(ticks.time_s) - load.energy_j(ticks.time_s[:1])
    assert np.abs((ticks.energy_mj - ticks.energy_mj[0]) / 1e3 - drawn_j).max() < 240 * 0.1  # within one refresh


def test_the_averaged_field_is_a_fallback_and_is_said(fake_nvml):
    """WHEN the instant field answers nothing THEN the averaged one is used, and the description says so."""
    fake_nvml(f"{STEADY}\nat 0 fail field186 3\nat 0 fail field185 3")
    described = NvmlPowerMeter("GPU-aaaa").describe()
    assert described["power_field"] == "the usage power of NVML"
    assert "averaged-power" in [note.code for note in described["notes"]]


def test_a_gpu_without_any_power_is_refused(fake_nvml):
    """GIVEN no power field at all THEN the meter cannot be made."""
    fake_nvml(f"{STEADY}\nat 0 fail nvmlDeviceGetFieldValues 3\nat 0 fail nvmlDeviceGetPowerUsage 3")
    with pytest.raises(MeterError, match="no power field"):
        NvmlPowerMeter("GPU-aaaa")


def test_a_field_that_goes_away_ends_the_meter(fake_nvml):
    """WHEN the field answers no more THEN reading the meter is an error, not a steady power."""
    machine = fake_nvml(STEADY)
    with NvmlPowerMeter("GPU-aaaa") as meter:
        machine.append("at 0 fail * 15")
        assert "bus" in wait_for_error(meter)


@pytest.mark.parametrize("phase_s", [0.0, 0.04, 0.08])
@pytest.mark.parametrize("failing", ["", "at 0 fail field186 3"])
def test_a_window_of_the_meters_own_length_gives_the_power_of_the_load(watched, failing, phase_s):
    """GIVEN a load that begins with the window THEN the estimate has forgotten the power before it."""
    meter = watched(failing, drawn((3.0, 60), (4.0, 300)), phase_s)
    begin, end = 3.0, 3.0 + meter.settle_s + meter.window_s
    calls = steady_calls(begin, end, 1e-3)
    window = estimate_window(meter.ticks(0.0, end), calls, settle_s=meter.settle_s)
    assert window.reason is None
    assert window.power_w == pytest.approx(300, rel=0.03)


def test_a_moment_of_integrated_power_cannot_be_read(fake_nvml):
    """Power that is integrated has no counter: reading one is refused with what to use instead."""
    fake_nvml(STEADY)
    with pytest.raises(UsageError, match=r"nvml-power meter .*--meter nvml, or --sampling replay"):
        NvmlPowerMeter("GPU-aaaa").read()

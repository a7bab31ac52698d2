"""The power field's meter, over the real binding and the real sampler process, on a fake library."""

from __future__ import annotations

import time

import numpy as np
import pytest
from fake_nvml.waiting import wait_for_error

from energyscope.errors import MeterError, UsageError
from energyscope.metering.estimate import estimate_window
from energyscope.metering.nvml.power import NvmlPowerMeter
from energyscope.metering.ticks import mean_power
from energyscope.testing import steady_calls

STEADY = "gpu GPU-aaaa Fake T4\nat 0 power_w 60"


def test_a_steady_power_ticks_and_integrates(fake_nvml):
    """GIVEN a power that never changes THEN the meter still ticks, five times a second, and finds it."""
    fake_nvml(STEADY)
    with NvmlPowerMeter("GPU-aaaa") as meter:
        begin = time.monotonic()
        time.sleep(1.0)
        end = time.monotonic()
        ticks, states, facts = meter.ticks(begin, end), meter.states(begin, end), meter.describe()
    assert len(ticks) >= 4
    assert mean_power(ticks, begin, end) == pytest.approx(60, rel=1e-6)
    assert facts["power_field"] == "the instant power of NVML"
    assert facts["energy_quantum_mj"] is None
    assert {"energy_mj", "after_s", "power_w", "sm_clock_mhz", "temperature_c", "throttle"} <= set(states[0])


@pytest.mark.parametrize(("failing", "averaging_s"), [("", 0.1), ("at 0 fail field186 3", 1.0)])
def test_a_step_gives_the_true_energy(fake_nvml, failing, averaging_s):
    """GIVEN a burst of 300 W for a second THEN instant and averaged power both give its energy within 3 %."""
    machine = fake_nvml(f"{STEADY}\n{failing}")
    with NvmlPowerMeter("GPU-aaaa") as meter:
        begin = time.monotonic()
        now = begin - float(machine.script.read_text().split()[1])
        machine.append(f"at {now + 0.5} power_w 300\nat {now + 1.5} power_w 60")
        time.sleep(1.6 + 2 * averaging_s)
        ticks = meter.ticks(begin, time.monotonic())
        assert meter.averaging_s == averaging_s
    joules = (ticks.energy_mj[-1] - ticks.energy_mj[0]) / 1e3
    truth = 60 * (ticks.time_s[-1] - ticks.time_s[0]) + 240
    assert joules == pytest.approx(truth, rel=0.03)
    assert (np.diff(ticks.energy_mj) >= 0).all()


def test_the_averaged_field_is_a_fallback_and_is_said(fake_nvml):
    """WHEN the instant field answers nothing THEN the averaged one is used, and the description says so."""
    fake_nvml(f"{STEADY}\nat 0 fail field186 3\nat 0 fail field185 3")
    described = NvmlPowerMeter("GPU-aaaa").describe()
    assert described["power_field"] == "the usage power of NVML"
    assert any("no instant power field" in note for note in described["notes"])


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
        assert "bus" in wait_for_error(meter, 2.0)


@pytest.mark.parametrize("failing", ["", "at 0 fail field186 3"])
def test_a_window_of_the_meters_own_length_gives_the_power_of_the_load(fake_nvml, failing):
    """GIVEN a load that begins with the window THEN the estimate has forgotten the power before it."""
    machine = fake_nvml(f"{STEADY}\n{failing}")
    with NvmlPowerMeter("GPU-aaaa") as meter:
        begin = time.monotonic()
        machine.append(f"at {begin - float(machine.script.read_text().split()[1])} power_w 300")
        time.sleep(meter.settle_s + meter.window_s)
        end = time.monotonic()
        ticks = meter.ticks(begin - 3, end)
    window = estimate_window(ticks, steady_calls(begin, end, 1e-3), settle_s=meter.settle_s)
    assert window.reason is None
    assert window.power_w == pytest.approx(300, rel=0.03)


def test_a_moment_of_integrated_power_cannot_be_read(fake_nvml):
    """Power that is integrated has no counter: reading one is refused with what to use instead."""
    fake_nvml(STEADY)
    with pytest.raises(UsageError, match=r"nvml-power meter .*--meter nvml, or --sampling replay"):
        NvmlPowerMeter("GPU-aaaa").read()

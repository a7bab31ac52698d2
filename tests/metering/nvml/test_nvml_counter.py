"""The counter's meter, over the real binding and the real sampler process, on a fake library."""

from __future__ import annotations

import time

import pytest
from fake_nvml.waiting import wait_for_error

from energyscope.errors import MeterError
from energyscope.metering import watched
from energyscope.metering.nvml.binding import LostGpuError
from energyscope.metering.nvml.board import Board
from energyscope.metering.nvml.counter import NvmlMeter, ticking_period_s
from energyscope.metering.ticks import mean_power

STEADY = "gpu GPU-aaaa Fake H200\nat 0 power_w 200\nat 0 period_s 0.05"


def watch(meter, seconds):
    """Return the interval in which a started meter was left to watch."""
    begin = time.monotonic()
    time.sleep(seconds)
    return begin, time.monotonic()


def test_period_and_power_come_from_the_process(fake_nvml):
    """GIVEN a counter of 200 W that ticks every 50 ms THEN both are found, with a state for each tick."""
    fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        begin, end = watch(meter, 0.6)
        ticks, states, facts = meter.ticks(begin, end), meter.states(begin, end), meter.describe()
    assert mean_power(ticks, begin, end) == pytest.approx(200, rel=0.05)
    assert facts["tick_period_s"] == pytest.approx(0.05, rel=0.05)
    assert facts["energy_quantum_mj"] == 10_000
    assert abs(len(states) - len(ticks)) <= 1
    assert {"energy_mj", "after_s", "power_w", "sm_clock_mhz", "temperature_c", "throttle"} <= set(states[0])
    assert (states[0]["instant_w"], states[0]["power_limit_w"]) == (200, 700)


def test_an_interval_holds_only_its_ticks(fake_nvml):
    """Ticks and states of an interval are those whose time lies in it, and later ticks go on from there."""
    fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        first = watch(meter, 0.3)
        second = first[1], watch(meter, 0.3)[1]
        early, late = meter.ticks(*first), meter.ticks(*second)
    assert (early.time_s <= first[1]).all()
    assert (late.time_s >= first[1]).all()
    assert late.energy_mj[0] - early.energy_mj[-1] == 10_000


def test_a_changed_power_limit_is_in_the_states(fake_nvml):
    """WHEN somebody lowers the limit during a run THEN the ticks from then on carry the new one."""
    machine = fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        machine.append("at 0 limit_w 400")
        begin, end = watch(meter, 0.4)
        meter.ticks(begin, end)
        assert meter.states(begin + 0.1, end)[0]["power_limit_w"] == 400


def test_a_gpu_lost_in_mid_run_ends_the_meter(fake_nvml):
    """WHEN the GPU falls off the bus THEN reading the meter says so, at once."""
    machine = fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        machine.append("at 0 fail * 15")
        assert "fell off the bus" in wait_for_error(meter, 1.0)


def test_reads_that_fail_for_a_while_are_left_out(fake_nvml):
    """WHEN reads fail for half a second THEN a wider bracket is all that is seen, and the energy goes on."""
    machine = fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        begin = time.monotonic()
        machine.append("at 0 fail nvmlDeviceGetTotalEnergyConsumption 999")
        time.sleep(0.5)
        machine.append("at 0 fail nvmlDeviceGetTotalEnergyConsumption 0")
        end = watch(meter, 0.5)[1]
        ticks = meter.ticks(begin, end)
    assert (ticks.after_s - ticks.before_s).max() > 0.3
    assert not ticks.reset.any()
    assert mean_power(ticks, begin, end) == pytest.approx(200, rel=0.1)


def test_a_reset_counter_is_marked(fake_nvml):
    """WHEN the counter starts anew THEN that tick is marked, and only that one."""
    machine = fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        begin = time.monotonic()
        since_start = begin - float(machine.script.read_text().split()[1])
        machine.append(f"at {since_start + 0.2} counter_mj 0")
        ticks = meter.ticks(*watch(meter, 0.6))
    assert ticks.reset.sum() == 1


def test_permission_denied_is_said_before_anything_runs(fake_nvml):
    """GIVEN a user who may not read the counter THEN making the meter fails with what to do."""
    fake_nvml(f"{STEADY}\nat 0 fail nvmlDeviceGetTotalEnergyConsumption 4")
    with pytest.raises(MeterError, match="administrator"):
        NvmlMeter("GPU-aaaa")


def test_a_frozen_counter_is_an_error(fake_nvml, monkeypatch):
    """GIVEN a counter that never changes THEN starting the meter fails, and leaves no process behind."""
    monkeypatch.setattr(watched, "FIRST_TICKS_TIMEOUT_S", 0.5)
    fake_nvml(f"{STEADY}\nat 0 frozen 1")
    meter = NvmlMeter("GPU-aaaa")
    with pytest.raises(MeterError, match="frozen"), meter:
        pytest.fail("it started")
    assert meter._watcher._process is None


def test_a_frozen_counter_is_found_before_the_start(fake_nvml, monkeypatch):
    """A counter is proved by watching it tick; one that stands still is refused."""
    machine = fake_nvml(STEADY)
    assert NvmlMeter("GPU-aaaa").prove().startswith("the energy counter answers and ticks about every 0.0")
    monkeypatch.setattr("energyscope.metering.nvml.counter.TICKING_TIMEOUT_S", 0.3)
    machine.append("at 0 frozen 1")
    with pytest.raises(MeterError, match="stands still"):
        ticking_period_s(Board("GPU-aaaa"))


def test_a_gpu_that_the_process_cannot_open_is_one_clear_line(fake_nvml):
    """WHEN the GPU vanishes before the sampler opens it THEN the error is NVML's, not a traceback's last line."""
    machine = fake_nvml(STEADY)
    meter = NvmlMeter("GPU-aaaa")
    machine.write("gpu GPU-bbbb")
    with pytest.raises(MeterError, match=r"^NVML does not know the GPU GPU-aaaa"), meter:
        pytest.fail("it started")


def test_the_process_ends_with_the_meter(fake_nvml):
    """Leaving the block leaves no process behind."""
    fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        process = meter._watcher._process
    assert process.poll() is not None


def test_other_users_of_the_gpu_are_named(fake_nvml):
    """Another process and a busy GPU while nothing of ours runs are both reported."""
    fake_nvml(f"{STEADY}\nprocess 1 100\nat 0 utilisation 50")
    assert len(NvmlMeter("GPU-aaaa").bystanders()) == 2


def test_a_hidden_process_list_is_a_note(fake_nvml):
    """WHEN the process list does not name us though we hold memory THEN the description says so."""
    fake_nvml(f"{STEADY}\nprocess 1 100")
    meter = NvmlMeter("GPU-aaaa")
    assert meter.bystanders(own_bytes=1) == []
    assert "does not name us" in meter.describe()["notes"][-1]


def test_a_label_of_the_device_is_a_note(fake_nvml):
    """What must be said of the device is in the description, for the report to show."""
    fake_nvml(STEADY)
    assert "other slices" in NvmlMeter("GPU-aaaa", note="other slices count too").describe()["notes"][-1]


def test_a_moment_can_be_read_without_the_process(fake_nvml):
    """The counter and the best power field are read at once, before the meter is started."""
    fake_nvml(f"{STEADY}\nat 0 instant_s 0.1")
    meter = NvmlMeter("GPU-aaaa")
    first = meter.read()
    time.sleep(0.2)
    second = meter.read()
    assert second.energy_mj - first.energy_mj == pytest.approx(40_000, abs=20_000)
    assert second.power_w == pytest.approx(200, rel=0.02)
    assert second.at_s is None


def test_a_read_that_fails_is_unknown_and_a_lost_gpu_an_error(fake_nvml):
    """WHEN a single read fails THEN its number is None; WHEN the GPU is gone THEN reading says so."""
    machine = fake_nvml(STEADY)
    meter = NvmlMeter("GPU-aaaa")
    machine.append("at 0 fail nvmlDeviceGetTotalEnergyConsumption 999\nat 0 fail nvmlDeviceGetFieldValues 3")
    assert meter.read().energy_mj is None
    assert meter.read().power_w == pytest.approx(200, rel=0.02)
    machine.append("at 0 fail * 15")
    with pytest.raises(LostGpuError, match="fell off the bus"):
        meter.read()


def test_a_board_without_power_fields_still_reads_energy(fake_nvml):
    """GIVEN a board that answers no power THEN only the power is None."""
    fake_nvml(f"{STEADY}\nat 0 fail nvmlDeviceGetFieldValues 3\nat 0 fail nvmlDeviceGetPowerUsage 3")
    reading = NvmlMeter("GPU-aaaa").read()
    assert reading.energy_mj > 0
    assert reading.power_w is None

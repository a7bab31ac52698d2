"""The counter's meter, over the real binding and the real sampler process, on a fake library."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest
from clocks import Clock
from fake_nvml.reading import read_twice
from fake_nvml.waiting import wait_for_error, wait_until

from energyscope.errors import MeterError
from energyscope.metering import process_meter
from energyscope.metering.nvml import meter as meters
from energyscope.metering.nvml import sampler
from energyscope.metering.nvml.binding import LostGpuError
from energyscope.metering.nvml.board import Board
from energyscope.metering.nvml.meter import NvmlMeter, ticking_period_s
from energyscope.metering.ticks import mean_power
from energyscope.reasons import reason

STEADY = "gpu GPU-aaaa Fake H200\nat 0 power_w 200\nat 0 period_s 0.05"


def watch_ticks(meter, number, since_s=0.0):
    """Return an interval, from now or later on, in which a started meter has seen some ticks."""
    begin = max(time.monotonic(), since_s)
    wait_until(lambda: len(meter.ticks(begin, np.inf)) >= number, f"{number} ticks")
    return begin, time.monotonic()


def test_ticks_and_states_come_from_the_process(fake_nvml):
    """GIVEN a counter of 200 W that ticks every 50 ms THEN each tick has the value of its time, and a state."""
    machine = fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        begin, end = watch_ticks(meter, 12)
        ticks, states, facts = meter.ticks(begin, end), meter.states(begin, end), meter.describe()
    origin_s = float(machine.script.read_text().split()[1])
    for state in states:  # read at some moment of this interval, which on a busy machine is a long one
        soonest, latest = ((state["after_s"] + side * state["read_s"] / 2 - origin_s) // 0.05 for side in (-1, 1))
        assert soonest <= (state["energy_mj"] - 5e6) / 10_000 <= latest
        assert state["before_s"] < state["after_s"]
    assert facts["energy_quantum_mj"] % 10_000 == 0
    assert facts["read_cost_s"] > 0
    assert abs(len(states) - len(ticks)) <= 1
    assert {"energy_mj", "after_s", "power_w", "sm_clock_mhz", "temperature_c", "throttle"} <= set(states[0])
    assert (states[0]["instant_w"], states[0]["power_limit_w"]) == (200, 700)


def test_period_and_power_come_from_what_the_sampler_saw(fake_nvml, monkeypatch):
    """GIVEN a sampler that saw 200 W, every 50 ms, in a time of its own THEN the meter finds both."""
    fake_nvml(STEADY)
    clock, records = Clock(), []
    monkeypatch.setattr(sampler, "time", clock)
    sampler.watch(lambda: 10_000 * (clock.now_s // 0.05), dict, records.append, lambda: clock.now_s < 1.6)
    meter = NvmlMeter("GPU-aaaa")
    monkeypatch.setattr(meter._watcher, "drain", lambda: [records.pop(0) for _ in list(records)])
    assert mean_power(meter.ticks(0.0, 1.6), 0.0, 1.6) == pytest.approx(200, rel=0.01)
    facts = meter.describe()
    assert facts["tick_period_s"] == pytest.approx(0.05, rel=0.01)
    assert facts["energy_quantum_mj"] == 10_000


def test_an_interval_holds_only_its_ticks(fake_nvml):
    """Ticks and states of an interval are those whose time lies in it, and later ticks go on from there."""
    fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        begin, middle = watch_ticks(meter, 4)
        end = watch_ticks(meter, 4)[1]
        early, late, whole = meter.ticks(begin, middle), meter.ticks(middle, end), meter.ticks(begin, end)
    assert (early.time_s <= middle).all()
    assert (late.time_s >= middle).all()
    assert [*early.energy_mj, *late.energy_mj] == list(whole.energy_mj)
    assert (np.diff(whole.energy_mj) >= 10_000).all()


def test_a_changed_power_limit_is_in_the_states(fake_nvml):
    """WHEN somebody lowers the limit during a run THEN the ticks from then on carry the new one."""
    machine = fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        machine.append("at 0 limit_w 400")
        begin, end = watch_ticks(meter, 3)
        assert {state["power_limit_w"] for state in meter.states(begin, end)} == {400}


def test_a_gpu_lost_in_mid_run_ends_the_meter(fake_nvml):
    """WHEN the GPU falls off the bus THEN reading the meter says so."""
    machine = fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        machine.append("at 0 fail * 15")
        assert "fell off the bus" in wait_for_error(meter)


def test_reads_that_fail_for_a_while_are_left_out(fake_nvml):
    """WHEN reads fail for half a second THEN a wider bracket is all that is seen, and the energy goes on."""
    machine = fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        call = "fail nvmlDeviceGetTotalEnergyConsumption"
        begin = machine.plan((0.0, f"{call} 999"), (0.5, f"{call} 0"))
        end = watch_ticks(meter, 8, begin + 0.6)[1]
        ticks = meter.ticks(begin - 0.1, end)
    wide = (ticks.after_s - ticks.before_s).argmax()
    assert ticks.after_s[wide] - ticks.before_s[wide] > 0.45
    assert not ticks.reset.any()
    # what the counter showed at any moment within the bracket
    rises = (ticks.energy_mj[-1] - ticks.energy_mj[0]) / 200e3
    assert ticks.before_s[-1] - ticks.after_s[0] - 0.05 < rises < ticks.after_s[-1] - ticks.before_s[0] + 0.05


def test_a_reset_counter_is_marked(fake_nvml):
    """WHEN the counter starts anew THEN that tick is marked, and only that one."""
    machine = fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        reset_s = machine.plan((0.0, "counter_mj 0"))
        begin, end = watch_ticks(meter, 3, reset_s + 0.1)
        ticks = meter.ticks(reset_s - 1.0, end)
    assert ticks.reset.sum() == 1
    assert (ticks.energy_mj[ticks.time_s > begin] < 5e6).all()


def test_permission_denied_is_said_before_anything_runs(fake_nvml):
    """GIVEN a user who may not read the counter THEN making the meter fails with what to do."""
    fake_nvml(f"{STEADY}\nat 0 fail nvmlDeviceGetTotalEnergyConsumption 4")
    with pytest.raises(MeterError, match="administrator"):
        NvmlMeter("GPU-aaaa")


def test_a_frozen_counter_is_an_error(fake_nvml, monkeypatch):
    """GIVEN a counter that never changes THEN starting the meter fails, and leaves no process behind."""
    monkeypatch.setattr(process_meter, "FIRST_TICKS_TIMEOUT_S", 0.5)
    fake_nvml(f"{STEADY}\nat 0 frozen 1")
    meter = NvmlMeter("GPU-aaaa")
    with pytest.raises(MeterError, match=r"frozen.*energyscope doctor"), meter:
        pytest.fail("it started")
    assert meter._watcher._process is None


def test_a_counter_that_freezes_later_is_an_error(fake_nvml, monkeypatch):
    """WHEN the counter stands still though its reads succeed THEN the meter is lost, and no longer waited for."""
    machine = fake_nvml(STEADY)
    with NvmlMeter("GPU-aaaa") as meter:
        monkeypatch.setattr(meter, "silent_s", 0.5)
        machine.plan((0.0, "frozen 1"))
        assert "the energy counter has not changed for" in wait_for_error(meter)


def test_a_single_tick_is_enough(fake_nvml, monkeypatch):
    """GIVEN one tick in the time to wait for the first ones THEN the counter is not taken for frozen."""
    fake_nvml(STEADY)
    meter = NvmlMeter("GPU-aaaa")
    record = {"before_s": 1.0, "after_s": 1.004, "energy_mj": 5.0, "reset": False}
    monkeypatch.setattr(meter._watcher, "drain", lambda: [record])
    meter._check_first_ticks()


def test_a_frozen_counter_is_found_before_the_start(fake_nvml, monkeypatch):
    """A counter is proved by watching it tick; one that stands still is refused."""
    machine = fake_nvml(STEADY)
    assert NvmlMeter("GPU-aaaa").prove().code == "counter-ticks"
    monkeypatch.setattr(meters, "time", Clock())
    machine.append("at 0 frozen 1")
    with pytest.raises(MeterError, match=r"stands still: 0 ticks in 2\.5 s"):
        ticking_period_s(Board("GPU-aaaa"))


def test_the_rough_period_is_that_of_the_changes(monkeypatch):
    """GIVEN a counter that changes every 50 ms THEN that is its period, but for the pauses between reads."""
    clock = Clock()
    monkeypatch.setattr(meters, "time", clock)
    board = SimpleNamespace(energy_mj=lambda: clock.now_s // 0.05)
    assert ticking_period_s(board) == pytest.approx(0.05, abs=2 * meters.POLL_S)


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
    assert meter.describe()["notes"][-1].code == "own-process-hidden"


def test_a_label_of_the_device_is_a_note(fake_nvml):
    """What must be said of the device is in the description, for the report to show."""
    fake_nvml(STEADY)
    assert NvmlMeter("GPU-aaaa", note=reason("whole-gpu")).describe()["notes"][-1].code == "whole-gpu"


def test_a_moment_can_be_read_without_the_process(fake_nvml):
    """The counter and the best power field are read at once, before the meter is started."""
    fake_nvml(f"{STEADY}\nat 0 instant_s 0.1")
    meter = NvmlMeter("GPU-aaaa")
    first, second, ticks = read_twice(meter.read, 0.05)
    assert (second.energy_mj - first.energy_mj) / 10_000 in ticks
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

"""The public doubles: their joules are the ones that they say, whatever their sensors show."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from energyscope import testing
from energyscope.metering.meter import Meter
from energyscope.metering.ticks import mean_power
from energyscope.testing import (
    PowerTrace,
    SimulatedBoard,
    SimulatedCall,
    SimulatedCounter,
    SimulatedGpu,
    SimulatedSensor,
    steady_calls,
)

CALL = SimulatedCall(energy_mj=16.0, time_us=50.0)  # 320 W


def ticks_of(seconds=10.0, **sensor):
    """Return the ticks that a sensor shows of a board at 200 W."""
    return SimulatedCounter(idle_w=200, load_w=200, **sensor).ticks(0.0, seconds, (0.0, seconds))


def test_the_energy_of_a_trace_is_exact():
    """GIVEN 100 W for 2 s and 300 W for 1 s THEN 500 J were drawn, 75 J in the first quarter of the 300 W."""
    trace = PowerTrace(10.0)
    trace.extend(2.0, 100.0)
    trace.extend(1.0, 300.0)
    trace.extend(0.0, 999.0)
    assert trace.end_s == 13.0
    assert trace.energy_j(np.array([10.0, 12.0, 12.25, 13.0])) == pytest.approx([0, 200, 275, 500])


def test_an_averaged_step_is_a_ramp():
    """GIVEN a step from 100 to 300 W WHEN power is averaged over 1 s THEN half-way the mean is 200 W."""
    trace = PowerTrace(0.0)
    trace.extend(2.0, 100.0)
    trace.extend(2.0, 300.0)
    times = np.array([2.0, 2.49, 2.51, 3.0, 3.1, 3.2])
    joules = trace.averaged_j(times, 1.0)
    assert (joules[2] - joules[1]) / 0.02 == pytest.approx(200, rel=0.02)
    assert (joules[5] - joules[4]) / 0.1 == pytest.approx(300, rel=0.01)
    assert joules[0] == pytest.approx(150, rel=0.001)  # the energy as it was half a second ago
    assert len(trace.averaged_j(np.array([]), 1.0)) == 0


def test_ticks_lie_in_their_brackets_on_the_grid():
    """GIVEN a period and a phase THEN ticks happen there, each within a read."""
    ticks = ticks_of(period_s=0.05, phase_s=0.02, read_s=0.004)
    grid = 0.02 + 0.05 * np.arange(len(ticks))
    assert ((ticks.before_s <= grid) & (grid <= ticks.after_s)).all()
    assert ticks.after_s - ticks.before_s == pytest.approx(0.004)
    assert np.diff(ticks.energy_mj) == pytest.approx(10_000)


def test_jitter_does_not_add_up_and_wandering_does():
    """GIVEN ticks off by 2 ms THEN jitter stays 2 ms from the grid, and wandering leaves it further behind."""
    still = ticks_of(100.0, phase_s=0.05, read_s=0.0).time_s
    jitter = ticks_of(100.0, phase_s=0.05, read_s=0.0, jitter_s=0.002).time_s[: len(still)]
    wander = ticks_of(100.0, phase_s=0.05, read_s=0.0, wander_s=0.002).time_s
    number = min(len(still), len(wander), len(jitter))
    assert np.std(jitter[:number] - still[:number]) == pytest.approx(0.002, rel=0.1)
    assert np.std(wander[:number] - still[:number]) > 0.004


def test_the_period_drifts():
    """GIVEN a period that grows by 10 % a minute THEN after a minute it is 10 % longer."""
    steps = np.diff(ticks_of(60.0, period_drift=0.1, read_s=0.0).time_s)
    assert steps[0] == pytest.approx(0.1, rel=0.005)
    assert steps[-1] == pytest.approx(0.11, rel=0.005)


def test_the_counter_rises_in_steps():
    """GIVEN a quantum of 3 J THEN every value is a multiple, and ticks without a rise are not seen."""
    ticks = ticks_of(period_s=0.01, quantum_mj=3000.0)
    assert (ticks.energy_mj % 3000 == 0).all()
    assert (np.diff(ticks.energy_mj) > 0).all()
    assert len(ticks) == pytest.approx(2000 / 3, rel=0.02)


def test_a_lagging_counter_shows_the_past():
    """GIVEN a lag of 0.25 s WHEN a load begins THEN the counter rises as before for 0.25 s."""
    counter = SimulatedCounter(lag_s=0.25, period_s=0.05, phase_s=0.0, idle_w=100, load_w=300)
    ticks = counter.ticks(0.0, 2.0, (1.0, 2.0))
    watts = np.diff(ticks.energy_mj) / 50
    assert watts[ticks.time_s[1:] < 1.24] == pytest.approx(100, abs=0.1)
    assert watts[ticks.time_s[1:] > 1.31] == pytest.approx(300, abs=0.1)


def test_noise_is_that_of_a_tick():
    """GIVEN 2 % of noise THEN ticks scatter by 2 %."""
    rises = np.diff(ticks_of(100.0, noise=0.02).energy_mj)
    assert np.std(rises) / np.mean(rises) == pytest.approx(0.02, rel=0.1)


def test_failed_reads_widen_brackets():
    """GIVEN reads that fail around a fifth of the ticks THEN fewer ticks are seen, some late, none wrong."""
    ticks = ticks_of(100.0, phase_s=0.0, failed_reads=0.2)
    width = ticks.after_s - ticks.before_s
    assert len(ticks) < 990
    assert 0.05 < np.mean(width > 0.01) < 0.3
    shown = 0.1 * np.floor(ticks.after_s / 0.1 + 1e-9)  # the last tick before the new value was seen
    assert ticks.energy_mj == pytest.approx(1e6 + 200e3 * shown, abs=1.0)


def test_a_wrap_a_reset_and_a_glitch():
    """A counter that wraps or restarts falls once; one that glitches shows too much in one tick, then falls."""
    wraps = ticks_of(start_mj=2.0**32 - 1e5, wrap_mj=2.0**32)
    restarts = ticks_of(start_mj=5e9, reset_at_s=5.0)
    glitches = ticks_of(glitch_at_s=5.0)
    assert [int(ticks.reset.sum()) for ticks in (wraps, restarts, glitches)] == [1, 1, 1]
    assert wraps.energy_mj.max() < 2.0**32
    assert restarts.energy_mj[-1] == pytest.approx(200e3 * 5, rel=0.05)
    assert glitches.energy_mj.max() > 162e6
    assert glitches.energy_mj[-1] == pytest.approx(1e6 + 200e3 * 10, rel=0.02)


def test_steady_calls():
    """Calls of equal length are time-stamped in chunks, from zero."""
    calls = steady_calls(5.0, 6.0, 0.01)
    assert calls.count[0] == 0
    assert calls.at(np.array([5.5])) == pytest.approx([50])
    assert SimulatedCounter(load_w=100).true_energy_mj(0.01) == pytest.approx(1000)


def test_virtual_time_passes_only_when_told():
    """Sleeping and replaying move the clock by what they take; looking does not."""
    gpu = SimulatedGpu()
    begin = gpu.now()
    gpu.sleep(2.0)
    gpu.synchronize()
    gpu.ticks(begin, begin + 2)
    assert gpu.now() == pytest.approx(begin + 2.0)
    calls = gpu.run([CALL], 0.5)
    assert gpu.now() == pytest.approx(float(calls.time_s[-1]))
    assert 0.5 <= calls.seconds < 0.505


def test_the_gpu_draws_what_its_calls_do():
    """GIVEN calls of 16 mJ WHEN they run THEN the trace holds 16 mJ for each, and idle power around them."""
    gpu = SimulatedGpu(board=SimulatedBoard(idle_w=80))
    gpu.sleep(1.0)
    calls = gpu.run([CALL], 0.5)
    begin, end = gpu.trace.energy_j(calls.time_s[[0, -1]])
    assert (end - begin) * 1e3 == pytest.approx(16.0 * calls.count[-1])
    before = gpu.trace.energy_j(calls.time_s[0] - np.array([1.0, 0.5]))
    assert before[1] - before[0] == pytest.approx(40)
    assert calls.time_s[-1] - calls.time_s[0] == pytest.approx(50e-6 * calls.count[-1])


def test_a_round_of_different_calls():
    """GIVEN a round of two unlike calls THEN their joules and times are those of the turn."""
    gpu = SimulatedGpu()
    calls = gpu.run([SimulatedCall(10.0, 2000.0), SimulatedCall(30.0, 4000.0)], 0.3)
    begin, end = gpu.trace.energy_j(calls.time_s[[0, -1]])
    assert (end - begin) * 1e3 / calls.count[-1] == pytest.approx(20.0, rel=0.02)
    assert calls.seconds / calls.count[-1] == pytest.approx(3e-3, rel=0.02)


def test_a_call_longer_than_the_window_runs_once():
    """At least one whole call is made, however short the window."""
    calls = SimulatedGpu().run([SimulatedCall(500.0, 2e6)], 0.1)
    assert list(calls.count) == [0, 1]
    assert calls.seconds == pytest.approx(2.0)


def test_ticks_are_seen_a_read_later_and_stay_the_same():
    """A tick shows only once a read has seen it, and asking again gives the same ticks and later ones."""
    gpu = SimulatedGpu()
    gpu.sleep(3.0)
    first = gpu.ticks(0, np.inf)
    assert first.after_s[-1] <= gpu.now()
    gpu.run([CALL], 1.0)
    second = gpu.ticks(0, np.inf)
    assert len(second) > len(first) + 5
    assert np.array_equal(second.after_s[: len(first)], first.after_s)
    assert np.array_equal(second.energy_mj[: len(first)], first.energy_mj)


def test_windows_differ_and_drift_as_the_board_says():
    """GIVEN 2 % between windows and 10 % a minute THEN the drawn power shows both."""
    board = SimulatedBoard(window_noise=0.02, time_noise=0.01, drift=0.1)
    gpu = SimulatedGpu(board=board)
    power, time_s, at_s = [], [], []
    for _ in range(300):
        calls = gpu.run([CALL], 0.2)
        begin, end = gpu.trace.energy_j(calls.time_s[[0, -1]])
        power.append((end - begin) / calls.seconds / 320)
        time_s.append(calls.seconds / calls.count[-1])
        at_s.append(gpu.now())
    slope, _ = np.polyfit(at_s, power, 1)
    assert slope * 60 == pytest.approx(0.1, rel=0.15)
    assert np.std(power - slope * np.array(at_s)) == pytest.approx(0.02, rel=0.15)
    assert np.std(time_s) / np.mean(time_s) == pytest.approx(0.01, rel=0.15)


def test_a_load_after_idling_begins_with_a_surge():
    """GIVEN a transient of 13 % THEN the first 0.1 s draw it, and a load that follows a load does not."""
    gpu = SimulatedGpu(board=SimulatedBoard(transient=0.13))
    rested, following = gpu.run([CALL], 0.5), gpu.run([CALL], 0.5)
    for calls, watts in ((rested, 320 * 1.13), (following, 320)):  # the first 0.02 s are the warm-up's
        begin, end, later = gpu.trace.energy_j(calls.time_s[0] + np.array([0.0, 0.08, 0.18]))
        assert (end - begin) / 0.08 == pytest.approx(watts, rel=1e-3)
        assert (later - end) / 0.1 == pytest.approx(320, rel=1e-3)


def test_the_gpu_is_a_meter():
    """It can be entered as a meter, and answers all that a meter is asked."""
    meter: Meter
    with SimulatedGpu(SimulatedSensor(lag_s=0.1, averaging_s=0.2)) as meter:
        begin = meter.now()
        meter.sleep(3.0)
        assert meter.settle_s == pytest.approx(0.3)
        assert meter.window_s == pytest.approx(0.42)
        assert mean_power(meter.ticks(begin + 1, begin + 3), begin + 1, begin + 3) == pytest.approx(100, rel=0.01)
        states = meter.states(begin + 1, begin + 3)
        assert meter.describe()["tick_period_s"] == pytest.approx(0.1, rel=0.01)
        assert meter.bystanders(5) == []
        assert meter.own_bytes() is None
    assert len(states) in (20, 21)
    assert states[5]["power_w"] == pytest.approx(100)
    assert {"sm_clock_mhz", "temperature_c", "throttle", "power_limit_w", "after_s", "energy_mj"} <= set(states[0])


def test_reading_shows_the_counters_last_value():
    """WHEN read at a moment THEN the counter shows its value of the last tick, and power is that of now."""
    gpu = SimulatedGpu(SimulatedSensor(period_s=0.1, phase_s=0.0, read_s=0.004))
    gpu.run([CALL], 1.05)
    reading = gpu.read()
    assert reading.energy_mj == gpu.ticks(0, np.inf).energy_mj[-1]
    assert reading.power_w == pytest.approx(320)
    assert reading.at_s == gpu.now()


def test_pauses_follow_each_call_and_can_be_run_alone():
    """GIVEN pauses of 50 us at 110 W THEN each adds 5.5 mJ to its call, and a round of none is pauses only."""
    gpu = SimulatedGpu(board=SimulatedBoard(pause_w=110))
    for round_, energy_mj, time_us in (([CALL], 21.5, 100), ([], 5.5, 50)):
        calls = gpu.run(round_, 0.5, rest_s=50e-6)
        begin, end = gpu.trace.energy_j(calls.time_s[[0, -1]])
        assert (end - begin) * 1e3 / calls.count[-1] == pytest.approx(energy_mj)
        assert calls.seconds / calls.count[-1] == pytest.approx(time_us * 1e-6)


def test_calls_that_take_no_time_are_no_work():
    """GIVEN a round that launches nothing THEN there is nothing to time, and no time passes."""
    gpu = SimulatedGpu()
    begin = gpu.now()
    assert gpu.run([SimulatedCall(0.0, 0.0)], 0.5) is None
    assert gpu.now() == begin


def test_a_load_above_the_power_limit_slows_down():
    """GIVEN 1200 W under a limit of 700 THEN it draws 700 W at lower clocks, and the states say why."""
    gpu = SimulatedGpu(board=SimulatedBoard(idle_w=100, power_limit_w=700))
    gpu.sleep(1.0)
    calls = gpu.run([SimulatedCall(60.0, 50.0)], 1.0)
    begin, end = calls.time_s[[0, -1]]
    clock = (600 / 1100) ** (1 / 3)
    assert np.ptp(gpu.trace.energy_j(np.array([begin, end]))) / (end - begin) == pytest.approx(700)
    assert calls.seconds / calls.count[-1] == pytest.approx(50e-6 / clock)
    gpu.sleep(0.5)
    during, after = gpu.states(begin, end), gpu.states(end + 0.05, gpu.now())
    assert {state["throttle"] for state in during} == {0x04}
    assert {state["sm_clock_mhz"] for state in during} == {1980 * clock}
    assert {(state["throttle"], state["sm_clock_mhz"]) for state in after} == {(0, 1980.0)}


def test_pauses_keep_a_hungry_load_at_full_clocks():
    """GIVEN 1200 W in bursts with pauses as long THEN the mean is below the limit, and the clock is full."""
    gpu = SimulatedGpu()
    calls = gpu.run([SimulatedCall(60.0, 50.0)], 1.0, rest_s=50e-6)
    assert calls.seconds / calls.count[-1] == pytest.approx(100e-6)
    assert {state["throttle"] for state in gpu.states(*calls.time_s[[0, -1]])} == {0}


def test_the_host_stalls_in_a_share_of_the_windows():
    """GIVEN stalls in a tenth of the windows THEN their calls take 1.6 times as long, idle meanwhile."""
    gpu = SimulatedGpu(board=SimulatedBoard(idle_w=100, stalls=0.1, stall=0.6))
    taken = []
    for _ in range(300):
        calls = gpu.run([CALL], 0.1)
        begin, end = gpu.trace.energy_j(calls.time_s[[0, -1]])
        per_call = 1 / calls.count[-1]
        taken.append((round(calls.seconds * per_call * 1e6, 6), round((end - begin) * per_call * 1e3, 6)))
    assert set(taken) == {(50.0, 16.0), (80.0, 19.0)}
    assert np.mean([window[0] > 50 for window in taken]) == pytest.approx(0.1, abs=0.05)


def test_a_board_with_gpm_counters_says_what_it_is_busy_with():
    """GIVEN calls with known shares, one of them idle, THEN states hold their means, 0 outside; else nothing."""
    round_ = [SimulatedCall(16.0, 60.0, activity={"sm": 0.9, "dram": 0.6}), SimulatedCall(4.0, 30.0)]
    gpu = SimulatedGpu(board=SimulatedBoard(gpm=True))
    calls = gpu.run(round_, 1.0)
    gpu.sleep(1.0)
    begin, end = calls.time_s[[0, -1]]
    during, after = gpu.states(begin, end), gpu.states(end + 0.15, gpu.now())
    assert [state["activity"]["sm"] for state in during[1:]] == pytest.approx([0.6] * (len(during) - 1))
    assert [state["activity"]["dram"] for state in during[1:]] == pytest.approx([0.4] * (len(during) - 1))
    assert {state["activity"]["sm"] for state in after[1:]} == {0.0}
    assert not any("activity" in state for state in SimulatedGpu().states(0.0, np.inf))


def test_bystanders_are_what_a_test_says():
    """A test that wants other users of the GPU names them."""
    gpu = SimulatedGpu()
    gpu.others.append("process 7 also uses this GPU")
    assert gpu.bystanders() == ["process 7 also uses this GPU"]


def test_the_docstrings_examples_hold():
    """The examples in the package's docstring run, and what they assert is true."""
    import energyscope.metering.window
    from energyscope.metering.group import MeterGroup

    blocks = [block for block in (testing.__doc__ or "").split("\n\n") if block.startswith("    ")]
    assert len(blocks) == 3
    for block in blocks:
        names = {**vars(testing), "MeterGroup": MeterGroup, "energyscope": energyscope}
        exec(textwrap.dedent(block), names)  # noqa: S102 - our own example

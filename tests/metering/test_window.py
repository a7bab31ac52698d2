"""The estimator finds the true joules of simulated sensors."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyscope.metering.activity import Activity
from energyscope.metering.interval import spread
from energyscope.metering.ticks import Calls, Ticks
from energyscope.metering.window import Window, estimate_window
from energyscope.testing import (
    SimulatedBoard,
    SimulatedCall,
    SimulatedCounter,
    SimulatedGpu,
    SimulatedSensor,
    steady_calls,
)

BEGIN, END = 10.0, 10.5
PHASES = 12
UNCAPPED = SimulatedBoard(power_limit_w=2000.0)
WRAP_MJ = 2.0**32


def window(counter: SimulatedCounter, call_s: float = 53e-6, end: float = END, **options):
    calls = steady_calls(BEGIN, end, call_s)
    load = (BEGIN, float(calls.time_s[-1]))
    return estimate_window(counter.ticks(BEGIN - 3, end, load), calls, **options)


def windows_of(gpu: SimulatedGpu, call: SimulatedCall, number: int) -> list[Window]:
    """Replay a call in windows between other loads and idle times, as a profile does."""
    windows = []
    for _ in range(number):
        gpu.run([SimulatedCall(20.0, 100.0)], 3.0 if not windows else 0.4)
        gpu.sleep(0.1)
        calls = gpu.run([call], gpu.window_s + gpu.settle_s)
        gpu.sleep(0.05)
        ticks = gpu.ticks(calls.time_s[0] - 3, calls.time_s[-1])
        windows.append(estimate_window(ticks, calls, settle_s=gpu.settle_s))
    return windows


@st.composite
def sensors(draw):
    """Sensors over the whole range that is met: periods of 10 to 200 ms and all that blurs a tick."""
    period_s = draw(st.floats(0.01, 0.2))
    return SimulatedSensor(
        period_s=period_s,
        jitter_s=draw(st.floats(0, 0.01)) * period_s,
        wander_s=draw(st.floats(0, 0.005)) * period_s,
        period_drift=draw(st.floats(-0.005, 0.005)),
        quantum_mj=draw(st.sampled_from([1.0, 10.0, 100.0, 300.0])),
        lag_s=draw(st.floats(0, 0.1)),
        averaging_s=draw(st.sampled_from([0.0, 0.025, 0.2])),
        read_s=min(draw(st.floats(1e-4, 0.5)) * period_s, 0.01),
        failed_reads=draw(st.sampled_from([0.0, 0.0, 0.03])),
        seed=draw(st.integers(0, 100_000)),
    )


def wrapping_inside(sensor: SimulatedSensor, ticks: Ticks, begin_s: float) -> SimulatedSensor:
    """Return the sensor with a counter that wraps a little after some time, given its ticks without a wrap."""
    position = min(int(np.searchsorted(ticks.time_s, begin_s)), len(ticks) - 1)
    rise = ticks.energy_mj[position] - sensor.start_mj
    return dataclasses.replace(sensor, start_mj=WRAP_MJ - rise, wrap_mj=WRAP_MJ)


@given(sensor=sensors(), power_w=st.floats(80, 1000), time_us=st.floats(5, 5000))
@settings(max_examples=120, deadline=None)
def test_the_estimate_has_no_bias(sensor, power_w, time_us):
    """Over the whole range of sensors, the mean over phases of the tick grid is the truth to 0.5 %."""
    call = SimulatedCall(power_w * time_us / 1e3, time_us)
    gpu = SimulatedGpu(sensor, UNCAPPED)
    windows = [window for window in windows_of(gpu, call, PHASES) if window.energy_mj is not None]
    assert len(windows) >= PHASES / 2
    allowed = 0.005 + 4 * spread([window.energy_mj for window in windows]) / np.sqrt(len(windows))
    assert allowed < 0.03
    assert np.mean([window.energy_mj for window in windows]) == pytest.approx(call.energy_mj, rel=allowed)
    assert np.mean([window.power_w for window in windows]) == pytest.approx(power_w, rel=allowed)
    assert np.mean([window.time_us for window in windows]) == pytest.approx(time_us, rel=1e-6)


@pytest.mark.parametrize("period_s", [0.01, 0.02, 0.1, 0.2])
@pytest.mark.parametrize("trouble", [{}, {"lag_s": 0.06}, {"averaging_s": 0.1}, {"jitter_s": 0.001}])
def test_the_bias_is_far_below_half_a_percent(period_s, trouble):
    """The mean over 60 windows is the truth to 0.1 %, within what chance allows."""
    sensor = SimulatedSensor(period_s=period_s, read_s=min(0.0045, 0.5 * period_s), **trouble)
    windows = windows_of(SimulatedGpu(sensor), SimulatedCall(15.9, 53.7), 60)
    energies = [window.energy_mj for window in windows]
    chance = 3 * np.std(energies) / np.sqrt(len(energies))
    assert abs(np.mean(energies) - 15.9) < 0.001 * 15.9 + chance
    assert chance < 0.004 * 15.9


@given(
    sensor=sensors(),
    fault=st.sampled_from(["reset", "glitch", "wrap"]),
    after_s=st.floats(-0.5, 1.5),
)
@settings(max_examples=150, deadline=None)
def test_no_fault_makes_an_absurd_energy(sensor, fault, after_s):
    """GIVEN a reset, a jump or a wrap at any time THEN the energy is about right, or None with a reason."""
    at_s = 1000.0 + 4.5 + after_s
    if fault == "wrap":
        plain = SimulatedGpu(sensor)
        windows_of(plain, SimulatedCall(16.0, 53.0), 2)
        sensor = wrapping_inside(sensor, plain.ticks(0, np.inf), at_s)
    else:
        sensor = dataclasses.replace(sensor, start_mj=5e9, **{f"{fault}_at_s": at_s})
    for result in windows_of(SimulatedGpu(sensor), SimulatedCall(16.0, 53.0), 2):
        assert (result.energy_mj is None) == (result.reason is not None)
        assert result.naive_mj is None or result.naive_mj >= 0
        if result.energy_mj is not None:
            assert result.energy_mj == pytest.approx(16.0, rel=0.05 + 5 * result.timing_share)


def test_the_mean_over_many_phases_is_the_truth():
    """Over 200 phases and 0.5 % of noise between ticks, the mean is right to 0.1 %."""
    counters = [SimulatedCounter(noise=0.005, seed=seed) for seed in range(200)]
    energies = [window(counter).energy_mj for counter in counters]
    assert np.mean(energies) == pytest.approx(counters[0].true_energy_mj(53e-6), rel=1e-3)


def test_plain_difference_is_far_worse():
    """The counter's difference at the window's own ends scatters by ten times as much or more."""
    windows = [window(SimulatedCounter(seed=seed)) for seed in range(50)]
    assert spread([result.naive_mj for result in windows]) > 10 * spread([result.energy_mj for result in windows])


def test_the_first_full_tick_under_load_is_dropped():
    """A transient of 13 % in the first full tick does not reach the estimate."""
    result = window(SimulatedCounter(transient=0.13))
    assert result.energy_mj == pytest.approx(300 * 53e-6 * 1e3, rel=0.01)


def test_a_sensor_that_lags_or_averages_needs_its_settling_time():
    """GIVEN a counter of power averaged over 0.3 s WHEN its settling is waited for THEN the energy is right."""
    counter = SimulatedCounter(averaging_s=0.3, idle_w=100)
    truth = counter.true_energy_mj(53e-6)
    hasty, patient = window(counter, end=BEGIN + 0.8), window(counter, end=BEGIN + 0.8, settle_s=0.3)
    assert hasty.energy_mj < 0.98 * truth
    assert patient.energy_mj == pytest.approx(truth, rel=0.005)
    assert patient.ticks < hasty.ticks


def test_too_short_a_window_is_unknown_not_zero():
    """With fewer than two usable ticks there is no energy, and the reason says what to do."""
    result = window(SimulatedCounter(), end=BEGIN + 0.15)
    assert result.energy_mj is None
    assert result.timing_share is None
    assert result.reason.code == "few-ticks"
    assert result.reason.values["seconds"] == pytest.approx(0.15, abs=0.01)


def test_settling_counts_for_nothing():
    """The seconds in which ticks were looked for are those after settling."""
    why = window(SimulatedCounter(), settle_s=0.4).reason
    assert why.code == "few-ticks"
    assert why.values["seconds"] == pytest.approx(END - BEGIN - 0.4, abs=0.01)


def test_a_counter_that_never_ticks_is_unknown():
    """GIVEN no tick at all THEN there is no energy, and a reason."""
    result = estimate_window(Ticks(np.array([]), np.array([]), np.array([])), steady_calls(BEGIN, END, 53e-6))
    assert result.energy_mj is None
    assert (result.reason.code, result.reason.values["ticks"]) == ("few-ticks", 0)


def test_calls_that_never_end_are_unknown():
    """GIVEN ticks between which no call completed THEN nothing is divided by zero."""
    calls = Calls(np.array([BEGIN, END]), np.array([0.0, 0.0]))
    result = estimate_window(SimulatedCounter().ticks(BEGIN - 3, END, (BEGIN, END)), calls)
    assert result.energy_mj is None
    assert result.reason.code == "no-call-between-ticks"


def test_a_reset_inside_the_window_is_unknown():
    """A counter that falls to zero gives no energy, never a negative one, and no plain difference."""
    result = window(SimulatedCounter(reset_at_s=BEGIN + 0.35, start_mj=5e9))
    assert (result.energy_mj, result.naive_mj) == (None, None)
    assert result.reason.code == "counter-reset"


def test_a_jump_inside_the_window_is_told_from_a_reset():
    """GIVEN one read that shows 162 kJ too much THEN the reason says by how much the counter jumped."""
    result = window(SimulatedCounter(glitch_at_s=BEGIN + 0.25))
    assert result.energy_mj is None
    assert result.reason.code == "counter-jumped"
    assert result.reason.values["kj"] == pytest.approx(162, abs=1)


@pytest.mark.parametrize("seed", range(5))
def test_a_wrap_gives_the_right_energy(seed):
    """GIVEN a counter of 32 bits that runs over inside the window THEN the energy is that without a wrap."""
    plain = SimulatedCounter(seed=seed)
    ticks = plain.ticks(BEGIN - 3, END, (BEGIN, END))
    wraps = wrapping_inside(plain, ticks, BEGIN + 0.3)
    wrapped = wraps.ticks(BEGIN - 3, END, (BEGIN, END))
    assert wrapped.reset.any()
    assert window(wraps).energy_mj == pytest.approx(window(plain).energy_mj, rel=1e-4)
    assert window(wraps).naive_mj == pytest.approx(window(plain).naive_mj, rel=1e-4)


def test_the_faults_of_earlier_windows_do_not_matter():
    """A reset in the ticks that only sharpen the grid leaves the window's energy alone."""
    result = window(SimulatedCounter(reset_at_s=BEGIN - 1, start_mj=5e9))
    assert result.energy_mj == pytest.approx(300 * 53e-6 * 1e3, rel=0.01)


def test_a_tick_around_which_reads_failed_does_not_bound_the_energy():
    """GIVEN a last tick seen 40 ms late, after failed reads, THEN the one before it is the last that is used."""
    plain = SimulatedCounter(phase_s=0.05).ticks(BEGIN - 3, END, (BEGIN, END))
    after = plain.after_s.copy()
    after[-1] += 0.04
    late = dataclasses.replace(plain, after_s=after)
    calls = steady_calls(BEGIN, END, 53e-6)
    result = estimate_window(late, calls)
    assert result.ticks == estimate_window(plain, calls).ticks - 1
    assert result.energy_mj == pytest.approx(15.9, rel=0.003)


def test_calls_that_slow_down_are_counted_where_they_ran():
    """GIVEN calls at half the rate in the second half THEN power and calls are those between the same ticks."""
    times = np.concatenate([[BEGIN], BEGIN + 0.25 * np.arange(1, 3)])
    calls = Calls(times, np.array([0.0, 4000.0, 6000.0]))
    ticks = SimulatedCounter(phase_s=0.05).ticks(BEGIN - 3, END, (BEGIN, END))
    result = estimate_window(ticks, calls)
    # ticks at 10.15 and 10.45: 1,600 fast calls and 1,600 slow ones in 0.3 s at 300 W
    assert result.energy_mj == pytest.approx(90_000 / 3200, rel=0.01)
    assert result.power_w == pytest.approx(300, rel=0.01)


def test_the_share_of_timing_is_the_scatter_that_it_makes():
    """GIVEN no other noise THEN the spread of many windows is the share that the timing was said to make."""
    windows = [window(SimulatedCounter(jitter_s=0.003, seed=seed)) for seed in range(300)]
    assert np.mean([result.timing_share for result in windows]) == pytest.approx(
        spread([result.energy_mj for result in windows]), rel=0.25
    )


def test_coarse_steps_count_as_timing():
    """GIVEN a counter in steps of 1 J THEN 0.41 J over the energy between the ticks is open, and is said."""
    coarse = window(SimulatedCounter(quantum_mj=1000.0, load_w=296.3))
    assert coarse.timing_share == pytest.approx(1000 / np.sqrt(6) / (296.3 * 0.3 * 1e3), rel=0.35)
    assert window(SimulatedCounter(load_w=296.3)).timing_share < 0.001


def test_the_spread_of_power_from_tick_to_tick():
    """The relative spread within long windows is the sensor's noise; short windows do not know it."""
    long = [window(SimulatedCounter(noise=0.01, seed=seed), end=BEGIN + 3) for seed in range(20)]
    assert np.mean([result.power_spread for result in long]) == pytest.approx(0.01, rel=0.15)
    assert window(SimulatedCounter(), end=BEGIN + 0.35).power_spread is None


def test_windows_of_earlier_journals_still_load():
    """A window that was journalled before the newer fields existed loads, with them unknown."""
    kept = {"energy_mj": 1.0, "time_us": 2.0, "power_w": 3.0, "naive_mj": None, "ticks": 4, "calls": 5,
            "seconds": 0.4, "reason": None}  # fmt: skip
    assert Window.from_record(kept) == Window(**kept)
    assert (Window(**kept).timing_share, Window(**kept).power_spread, Window(**kept).activity) == (None,) * 3


def test_a_journalled_window_comes_back_as_it_was():
    """What the board was busy with comes back too, from JSON."""
    kept = dataclasses.replace(window(SimulatedCounter()), activity=Activity(0.9, 0.7, 0.1, 0.2, 60.0))
    assert Window.from_record(json.loads(json.dumps(dataclasses.asdict(kept)))) == kept

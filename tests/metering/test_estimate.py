"""The estimator finds the true joules of simulated sensors."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyscope.metering.estimate import estimate_window
from energyscope.metering.interval import combine, grade, spread, student_t
from energyscope.metering.ticks import Calls, Ticks, mean_power, sensor_facts, tick_times
from energyscope.testing import SimulatedCounter, steady_calls

BEGIN, END = 10.0, 10.5


def window(counter: SimulatedCounter, call_s: float = 53e-6, end: float = END):
    calls = steady_calls(BEGIN, end, call_s)
    load = (BEGIN, float(calls.time_s[-1]))
    return estimate_window(counter.ticks(BEGIN - 3, end, load), calls)


@given(
    load_w=st.floats(80, 1000),
    period_s=st.floats(0.02, 0.12),
    call_s=st.floats(5e-6, 5e-3),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=200, deadline=None)
def test_energy_between_ticks_is_the_true_energy(load_w, period_s, call_s, seed):
    """GIVEN a steady load WHEN its ticks are seen 4.5 ms unsharp THEN energy and power are right to 1 %."""
    counter = SimulatedCounter(load_w=load_w, period_s=period_s, seed=seed)
    found = window(counter, call_s, end=BEGIN + max(0.45, 4.5 * period_s))
    assert found.energy_mj == pytest.approx(counter.true_energy_mj(call_s), rel=0.01)
    assert found.power_w == pytest.approx(load_w, rel=0.01)
    assert found.time_us == pytest.approx(call_s * 1e6, rel=0.01)


def test_the_estimate_has_no_bias():
    """The mean over many phases of the tick grid is the truth to 0.1 %."""
    counters = [SimulatedCounter(noise=0.005, seed=seed) for seed in range(200)]
    energies = [window(counter).energy_mj for counter in counters]
    assert np.mean(energies) == pytest.approx(counters[0].true_energy_mj(53e-6), rel=1e-3)


def test_plain_difference_is_far_worse():
    """The counter's difference at the window's own ends scatters by ten times as much or more."""
    windows = [window(SimulatedCounter(seed=seed)) for seed in range(50)]
    assert spread([one.naive_mj for one in windows]) > 10 * spread([one.energy_mj for one in windows])


def test_the_first_full_tick_under_load_is_dropped():
    """A transient of 13 % in the first full tick does not reach the estimate."""
    found = window(SimulatedCounter(transient=0.13))
    assert found.energy_mj == pytest.approx(300 * 53e-6 * 1e3, rel=0.01)


def test_too_short_a_window_is_unknown_not_zero():
    """With fewer than two usable ticks there is no energy, and the reason says what to do."""
    found = window(SimulatedCounter(), end=BEGIN + 0.15)
    assert found.energy_mj is None
    assert "longer window" in found.reason


def test_a_reset_inside_the_window_is_unknown():
    """A counter that falls gives no energy, never a negative one."""
    calls = steady_calls(BEGIN, END, 53e-6)
    ticks = SimulatedCounter().ticks(BEGIN - 3, END, (BEGIN, END))
    energy, reset = ticks.energy_mj.copy(), ticks.reset.copy()
    energy[-2:] -= energy[0]
    reset[-2] = True
    found = estimate_window(dataclasses.replace(ticks, energy_mj=energy, reset=reset), calls)
    assert found.energy_mj is None
    assert "reset" in found.reason


def test_missed_ticks_leave_the_grid_intact():
    """WHEN two ticks were not seen THEN the fitted times of the others stay within 1.5 ms of the truth."""
    ticks = SimulatedCounter().ticks(0.0, 4.0, (0.0, 4.0))
    kept = np.delete(np.arange(len(ticks)), [7, 21])
    seen = Ticks(ticks.before_s[kept], ticks.after_s[kept], ticks.energy_mj[kept], ticks.reset[kept])
    fitted, period = tick_times(seen)
    assert period == pytest.approx(0.1, rel=1e-3)
    assert np.abs(np.diff(fitted) - 0.1 * np.round(np.diff(fitted) / 0.1)).max() < 1.5e-3


def test_irregular_ticks_are_taken_as_seen():
    """Ticks that lie on no grid keep their observed times."""
    times = np.cumsum(np.random.default_rng(0).uniform(0.02, 0.2, 30))
    observed = Ticks(times, times + 0.001, np.arange(30.0), np.zeros(30, dtype=bool))
    assert np.array_equal(tick_times(observed)[0], observed.time_s)


def test_calls_are_interpolated_between_time_stamps():
    """Half-way between two stamps, half of the calls between them count."""
    calls = Calls(np.array([0.0, 1.0, 2.0]), np.array([0.0, 10.0, 30.0]))
    assert calls.at(np.array([0.5, 1.5])) == pytest.approx([5.0, 20.0])


def test_mean_power_needs_two_ticks():
    """Idle power between ticks is right, and None where there are too few."""
    ticks = SimulatedCounter(idle_w=118).ticks(0.0, 2.0, (5.0, 6.0))
    assert mean_power(ticks, 0.5, 1.5) == pytest.approx(118, rel=0.01)
    assert mean_power(ticks, 0.5, 0.55) is None


@pytest.mark.parametrize(
    ("freedom", "value"), [(1, 12.706), (4, 2.776), (30, 2.042), (60, 2.0003), (1000, 1.9623)]
)
def test_student_t(freedom, value):
    """Quantiles agree with published tables."""
    assert student_t(freedom) == pytest.approx(value, abs=2e-3)


def test_intervals_cover_the_truth():
    """95 % intervals over five windows cover the truth in 92 to 98 % of 2,000 cases."""
    generator = np.random.default_rng(1)
    found = [combine(list(generator.normal(5.0, 0.1, 5))) for _ in range(2000)]
    covered = np.mean([estimate.low <= 5.0 <= estimate.high for estimate in found])
    assert 0.92 <= covered <= 0.98


def test_windows_without_a_value_do_not_count():
    """Unknown windows neither pull the mean to zero nor narrow the interval."""
    assert combine([2.0, None, 4.0]).windows == 2
    assert combine([2.0, None, 4.0]).mean == 3.0
    assert combine([None]).mean is None
    assert combine([2.0]).low is None


@pytest.mark.parametrize(
    ("half", "windows", "guard", "expected"),
    [
        (0.004, 5, (), "A"),
        (0.004, 4, (), "B"),
        (0.02, 5, (), "B"),
        (0.004, 5, ("heat",), "C"),
        (0.08, 5, (), "C"),
        (0.2, 9, (), "invalid"),
        (None, 1, (), "invalid"),
    ],
)
def test_grades(half, windows, guard, expected):
    """A, B, C and invalid follow the stated limits, and every grade below A says why."""
    name, reasons = grade(half, windows, guard)
    assert name == expected
    assert bool(reasons) == (expected != "A")


def test_sensor_facts():
    """Period, jitter and quantum are read off the ticks."""
    facts = sensor_facts(SimulatedCounter(load_w=250, idle_w=250).ticks(0, 10, (0, 10)))
    assert facts["tick_period_s"] == pytest.approx(0.1, rel=1e-3)
    assert facts["tick_jitter_s"] < 0.003
    assert facts["energy_quantum_mj"] == 25_000
    assert sensor_facts(SimulatedCounter().ticks(0, 0.2, (0, 1)))["tick_period_s"] is None

"""The times of ticks, and the faults of counters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyscope.metering.ticks import (
    Calls,
    Ticks,
    fault,
    fit_grid,
    mean_power,
    quantum_mj,
    sensor_facts,
    unwrap,
)
from energyscope.reasons import reason
from energyscope.testing import SimulatedCounter

POWER_W = 300.0


def observed(true_s, *, read_s=0.0045, seed=0):
    """Return ticks at known times, each seen within a read, of a board that draws 300 W."""
    true_s = np.asarray(true_s)
    late = np.random.default_rng(seed).uniform(0, read_s, len(true_s))
    energy = 1e6 + POWER_W * 1e3 * (true_s - true_s[0])
    return Ticks(true_s + late - read_s, true_s + late, np.round(energy))


def counter(*energy_mj, period_s=0.1):
    """Return ticks with given values."""
    times = np.arange(len(energy_mj)) * period_s
    return Ticks(times, times + 0.004, np.array(energy_mj, dtype=float))


def rms(errors):
    """Return the root mean square of timing errors, a common shift left out."""
    return float(np.std(errors))


def test_the_grid_is_sharper_than_a_read():
    """GIVEN 33 regular ticks seen within 4.5 ms THEN fitted times are four times as sharp as observed ones."""
    true_s = 5.0 + 0.1 * np.arange(33)
    ticks = observed(true_s)
    grid = fit_grid(ticks)
    assert grid.period_s == pytest.approx(0.1, rel=1e-3)
    assert rms(grid.time_s - true_s) < rms(ticks.time_s - true_s) / 4


@pytest.mark.parametrize("jitter_s", [0.001, 0.003, 0.008])
def test_ticks_that_scatter_are_no_worse_than_grid_or_observation(jitter_s):
    """GIVEN ticks that scatter about a grid THEN the fitted times beat the observed ones and the plain grid."""
    errors = {"fitted": [], "seen": [], "grid": []}
    for seed in range(40):
        grid = 0.1 * np.arange(34)
        true_s = grid + np.random.default_rng(seed).normal(0, jitter_s, 34)
        ticks = observed(true_s, seed=seed + 1000)
        errors["fitted"].append(rms(fit_grid(ticks).time_s - true_s))
        errors["seen"].append(rms(ticks.time_s - true_s))
        errors["grid"].append(rms(grid - true_s))
    mean = {name: np.mean(values) for name, values in errors.items()}
    assert mean["fitted"] < 1.03 * min(mean["seen"], mean["grid"])


@given(
    period_s=st.floats(0.01, 0.2),
    jitter=st.floats(0, 0.3),
    read=st.floats(0, 0.9),
    number=st.integers(2, 60),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=150, deadline=None)
def test_times_stay_inside_of_their_brackets(period_s, jitter, read, number, seed):
    """However ticks scatter, none is placed where it cannot have been, and their order stays."""
    noise = np.random.default_rng(seed).normal(0, jitter * period_s, number)
    ticks = observed(np.sort(period_s * np.arange(number) + noise), read_s=read * period_s, seed=seed)
    grid = fit_grid(ticks)
    assert (grid.time_s >= ticks.before_s).all()
    assert (grid.time_s <= ticks.after_s).all()
    assert np.isfinite(grid.sd_s).all()


def test_missed_ticks_leave_the_grid_intact():
    """WHEN two ticks were not seen THEN the fitted times of the others stay within 1.5 ms of the truth."""
    ticks = SimulatedCounter().ticks(0.0, 4.0, (0.0, 4.0))
    kept = np.delete(np.arange(len(ticks)), [7, 21])
    seen = Ticks(ticks.before_s[kept], ticks.after_s[kept], ticks.energy_mj[kept], ticks.reset[kept])
    grid = fit_grid(seen)
    steps = np.diff(grid.time_s)
    assert grid.period_s == pytest.approx(0.1, rel=1e-3)
    assert np.abs(steps - 0.1 * np.round(steps / 0.1)).max() < 1.5e-3


@pytest.mark.parametrize("seen", [32, 24])
def test_many_missed_ticks_leave_the_period(seen):
    """WHEN half of the ticks or more were not seen THEN the period is still that of the ticks."""
    true_s = 0.1 * np.arange(60)
    kept = [np.sort(np.random.default_rng(seed).choice(60, seen, replace=False)) for seed in range(30)]
    periods = [fit_grid(observed(true_s[ticks], seed=seed)).period_s for seed, ticks in enumerate(kept)]
    assert np.mean([abs(period - 0.1) < 2e-4 for period in periods]) >= 0.9


def test_brackets_half_as_wide_as_the_period_leave_it():
    """GIVEN reads that take half of a period THEN the period is found, and not a denser one that fits as well."""
    periods = [fit_grid(observed(0.1 * np.arange(25), read_s=0.05, seed=seed)).period_s for seed in range(60)]
    assert np.abs(np.array(periods) / 0.1 - 1).max() < 0.03


def test_brackets_wider_than_that_have_no_grid():
    """GIVEN reads that take most of a period THEN any grid would pass through them, and none is fitted."""
    counters = [observed(0.1 * np.arange(25), read_s=0.085, seed=seed) for seed in range(30)]
    assert all(np.array_equal(fit_grid(ticks).time_s, ticks.time_s) for ticks in counters)


def test_chance_is_no_jitter():
    """GIVEN regular ticks THEN at least 90 % of counters show no jitter, since the reads explain the scatter."""
    jitters = [fit_grid(observed(0.1 * np.arange(34), seed=seed)).jitter_s for seed in range(200)]
    assert np.mean([jitter == 0 for jitter in jitters]) >= 0.9


def test_a_tick_seen_after_failed_reads_is_the_last_before_its_new_value():
    """GIVEN reads that failed over two ticks THEN the value seen is placed at the later one, and not sure."""
    true_s = np.delete(0.1 * np.arange(30), 20)
    ticks = observed(true_s)
    ticks.before_s[20], ticks.after_s[20] = 1.998, 2.16  # ticks at 2.0 (not seen) and 2.1
    grid = fit_grid(ticks)
    assert grid.time_s[20] == pytest.approx(2.1, abs=0.004)
    assert list(np.flatnonzero(~grid.sure)) == [20]


def test_exact_ticks_stay_as_they_are():
    """GIVEN ticks whose times are known exactly THEN nothing is changed, and nothing is uncertain."""
    times = np.cumsum(np.random.default_rng(1).normal(0.1, 0.002, 30))
    grid = fit_grid(Ticks(times, times, np.arange(30.0)))
    assert grid.time_s == pytest.approx(times, abs=1e-12)
    assert grid.sd_s.max() == 0


def test_irregular_ticks_are_taken_as_seen():
    """Ticks that lie on no grid keep their observed times, and have no jitter about one."""
    times = np.cumsum(np.random.default_rng(0).uniform(0.02, 0.2, 30))
    seen = Ticks(times, times + 0.001, np.arange(30.0), np.zeros(30, dtype=bool))
    grid = fit_grid(seen)
    assert np.array_equal(grid.time_s, seen.time_s)
    assert grid.jitter_s is None
    assert grid.sd_s == pytest.approx(0.001 / np.sqrt(12))


@pytest.mark.parametrize("number", [0, 1, 3])
def test_few_ticks_have_no_grid(number):
    """With fewer than four ticks there is no period, and the times are the observed ones."""
    ticks = observed(0.1 * np.arange(number)) if number else counter()
    grid = fit_grid(ticks)
    assert grid.period_s is None
    assert np.array_equal(grid.time_s, ticks.time_s)
    assert len(unwrap(ticks)) == number


@pytest.mark.parametrize("jitter_s", [0.0, 0.002])
def test_the_stated_uncertainty_is_the_true_one(jitter_s):
    """The standard deviation of a span between ticks agrees with its errors over 300 counters, to 45 %."""
    errors, stated = [], []
    for seed in range(300):
        true_s = 0.1 * np.arange(34) + np.random.default_rng(seed).normal(0, jitter_s, 34)
        grid = fit_grid(observed(true_s, seed=seed + 5000))
        errors.append((grid.time_s[33] - grid.time_s[30]) - (true_s[33] - true_s[30]))
        stated.append(grid.span_sd_s(30, 33))
    assert np.mean(stated) == pytest.approx(np.std(errors), rel=0.45)


def test_calls_are_interpolated_between_time_stamps():
    """Half-way between two stamps, half of the calls between them count."""
    calls = Calls(np.array([0.0, 1.0, 2.0]), np.array([0.0, 10.0, 30.0]))
    assert calls.at(np.array([0.5, 1.5])) == pytest.approx([5.0, 20.0])
    assert calls.seconds == 2.0


@pytest.mark.parametrize("size", [2.0**32, 2.0**32 / 1e3, 2.0**64])
def test_a_wrap_is_undone(size):
    """GIVEN a counter that runs over WHEN its rise across the wrap is plausible THEN it goes on rising."""
    step = 32_768.0  # a double can hold it beside 2^64
    ticks = unwrap(counter(size - 2 * step, size - step, 0.0, step, 2 * step))
    assert np.diff(ticks.energy_mj) == pytest.approx([step] * 4)
    assert not ticks.reset.any()
    assert fault(ticks, 0, 4) is None


def test_a_fall_that_no_wrap_explains_is_a_reset():
    """GIVEN a counter that falls to zero from 50 MJ THEN it is a reset, and intervals beside it are fine."""
    ticks = unwrap(counter(50e9, 50e9 + 3e4, 100.0, 3e4, 6e4))
    assert list(ticks.reset) == [False, False, True, False, False]
    assert fault(ticks, 0, 4) == reason("counter-reset")
    assert fault(ticks, 0, 1) is None
    assert fault(ticks, 2, 4) is None


def test_an_absurd_rise_is_a_jump():
    """GIVEN a rise of 162 kJ within one tick THEN the reason says so, also where only its fall back is inside."""
    ticks = unwrap(counter(1e6, 1.03e6, 163.06e6, 1.09e6, 1.12e6))
    jumped = reason("counter-jumped", kj=162.03, seconds=0.1)
    assert fault(ticks, 0, 4) == jumped
    assert fault(ticks, 2, 4) == jumped
    assert fault(ticks, 3, 4) is None
    assert fault(ticks, 0, 1) is None


def test_the_limit_of_power_is_the_callers():
    """GIVEN 30 J in 0.1 s THEN 300 W is a jump for whoever knows that the board draws 150 W at most."""
    assert fault(unwrap(counter(0.0, 3e4, 6e4)), 0, 2, maximum_w=150.0) is not None
    assert fault(unwrap(counter(0.0, 3e4, 6e4)), 0, 2, maximum_w=400.0) is None


def test_mean_power_needs_two_ticks():
    """Idle power between ticks is right, and None where there are too few."""
    ticks = SimulatedCounter(idle_w=118).ticks(0.0, 2.0, (5.0, 6.0))
    assert mean_power(ticks, 0.5, 1.5) == pytest.approx(118, rel=0.01)
    assert mean_power(ticks, 0.5, 0.55) is None


def test_mean_power_across_a_wrap_a_reset_and_a_jump():
    """A wrap leaves the power right; a reset or a jump leaves it unknown, never negative or absurd."""
    wraps = SimulatedCounter(idle_w=118, start_mj=2.0**32 - 1e5, wrap_mj=2.0**32).ticks(0.0, 2.0, (5.0, 6.0))
    assert wraps.reset.any()
    assert mean_power(wraps, 0.0, 2.0) == pytest.approx(118, rel=0.01)
    for faulty in (SimulatedCounter(reset_at_s=1.0, start_mj=5e9), SimulatedCounter(glitch_at_s=1.0)):
        assert mean_power(faulty.ticks(0.0, 2.0, (5.0, 6.0)), 0.0, 2.0) is None


def test_sensor_facts():
    """Period, jitter and quantum are read off the ticks, and are unknown where there are too few."""
    facts = sensor_facts(SimulatedCounter(load_w=250, idle_w=250).ticks(0, 10, (0, 10)))
    assert facts["tick_period_s"] == pytest.approx(0.1, rel=1e-3)
    assert facts["tick_jitter_s"] == 0
    assert facts["energy_quantum_mj"] == 25_000
    assert facts["tick_uncertainty_s"] == pytest.approx(0.0045 / 2)
    assert sensor_facts(SimulatedCounter().ticks(0, 0.2, (0, 1)))["tick_period_s"] is None


def test_jitter_is_what_reads_do_not_explain():
    """GIVEN ticks that scatter by 3 ms THEN that is the jitter, and not the uncertainty of the reads with it."""
    facts = sensor_facts(SimulatedCounter(jitter_s=0.003).ticks(0, 60, (0, 60)))
    assert facts["tick_jitter_s"] == pytest.approx(0.003, rel=0.15)


def test_steps_of_the_counter():
    """The quantum explains every rise; it is proven only where two rises differ by one step of it."""
    assert quantum_mj(counter(0, 3e4, 6e4, 9e4)) == 3e4
    assert quantum_mj(counter(0, 3e4, 6e4, 9e4), proven=True) is None
    assert quantum_mj(counter(0, 29_000, 58_000, 88_000), proven=True) == 1000
    assert quantum_mj(counter(5, 5)) is None

"""Power readings integrate to the true energy, with the averaging of the sensor taken back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from energyscope.metering.power_meter import PowerIntegral

WATTS = some.floats(0.0, 1000.0)


def integrate_power(time_s, power_w, averaging_s):
    """Return the energy (mJ, from 0) at each reading."""
    integral = PowerIntegral(averaging_s)
    return np.array([integral.add(float(t), float(w)) for t, w in zip(time_s, power_w, strict=True)])


def exact(corners_s, corners_w, time_s):
    """Return the energy (J, from 0 at time 0) of a load that is linear between corners and steady outside."""
    grid = np.union1d(corners_s, [0.0, *np.atleast_1d(time_s)])
    power = np.interp(grid, corners_s, corners_w)
    energy = np.concatenate([[0.0], np.cumsum(np.diff(grid) * (power[1:] + power[:-1]) / 2)])
    return np.interp(time_s, grid, energy - np.interp(0.0, grid, energy))


def readings(corners_s, corners_w, time_s, averaging_s):
    """Return what a sensor shows: the mean power (W) over the window before each time."""
    begin, end = exact(corners_s, corners_w, time_s - averaging_s), exact(corners_s, corners_w, time_s)
    return (end - begin) / averaging_s


def step(at_s, before_w, after_w):
    return np.array([at_s, at_s + 1e-9]), np.array([before_w, after_w])


@given(WATTS, WATTS, some.floats(0.0, 3.0), some.integers(1, 12), some.sampled_from([0.02, 0.1]))
def test_a_step_is_exact_where_the_window_is_a_multiple_of_the_refresh(before_w, after_w, at_s, number, refresh_s):
    """GIVEN a step of the load at any moment THEN the energy is right at every reading."""
    times, averaging_s = np.arange(60) * refresh_s, number * refresh_s
    load = step(at_s, before_w, after_w)
    energy = integrate_power(times, readings(*load, times, averaging_s), averaging_s)
    assert energy == pytest.approx(1e3 * exact(*load, times), abs=0.1, rel=1e-6)


@given(WATTS, WATTS, some.floats(0.0, 2.0), some.floats(0.05, 3.0), some.integers(1, 12))
def test_a_ramp_is_exact_where_the_window_is_a_multiple_of_the_refresh(before_w, after_w, at_s, lasts_s, number):
    """GIVEN a ramp of any slope THEN the energy is right at every reading."""
    times, averaging_s = np.arange(60) * 0.1, number * 0.1
    load = np.array([at_s, at_s + lasts_s]), np.array([before_w, after_w])
    energy = integrate_power(times, readings(*load, times, averaging_s), averaging_s)
    assert energy == pytest.approx(1e3 * exact(*load, times), abs=0.1, rel=1e-6)


@given(WATTS, WATTS, some.floats(0.0, 3.0), some.floats(0.1, 1.2))
def test_any_other_window_is_off_by_a_quarter_of_a_refresh_at_most(before_w, after_w, at_s, averaging_s):
    """GIVEN a window that is no multiple of the refresh THEN a step of D watts is off by at most D R / 4."""
    times = np.arange(60) * 0.1
    load = step(at_s, before_w, after_w)
    energy = integrate_power(times, readings(*load, times, averaging_s), averaging_s)
    error_j = np.abs(energy / 1e3 - exact(*load, times))
    assert error_j.max() <= abs(after_w - before_w) * 0.1 / 4 + 1e-3


@given(some.lists(some.tuples(some.floats(0.001, 0.5), WATTS), min_size=1, max_size=60), some.floats(0.0, 1.5))
def test_energy_never_falls(samples, averaging_s):
    """Whatever a sensor shows, and however irregularly, cumulative energy does not run backwards."""
    times = np.cumsum([step_s for step_s, _ in samples])
    energy = integrate_power(times, [power for _, power in samples], averaging_s)
    assert energy[0] == 0
    assert (np.diff(energy) >= 0).all()


@given(WATTS, some.lists(some.floats(0.001, 0.5), min_size=2, max_size=60), some.floats(0.0, 1.5))
def test_a_steady_power_is_power_times_time(power_w, steps_s, averaging_s):
    """Irregular readings of a steady load give its energy exactly, whatever the window."""
    times = np.cumsum(steps_s)
    energy = integrate_power(times, np.full(len(times), power_w), averaging_s)
    assert energy == pytest.approx(1e3 * power_w * (times - times[0]), rel=1e-9, abs=1e-6)


def test_without_the_correction_a_step_would_be_off():
    """The correction matters: a plain integral of averaged power misses half a window of the step."""
    times, load = np.arange(60) * 0.1, step(1.0, 100.0, 700.0)
    shown = readings(*load, times, 1.0)
    plain, corrected = integrate_power(times, shown, 0.0), integrate_power(times, shown, 1.0)
    truth = 1e3 * exact(*load, times)[-1]
    assert abs(plain[-1] - truth) > 600e3 * 0.4
    assert corrected[-1] == pytest.approx(truth)


def test_where_readings_are_sparse_the_one_before_holds():
    """GIVEN readings further apart than the window THEN the new one counts for its window only."""
    energy = integrate_power([0.0, 1.0], [100.0, 700.0], 0.1)
    assert energy[-1] == pytest.approx(1e3 * (100 * 0.9 + 700 * 0.1))


def test_readings_must_be_in_order():
    """A time before the last one is refused, and so is a window below 0."""
    integral = PowerIntegral(0.1)
    integral.add(1.0, 50.0)
    with pytest.raises(ValueError, match="order"):
        integral.add(0.9, 50.0)
    with pytest.raises(ValueError, match="window"):
        PowerIntegral(-0.1)

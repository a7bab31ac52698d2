"""Lag, averaging and agreement of power fields, found in traces of fields whose properties are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyscope.diagnostics.power_fields import counter_against_power, step_response
from energyscope.metering.ticks import Ticks

IDLE_W, LOAD_W, STEP_S = 100.0, 400.0, 2.0
POLL_S = 0.005


def moving_average(time_s, window_s, lag_s):
    """Return what a mean over a window shows of the step."""
    share = np.clip((time_s - STEP_S - lag_s) / window_s, 0, 1)
    return IDLE_W + (LOAD_W - IDLE_W) * share


def first_order(time_s, constant_s, lag_s):
    """Return what a low-pass shows of the step."""
    share = 1 - np.exp(-np.maximum(time_s - STEP_S - lag_s, 0) / constant_s)
    return IDLE_W + (LOAD_W - IDLE_W) * share


def polled(shape, *, refresh_s=0.1, phase_s=0.03, noise_w=0.0, seconds=9.0):
    """Return times and values of a field that is renewed every so often and read every 5 ms."""
    times = np.arange(0, seconds, POLL_S)
    renewed = np.floor((times - phase_s) / refresh_s) * refresh_s + phase_s
    noise = noise_w * np.random.default_rng(0).standard_normal(int(seconds / refresh_s) + 3)
    index = np.floor((times - phase_s) / refresh_s).astype(int) + 1
    return times, shape(renewed) + noise[index]


def response_to(shape, **options):
    times, power = polled(shape, **options)
    return step_response(times, power, STEP_S, IDLE_W, LOAD_W)


@settings(max_examples=60, deadline=None)
@given(
    window=st.floats(0.3, 3.0),
    lag=st.floats(0.0, 0.5),
    phase=st.floats(0.0, 0.099),
    noise=st.sampled_from([0.0, 1.0]),
)
def test_a_moving_average_is_found_with_its_window(window, lag, phase, noise):
    """GIVEN a mean over a window THEN window and lag come out to within about one renewal."""
    response = response_to(lambda time: moving_average(time, window, lag), phase_s=phase, noise_w=noise)
    assert response.shape == "moving average"
    assert response.averaging_s == pytest.approx(window, abs=0.06 + 0.05 * window)
    assert response.lag_s == pytest.approx(lag, abs=0.08 + 0.02 * window)


@settings(max_examples=60, deadline=None)
@given(constant=st.floats(0.25, 1.2), lag=st.floats(0.0, 0.5), phase=st.floats(0.0, 0.099))
def test_a_low_pass_is_told_from_a_moving_average(constant, lag, phase):
    """GIVEN a first-order low-pass THEN it is called so, with its time constant."""
    response = response_to(lambda time: first_order(time, constant, lag), phase_s=phase)
    assert response.shape == "first-order"
    assert response.averaging_s == pytest.approx(constant, rel=0.12)
    assert response.lag_s == pytest.approx(lag, abs=0.1)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_an_instant_field_is_a_jump(noise):
    """GIVEN a field that shows the new power at its next renewal THEN no window is made up for it."""
    response = response_to(lambda time: moving_average(time, 1e-9, 0.0), noise_w=noise)
    assert response.shape == "jump"
    assert response.averaging_s is None
    assert 0 <= response.lag_s <= 0.1


def test_the_renewal_of_a_field_is_found():
    """A field that is renewed every 100 ms and read every 5 ms is said to be renewed every 100 ms."""
    response = response_to(lambda time: moving_average(time, 1.0, 0.0), noise_w=1.0)
    assert response.refresh_s == pytest.approx(0.1, abs=0.006)


def test_without_a_step_nothing_is_made_up():
    """WHEN power hardly changes THEN all is None, with the reason."""
    times = np.arange(0, 5, POLL_S)
    response = step_response(times, np.full(len(times), 100.0), STEP_S, 100.0, 101.0)
    assert (response.lag_s, response.averaging_s, response.shape) == (None, None, None)
    assert (response.reason.code, response.reason.values["after_w"]) == ("small-power-step", 101.0)


def test_a_field_that_stays_is_not_given_a_window():
    """WHEN the field never reaches the load's power THEN all is None, with the reason."""
    times = np.arange(0, 5, POLL_S)
    response = step_response(times, np.full(len(times), 100.0), STEP_S, 100.0, 400.0)
    assert response.averaging_s is None
    assert response.reason.code == "load-power-not-reached"


def counter(power_w, *, period_s=0.1, seconds=8.0):
    times = np.arange(0.05, seconds, period_s)
    return Ticks(times - 0.001, times + 0.001, 5e6 + times * power_w * 1e3, np.zeros(len(times), dtype=bool))


@pytest.mark.parametrize("share", [0.8, 1.0, 1.05])
def test_the_counter_is_held_against_power(share):
    """GIVEN a counter that counts a share of the power THEN that share comes out."""
    times = np.arange(0, 8, 0.01)
    agreement = counter_against_power(counter(300.0 * share), times, np.full(len(times), 300.0), 1.0, 7.0)
    assert agreement.ratio == pytest.approx(share, rel=1e-3)
    assert agreement.counter_w == pytest.approx(300.0 * share, rel=1e-3)
    assert agreement.seconds == pytest.approx(6.0, abs=0.2)


@pytest.mark.parametrize(
    ("ticks", "times", "watts", "code"),
    [
        (counter(300.0, seconds=0.1), np.arange(0, 8, 0.01), 300.0, "no-two-ticks"),
        (counter(300.0), np.arange(0, 3, 0.01), 300.0, "power-not-sampled"),
        (counter(300.0), np.arange(0, 8, 0.01), 0.0, "field-shows-no-power"),
    ],
)
def test_what_cannot_be_compared_is_none(ticks, times, watts, code):
    """Too few ticks, missing samples, or a dead field give no ratio, and say why."""
    agreement = counter_against_power(ticks, times, np.full(len(times), watts), 1.0, 7.0)
    assert agreement.ratio is None
    assert agreement.reason.code == code

"""From a loop and ticks whose truth is known to a trial's figures."""

import numpy as np
import pytest

from energyscope.benchmarking.loop import Timing
from energyscope.benchmarking.trial import energy_figures, latency_figures, power_figures, power_samples
from energyscope.metering.ticks import Calls, Ticks
from energyscope.metering.window import Window, estimate_window


def ticks_of(watts, seconds, period=0.1, start=0.0):
    """Exact ticks of a board that draws ``watts`` all the time."""
    times = start + np.arange(0, seconds, period)
    return Ticks(times, times, times * watts * 1e3)


def loop(latencies, batch_size=1, start=1.0):
    """A loop of the given latencies."""
    marks = start + np.concatenate([[0.0], np.cumsum(latencies)])
    return Timing(np.diff(marks), Calls(marks, np.arange(len(marks), dtype=float)), batch_size)


def window_of(timing, watts=200.0):
    """What a perfect meter sees of a loop."""
    return estimate_window(ticks_of(watts, 20.0), timing.calls)


def test_latency_figures_are_those_of_the_passes():
    """Mean, deviation, extremes and percentiles in seconds; sequences and tokens a second."""
    timing = loop(np.linspace(0.01, 0.02, 101), batch_size=4)
    figures = latency_figures(timing, tokens=4 * 32)
    assert figures["mean_latency"] == pytest.approx(0.015)
    assert figures["median_latency"] == figures["p50_latency"] == pytest.approx(0.015)
    assert (figures["min_latency"], figures["max_latency"]) == (pytest.approx(0.01), pytest.approx(0.02))
    assert figures["p95_latency"] == pytest.approx(0.0195)
    assert figures["p99_latency"] == pytest.approx(0.0199)
    assert figures["throughput"] == pytest.approx(4 / 0.015)
    assert figures["tokens_per_s"] == pytest.approx(128 / 0.015)
    assert figures["iterations"] == 101


def test_percentiles_need_passes():
    """GIVEN 50 passes THEN there is a p95 and no p99; GIVEN 10 THEN neither: they would be the largest."""
    figures = latency_figures(loop(np.full(50, 0.01)), 1)
    assert (figures["p95_latency"], figures["p99_latency"]) == (pytest.approx(0.01), None)
    assert latency_figures(loop(np.full(10, 0.01)), 1)["p95_latency"] is None


def test_one_pass_has_no_deviation():
    """A deviation of one value is unknown, not 0."""
    assert latency_figures(loop([0.01]), 1)["std_latency"] is None


def test_energy_is_that_of_a_pass_and_of_the_loop():
    """GIVEN 200 W and passes of 10 ms THEN 2 J a pass, of which 80 W of idling are static."""
    timing = loop(np.full(300, 0.01))
    figures = energy_figures(window_of(timing), timing, 64, idle_w=80.0, modelled=False)
    assert figures["energy_per_inference_mj"] == pytest.approx(2000.0, rel=1e-6)
    assert figures["total_energy_j"] == pytest.approx(600.0, rel=1e-6)
    assert figures["inferences_per_joule"] == pytest.approx(0.5, rel=1e-6)
    assert figures["tokens_per_joule"] == pytest.approx(32.0, rel=1e-6)
    assert figures["energy_delay_product_js"] == pytest.approx(0.02, rel=1e-6)
    assert figures["static_energy_per_inference_mj"] == pytest.approx(800.0, rel=1e-6)
    assert figures["dynamic_energy_per_inference_mj"] == pytest.approx(1200.0, rel=1e-6)


def test_unknown_energy_is_none_in_every_column():
    """GIVEN a window without energy THEN no column of it has a number."""
    timing = loop([0.01, 0.01])
    unknown = Window(None, None, None, None, 0, 2, 0.02, "too short")
    figures = energy_figures(unknown, timing, 1, idle_w=80.0, modelled=False)
    assert {value for name, value in figures.items() if name not in {"idle_w", "ticks"}} == {None}


def test_power_statistics_are_over_samples():
    """GIVEN a constant 200 W THEN all samples are 200 W, and there are as many as ticks apart."""
    timing = loop(np.full(300, 0.01))
    begin, end = timing.calls.time_s[[0, -1]]
    figures = power_figures(window_of(timing), power_samples([ticks_of(200.0, 20.0)], begin, end, 0.1))
    assert figures["mean_power_w"] == pytest.approx(200.0)
    assert figures["std_power_w"] == pytest.approx(0.0, abs=1e-6)
    assert figures["num_power_samples"] in {29, 30}


def test_samples_are_no_closer_than_asked_for():
    """GIVEN ticks of 0.1 s and an interval of 0.5 s THEN a fifth as many samples; 0.01 s gives the board's own."""
    ticks = ticks_of(150.0, 12.0)
    assert len(power_samples([ticks], 1.0, 11.0, 0.5)) == pytest.approx(20, abs=1)
    assert len(power_samples([ticks], 1.0, 11.0, 0.01)) == pytest.approx(100, abs=1)


def test_devices_are_added_up():
    """GIVEN two boards of 100 and 50 W whose ticks differ THEN every sample is 150 W."""
    powers_w = power_samples([ticks_of(100.0, 12.0), ticks_of(50.0, 12.0, period=0.07)], 1.0, 11.0, 0.1)
    assert powers_w == pytest.approx(np.full(len(powers_w), 150.0), rel=1e-6)
    assert len(powers_w)


def test_stated_watts_have_no_statistics():
    """GIVEN a modelled meter THEN its watts are the mean, nothing was sampled, and there is no interval."""
    timing = loop(np.full(100, 0.01))
    window = window_of(timing, watts=65.0)
    figures = power_figures(window, np.zeros(0))
    assert (figures["mean_power_w"], figures["num_power_samples"]) == (pytest.approx(65.0), 0)
    assert figures["std_power_w"] is None
    energy = energy_figures(window, timing, 1, idle_w=None, modelled=True)
    assert energy["energy_ci_low_mj"] is None
    assert energy["static_energy_per_inference_mj"] is None


def test_a_counter_that_was_reset_gives_no_samples():
    """GIVEN a reset among the ticks THEN no power is invented."""
    ticks = ticks_of(100.0, 5.0)
    reset = np.zeros(len(ticks), dtype=bool)
    reset[20] = True
    broken = Ticks(ticks.before_s, ticks.after_s, ticks.energy_mj, reset)
    assert len(power_samples([broken], 1.0, 4.0, 0.1)) == 0

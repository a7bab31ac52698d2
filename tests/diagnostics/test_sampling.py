"""Sampling intervals that are found, on simulated boards that add up samples of their power."""

import pytest

from energyscope.diagnostics.sampling import Bursts, find_sampling
from energyscope.testing import SimulatedCall, SimulatedGpu, SimulatedSensor

BURST_S, BURST_W, PAUSE_W = 170e-6, 690.0, 130.0


def with_pause(pause_s):
    burst = SimulatedCall(BURST_W * BURST_S * 1e3, BURST_S * 1e6)
    return burst.then(SimulatedCall(PAUSE_W * pause_s * 1e3, pause_s * 1e6)) if pause_s > 0 else burst


def found(seed=0, noise=0.005, **sensor):
    gpu = SimulatedGpu(SimulatedSensor(seed=seed, noise=noise, jitter_s=0.0005, **sensor))
    begin_s = gpu.now()
    interval_s = find_sampling(gpu, gpu, Bursts(BURST_S, with_pause), clock=gpu)
    return interval_s, gpu.now() - begin_s


@pytest.mark.parametrize(
    ("interval_s", "sensor"),
    [
        (819.2e-6, {"aperture_s": 409.6e-6}),
        (819.2e-6, {"aperture_s": 0.0}),
        (808.66e-6, {"aperture_s": 0.0, "seed": 7}),
        (805.5e-6, {"aperture_s": 0.1e-3, "seed": 4, "noise": 0.02}),
        (1630e-6, {"aperture_s": 0.0}),
        (1000e-6, {"aperture_s": 0.0}),
        (500e-6, {"aperture_s": 100e-6, "period_s": 0.02}),
    ],
)
def test_the_interval_is_found(interval_s, sensor):
    """GIVEN boards that sample every 0.5 to 1.6 ms, each for a moment or over a while THEN it is right to 0.1 %.

    Samples of a moment meet all harmonics of the bursts, of which one explains half of what a tick is off.
    """
    measured, took_s = found(sampling_s=interval_s, **sensor)
    assert measured == pytest.approx(interval_s, rel=0.001)
    assert took_s < 35


@pytest.mark.parametrize("seed", range(4))
def test_a_counter_of_all_energy_has_no_interval(seed):
    """GIVEN a counter that integrates its power exactly THEN no interval is found."""
    assert found(seed=seed)[0] is None


def test_a_sensor_that_ticks_too_seldom_shows_nothing():
    """GIVEN a tick each second THEN a sweep has too few of them, and nothing is made up."""
    assert found(sampling_s=819.2e-6, period_s=1.0)[0] is None

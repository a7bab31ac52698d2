"""Aliasing of periodic work with a sampling counter, against the mean over samples computed one by one."""

import numpy as np
import pytest

from energyscope.metering.beats import ALIASING, aliasing, detuned_pause

INTERVAL_S = 819.2e-6
SECONDS = 0.3


def let_through(period_s):
    """Return the largest share of a harmonic, 1/h of the first, that the mean over the samples keeps."""
    samples = np.arange(int(SECONDS / INTERVAL_S)) * INTERVAL_S
    strong = range(1, int(8 * max(1.0, period_s / INTERVAL_S)) + 1)
    return max(abs(np.exp(2j * np.pi * h * samples / period_s).mean()) / h for h in strong)


@pytest.mark.parametrize("ratio", [1 / 16, 0.25, 0.5, 1.0, 2.0, 3.0, 10.0])
def test_work_in_step_with_the_samples_is_let_through(ratio):
    """GIVEN a period that is a small ratio of the interval THEN the harmonic that meets it is kept whole."""
    assert aliasing(ratio * INTERVAL_S, INTERVAL_S, SECONDS) == pytest.approx(1 / max(ratio, 1))


@pytest.mark.parametrize("period_us", [50, 275, 735, 813, 821, 1100, 1614, 2000, 5000, 20000])
def test_it_bounds_what_the_samples_keep(period_us):
    """GIVEN any period THEN the bound is no smaller than what a mean over real samples keeps."""
    assert aliasing(period_us / 1e6, INTERVAL_S, SECONDS) >= 0.98 * let_through(period_us / 1e6)


@pytest.mark.parametrize("period_us", np.geomspace(50, 50_000, 31))
def test_a_detuned_pause_brings_work_out_of_step(period_us):
    """GIVEN periods from 50 us to 50 ms THEN with a pause, shorter than an interval, it keeps below 5 %."""
    period_s = period_us / 1e6
    pause_s = detuned_pause(period_s, INTERVAL_S, SECONDS)
    assert 0 <= pause_s <= INTERVAL_S
    assert let_through(period_s + pause_s) < ALIASING


def test_a_pause_is_no_shorter_than_asked():
    """GIVEN a component at the power cap, which must rest as long as it runs THEN its pause is that or longer."""
    assert detuned_pause(500e-6, INTERVAL_S, SECONDS, least_s=500e-6) >= 500e-6

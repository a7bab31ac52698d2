"""Whole sessions on a board that samples its power: what periodic work reads with and without pauses."""

import numpy as np
import pytest
from simulated import measure

from energyscope.reasons import reason, split
from energyscope.stages.pauses import Pauses
from energyscope.testing import SimulatedBoard, SimulatedCall, SimulatedGpu, SimulatedSensor

INTERVAL_S = 819.2e-6
SHAPE = ((0.2, 0.6), (0.8, 0.4))  # a burst of three times the mean power, and what is left
STEPS = [ratio * INTERVAL_S * 1e6 for ratio in (0.0625, 0.25, 0.5, 0.998, 1.0, 1.002, 2.0, 3.0, 10.0)]
ANYWHERE = list(np.geomspace(50, 50_000, 16))


def session(period_us, *, known, seed=0):
    """Measure a model of such a period, beside a steady component, on a board that samples."""
    sensor = SimulatedSensor(seed=seed, sampling_s=INTERVAL_S, noise=0.003, jitter_s=0.0005)
    gpu = SimulatedGpu(sensor, SimulatedBoard(seed=seed, window_noise=0.003, time_noise=0.0002))
    rounds = {
        "node:model": [SimulatedCall(0.2 * period_us, period_us, SHAPE)],
        "node:steady": [SimulatedCall(20.0, 80.0)],
    }
    return measure(gpu, rounds, seed=seed, sampling_s=INTERVAL_S if known else None)


@pytest.mark.parametrize("period_us", STEPS)
def test_work_in_step_with_the_samples_is_measured_right(period_us):
    """GIVEN a period at a small ratio of the board's WHEN the interval is known THEN energies are right to 2 %."""
    row = session(period_us, known=True).row("model")
    assert row.energy_mj == pytest.approx(0.2 * period_us, rel=0.02)
    assert reason("replayed-with-pauses") in split(row.reasons)


def test_a_counter_that_samples_nothing_beats_with_nothing():
    """GIVEN power that scatters from tick to tick THEN that is a beat only where a sensor samples."""
    window = {"power_w": 40.0, "time_us": 50.0}
    entry = {"subject": "node:mlp", "window": window, "period_us": 50.0, "tick_spread": 0.1, "ran_s": (0.0, 0.3)}
    assert Pauses(None, samples=True).beats(entry, [])
    assert not Pauses(None, samples=False).beats(entry, [])


def test_intervals_cover_at_any_period():
    """GIVEN periods from 50 us to 50 ms, and those in step THEN 9 of 10 intervals hold the true energy."""
    rows = [(period, session(period, known=True, seed=seed).row("model"))
            for seed in range(2) for period in [*STEPS, *ANYWHERE]]  # fmt: skip
    covered = [row.energy_ci_low_mj <= 0.2 * period <= row.energy_ci_high_mj for period, row in rows]
    assert np.mean(covered) >= 0.9


def test_work_that_the_host_paces_gets_no_pause():
    """GIVEN a period in step with the samples THEN a pause begins, unless a host that launches kernels sets it.

    A pause would pass while the host launches, and what is subtracted for it was never added. In a CUDA graph, a
    window may count as the host's as well, and does stay in step.
    """
    period_us = INTERVAL_S * 1e6
    entry = {"subject": "a", "pass": 0, "period_us": period_us, "ran_s": (0.0, 0.4), "waited_share": 0.6,
             "window": {"time_us": period_us, "power_w": 300.0}}  # fmt: skip
    unwaiting = entry | {"waited_share": 0.001}
    assert Pauses(INTERVAL_S, eager=True).begin(entry, [])
    assert not Pauses(INTERVAL_S, eager=True).begin(unwaiting, [])
    assert Pauses(INTERVAL_S).begin(unwaiting, [])


def test_without_the_interval_it_is_wrong_and_says_so():
    """GIVEN a period in step with samples whose interval is not known THEN the row is not graded A or B."""
    rows = [session(INTERVAL_S * 1e6 * 1.0005, known=False, seed=seed).row("model") for seed in range(4)]
    assert max(abs(row.energy_mj / (0.2 * INTERVAL_S * 1e6) - 1) for row in rows) > 0.1
    assert {row.quality for row in rows} <= {"C", "invalid"}

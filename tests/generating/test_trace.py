"""Phases shorter than a tick come out of a trace of simulated generations, with intervals that mean something."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from generations import Load, generations

from energyscope.generating.intervals import intervals
from energyscope.generating.marks import PREFILL, REST, node_weights
from energyscope.generating.regression import PowerFit, fit_delayed
from energyscope.generating.trace import Traced, trace
from energyscope.reasons import reason

H200 = {"jitter_s": 0.0003, "noise": 0.002}
SEEDS = 80


def traced(load, seed=0, **sensor):
    made = generations(load, seed, **sensor)
    return made, trace([made.ticks], made.marks, made.aside)


def test_a_prefill_of_a_fifth_of_a_tick_has_its_power():
    """GIVEN 20 ms of 600 W before a second of 300 W, and ticks of 100 ms THEN all three powers come out."""
    made, found = traced(Load(), **H200)
    prefill, decode = found.prefill_j(), found.decode_j()
    assert prefill.value == pytest.approx(made.prefill_j, abs=prefill.half)
    assert decode.value == pytest.approx(made.decode_j, abs=decode.half)
    assert prefill.half < 0.08 * prefill.value
    assert decode.half < 0.01 * decode.value
    assert found.fits[0].power_w[PREFILL] == pytest.approx(600, rel=0.08)
    assert found.fits[0].power_w[REST] == pytest.approx(120, rel=0.1)


@pytest.mark.parametrize(
    ("load", "sensor"),
    [
        (Load(), H200),
        (Load(spread=0.0, between=0.0), {"noise": 0.003}),
        (Load(slope=0.1), H200),
        (Load(prefill_s=0.005, step_s=0.0022, seconds=6.0), H200),
        (Load(step_s=0.02), H200),
        (Load(prefill_s=0.4), H200),
        (Load(), {"jitter_s": 0.001, "noise": 0.003, "failed_reads": 0.02}),
        (Load(), {**H200, "lag_s": 0.03}),
        (Load(), {"quantum_mj": 1000.0, "noise": 0.002}),
        (Load(seconds=5.0), {"period_s": 0.02, **H200}),
        (Load(aside_s=0.5), H200),
        (Load(aside_s=0.5), {**H200, "lag_s": 0.15}),
    ],
    ids=[
        "usual",
        "sensor's noise",
        "rising",
        "short",
        "few",
        "long prefill",
        "shaky",
        "late",
        "coarse",
        "20 ms",
        "with steps",
        "late with steps",
    ],
)
def test_intervals_cover_the_truth(load, sensor):
    """The 95 % intervals of prefill, decode and both hold the true mean joules nine times in ten or more."""
    covered, told = np.zeros(3), 0
    for seed in range(SEEDS):
        made, found = traced(load, seed, **sensor)
        values = [found.prefill_j(), found.decode_j(), found.whole_j()]
        truths = [made.prefill_j, made.decode_j, made.prefill_j + made.decode_j]
        told += values[0].value is not None
        covered += [
            one.value is None or abs(one.value - truth) <= one.half
            for one, truth in zip(values, truths, strict=True)
        ]
    assert told > 0.9 * SEEDS
    assert (covered >= 0.9 * SEEDS).all(), covered / SEEDS


def test_what_runs_between_generations_is_in_no_phase():
    """GIVEN half a second of 450 W after each generation THEN it is left out, and would be 20 % of the rest."""
    made, found = traced(Load(aside_s=0.5), **H200)
    assert found.fits[0].power_w[REST] == pytest.approx(120, rel=0.1)
    blind = trace([made.ticks], made.marks)
    assert blind.fits[0].power_w[REST] > 200


def test_phases_that_fill_the_ticks_alike_cannot_be_told_apart():
    """GIVEN generations locked to the ticks THEN the prefill is unknown, and what it is mixed up with is named."""
    load = Load(
        prefill_s=0.02, step_s=0.008, steps=115, pause_s=0.06, even_pauses=True, spread=0.0, between=0.0, pace=0.0
    )
    _, found = traced(load, read_s=0.0005, phase_s=0.09)
    prefill = found.prefill_j()
    assert (prefill.value, prefill.half, prefill.devices) == (None, None, None)
    assert prefill.reason == reason("phases-not-separable", other="pauses")
    assert found.whole_j().value is None


def test_random_pauses_are_what_tells_them_apart():
    """The same load with random pauses gives the prefill its joules."""
    made, found = traced(Load(steps=115, spread=0.0, between=0.0, pace=0.0), read_s=0.0005)
    assert found.prefill_j().value == pytest.approx(made.prefill_j, rel=0.02)


@pytest.mark.parametrize("lag_s", [0.01, 0.05, 0.1])
def test_a_counter_that_is_late_is_found_out(lag_s):
    """GIVEN a counter that shows energy late THEN the prefill does not lose its joules to the decode."""
    for seed in range(5):
        made, found = traced(Load(), seed, lag_s=lag_s, noise=0.001)
        assert found.prefill_j().value == pytest.approx(made.prefill_j, rel=0.08)


def test_steps_show_how_power_rises():
    """GIVEN a decode whose power rises by half THEN the bins rise with it, and add up to the decode."""
    load = Load(slope=0.5)
    made, found = traced(load, **H200)
    bins = [found.bin_j(one).value for one in found.bins]
    sizes = [last - first + 1 for first, last in found.bins]
    powers = np.array(bins) / sizes / load.step_s
    assert len(bins) == 16
    assert powers == pytest.approx(np.linspace(300, 450, 33)[1::2], rel=0.03)
    assert sum(bins) == pytest.approx(found.decode_j().value)
    assert sum(bins) == pytest.approx(made.decode_j, rel=0.01)


def test_too_little_to_go_by_is_unknown():
    """GIVEN a trace of a few ticks THEN nothing is told, with the reason."""
    made = generations(replace(Load(), seconds=1.0), **H200)
    short = made.ticks.between(0, made.marks[0].end_s)
    found = trace([short], made.marks[:1])
    assert found.prefill_j().value is None
    assert found.prefill_j().reason.code == "few-tick-intervals"


def test_a_fault_of_the_counter_costs_its_interval_only():
    """GIVEN a counter that jumps by 160 kJ and back THEN the phases have their joules all the same."""
    made, found = traced(Load(), **H200, glitch_at_s=1008.0)
    assert found.prefill_j().value == pytest.approx(made.prefill_j, rel=0.1)
    assert found.decode_j().value == pytest.approx(made.decode_j, rel=0.01)


def test_devices_add_up():
    """GIVEN two meters THEN energies are sums, with each device's own beside them."""
    one = generations(Load(), 1, **H200)
    found = trace([one.ticks, one.ticks], one.marks)
    assert found.decode_j().value == pytest.approx(sum(found.decode_j().devices))
    assert found.decode_j().value == pytest.approx(2 * one.decode_j, rel=0.01)


def test_one_token_has_no_decode():
    """GIVEN generations of one token THEN the prefill is told, and there are no bins."""
    made, found = traced(Load(steps=0, prefill_s=0.15, seconds=8.0), **H200)
    assert found.bins == ()
    assert found.prefill_j().value == pytest.approx(made.prefill_j, abs=found.prefill_j().half)


def test_the_first_interval_under_load_is_not_used():
    """The fit begins at the second tick of the first generation, and ends with the last generation."""
    made = generations(Load(), **H200)
    found = intervals(made.ticks)
    outside = (found.times_s[1:] < made.marks[0].begin_s + 0.1) | (found.times_s[1:] > made.marks[-1].end_s)
    spoilt = replace(found, energy_j=np.where(outside, 1e3, found.energy_j))
    nodes = node_weights(127, (0.5,))
    before, after = (fit_delayed(one, made.marks, nodes) for one in (found, spoilt))
    assert (before.power_w == after.power_w).all()


def test_a_device_whose_delay_is_unknown_adds_to_one_whose_delay_was_fitted():
    """GIVEN two devices, of which one's fit ends with a column for the delay THEN their energies add up."""
    _, one = traced(Load(), **H200)
    (fitted,) = one.fits
    count = len(fitted.power_w) - 1
    time_cov, group_cov = fitted.time_cov[:count, :count], fitted.group_cov[:count, :count]
    plain = PowerFit(fitted.power_w[:-1], time_cov, group_cov, fitted.time_t, fitted.group_t, fitted.faults[:-1])
    for fits in ((fitted, plain), (plain, fitted)):
        both = Traced(one.marks, one.nodes, fits).decode_j()
        assert both.value == pytest.approx(2 * one.decode_j().value)
        assert both.half == pytest.approx(np.sqrt(2) * one.decode_j().half)

"""Phases shorter than a tick come out of a trace of simulated generations, with intervals that mean something."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from generations import Load, generations

from energyscope.generation.timeline import PREFILL, REST, GenerationTimes, node_weights
from energyscope.generation.trace import TraceFit, fit_meter, fit_trace, joined_intervals
from energyscope.metering.regression import PowerFit
from energyscope.metering.tick_intervals import tick_intervals
from energyscope.metering.ticks import Ticks
from energyscope.reasons import reason

H200 = {"jitter_s": 0.0003, "noise": 0.002}
SEEDS = 80


def traced(load, seed=0, **sensor):
    made = generations(load, seed, **sensor)
    return made, fit_trace([tick_intervals(made.ticks)], made.marks, made.excluded)


def test_a_prefill_of_a_fifth_of_a_tick_has_its_power():
    """GIVEN 20 ms of 600 W before a second of 300 W, and ticks of 100 ms THEN all three powers come out."""
    made, fit = traced(Load(), **H200)
    prefill, decode = fit.prefill_j(), fit.decode_j()
    assert prefill.value == pytest.approx(made.prefill_j, abs=prefill.half)
    assert decode.value == pytest.approx(made.decode_j, abs=decode.half)
    assert prefill.half < 0.08 * prefill.value
    assert decode.half < 0.01 * decode.value
    assert fit.fits[0].power_w[PREFILL] == pytest.approx(600, rel=0.08)
    assert fit.fits[0].power_w[REST] == pytest.approx(120, rel=0.1)


CASES = {
    "usual": (Load(), H200),
    "sensor's noise": (Load(spread=0.0, between=0.0), {"noise": 0.003}),
    "rising": (Load(slope=0.1), H200),
    "short": (Load(prefill_s=0.005, step_s=0.0022, seconds=6.0), H200),
    "few": (Load(step_s=0.02), H200),
    "long prefill": (Load(prefill_s=0.4), H200),
    "shaky": (Load(), {"jitter_s": 0.001, "noise": 0.003, "failed_reads": 0.02}),
    "late": (Load(), {**H200, "lag_s": 0.03}),
    "coarse": (Load(), {"quantum_mj": 1000.0, "noise": 0.002}),
    "20 ms": (Load(seconds=5.0), {"period_s": 0.02, **H200}),
    "with steps": (Load(other_s=0.5), H200),
    "late with steps": (Load(other_s=0.5), {**H200, "lag_s": 0.15}),
}


@pytest.mark.parametrize(("load", "sensor"), CASES.values(), ids=CASES)
def test_intervals_cover_the_truth(load, sensor):
    """The 95 % intervals of prefill, decode and both hold the true mean joules nine times in ten or more."""
    covered, known = np.zeros(3), 0
    for seed in range(SEEDS):
        made, fit = traced(load, seed, **sensor)
        values = [fit.prefill_j(), fit.decode_j(), fit.whole_j()]
        truths = [made.prefill_j, made.decode_j, made.prefill_j + made.decode_j]
        known += values[0].value is not None
        covered += [
            energy.value is None or abs(energy.value - truth) <= energy.half
            for energy, truth in zip(values, truths, strict=True)
        ]
    assert known > 0.9 * SEEDS
    assert (covered >= 0.9 * SEEDS).all(), covered / SEEDS


def test_what_runs_between_generations_is_in_no_phase():
    """GIVEN half a second of 450 W after each generation THEN it is left out, and would be 20 % of the rest."""
    made, fit = traced(Load(other_s=0.5), **H200)
    assert fit.fits[0].power_w[REST] == pytest.approx(120, rel=0.1)
    blind = fit_trace([tick_intervals(made.ticks)], made.marks)
    assert blind.fits[0].power_w[REST] > 200


def test_phases_that_fill_the_ticks_alike_cannot_be_told_apart():
    """GIVEN generations locked to the ticks THEN the prefill is unknown, and what it is mixed up with is named."""
    load = Load(
        prefill_s=0.02, step_s=0.008, steps=115, pause_s=0.06, even_pauses=True, spread=0.0, between=0.0, pace=0.0
    )
    _, fit = traced(load, read_s=0.0005, phase_s=0.09)
    prefill = fit.prefill_j()
    assert (prefill.value, prefill.half, prefill.devices) == (None, None, None)
    assert prefill.reason == reason("phases-not-separable", other="pauses")
    assert fit.whole_j().value is None


def test_random_pauses_are_what_tells_them_apart():
    """The same load with random pauses gives the prefill its joules."""
    made, fit = traced(Load(steps=115, spread=0.0, between=0.0, pace=0.0), read_s=0.0005)
    assert fit.prefill_j().value == pytest.approx(made.prefill_j, rel=0.02)


@pytest.mark.parametrize("lag_s", [0.01, 0.05, 0.1])
def test_a_counter_that_is_late_is_found_out(lag_s):
    """GIVEN a counter that shows energy late THEN the prefill does not lose its joules to the decode."""
    for seed in range(5):
        made, fit = traced(Load(), seed, lag_s=lag_s, noise=0.001)
        assert fit.prefill_j().value == pytest.approx(made.prefill_j, rel=0.08)


def test_steps_show_how_power_rises():
    """GIVEN a decode whose power rises by half THEN the bins rise with it, and add up to the decode."""
    load = Load(slope=0.5)
    made, fit = traced(load, **H200)
    bins = [fit.decode_j(steps).value for steps in fit.bins]
    sizes = [last - first + 1 for first, last in fit.bins]
    powers = np.array(bins) / sizes / load.step_s
    assert len(bins) == 16
    assert powers == pytest.approx(np.linspace(300, 450, 33)[1::2], rel=0.03)
    assert sum(bins) == pytest.approx(fit.decode_j().value)
    assert sum(bins) == pytest.approx(made.decode_j, rel=0.01)


def test_too_little_to_go_by_is_unknown():
    """GIVEN a trace of a few ticks THEN no energy is known, with the reason."""
    made = generations(replace(Load(), seconds=1.0), **H200)
    short = made.ticks.between(0, made.marks[0].end_s)
    fit = fit_trace([tick_intervals(short)], made.marks[:1])
    assert fit.prefill_j().value is None
    assert fit.prefill_j().reason.code == "few-tick-intervals"


def test_a_fault_of_the_counter_costs_its_interval_only():
    """GIVEN a counter that jumps by 160 kJ and back THEN the phases have their joules all the same."""
    made, fit = traced(Load(), **H200, glitch_at_s=1008.0)
    assert fit.prefill_j().value == pytest.approx(made.prefill_j, rel=0.1)
    assert fit.decode_j().value == pytest.approx(made.decode_j, rel=0.01)


def test_devices_add_up():
    """GIVEN two meters THEN energies are sums, with each device's own beside them."""
    made = generations(Load(), 1, **H200)
    fit = fit_trace([tick_intervals(made.ticks)] * 2, made.marks)
    assert fit.decode_j().value == pytest.approx(sum(fit.decode_j().devices))
    assert fit.decode_j().value == pytest.approx(2 * made.decode_j, rel=0.01)


def test_one_token_has_no_decode():
    """GIVEN generations of one token THEN the prefill is known, and there are no bins."""
    made, fit = traced(Load(steps=0, prefill_s=0.15, seconds=8.0), **H200)
    assert fit.bins == []
    assert fit.prefill_j().value == pytest.approx(made.prefill_j, abs=fit.prefill_j().half)


def test_the_first_interval_under_load_is_not_used():
    """The fit begins at the second tick of the first generation, and ends with the last generation."""
    made = generations(Load(), **H200)
    intervals = tick_intervals(made.ticks)
    outside = (intervals.times_s[1:] < made.marks[0].begin_s + 0.1) | (
        intervals.times_s[1:] > made.marks[-1].end_s
    )
    spoilt = replace(intervals, energy_j=np.where(outside, 1e3, intervals.energy_j))
    nodes = node_weights(127, (0.5,))
    before, after = (fit_meter(trace, made.marks, nodes) for trace in (intervals, spoilt))
    assert (before.power_w == after.power_w).all()


def test_a_device_whose_delay_is_unknown_adds_to_one_whose_delay_was_fitted():
    """GIVEN two devices, of which one's fit ends with a column for the delay THEN their energies add up."""
    _, fit = traced(Load(), **H200)
    (fitted,) = fit.fits
    count = len(fitted.power_w) - 1
    time_cov, group_cov = fitted.time_cov[:count, :count], fitted.group_cov[:count, :count]
    plain = PowerFit(fitted.power_w[:-1], time_cov, group_cov, fitted.time_t, fitted.group_t, fitted.faults[:-1])
    for fits in ((fitted, plain), (plain, fitted)):
        both = TraceFit(fit.marks, fit.nodes, fits).decode_j()
        assert both.value == pytest.approx(2 * fit.decode_j().value)
        assert both.half == pytest.approx(np.sqrt(2) * fit.decode_j().half)


@pytest.mark.parametrize("sensor", [H200, {**H200, "lag_s": 0.03}], ids=["usual", "late"])
@pytest.mark.parametrize("fallen", [False, True], ids=["same counter", "counter from 0"])
def test_a_trace_in_two_parts_is_one_fit(sensor, fallen):
    """GIVEN generations of two processes, hours apart and each on its own ticks THEN all of them make one fit."""
    covered = np.zeros(2)
    for seed in range(20):
        first, second = (generations(replace(Load(), seconds=5.0), seed + part, **sensor) for part in (0, 100))
        apart_s, before_mj = 7200.0137, 0.0 if fallen else float(first.ticks.energy_mj[-1]) + 120.0 * 7200e3
        ticks = Ticks(
            second.ticks.before_s + apart_s, second.ticks.after_s + apart_s, second.ticks.energy_mj + before_mj
        )
        marks = [
            GenerationTimes(mark.begin_s + apart_s, tuple(np.add(mark.tokens_s, apart_s)), mark.end_s + apart_s)
            for mark in second.marks
        ]
        begun = first.ticks.between(0, first.marks[-1].end_s + 0.01)  # the process ended there
        trace = joined_intervals([(begun, first.marks), (ticks, marks)])
        fit = fit_trace([trace], [*first.marks, *marks])
        for place, (energy, name) in enumerate(((fit.prefill_j(), "prefill_j"), (fit.decode_j(), "decode_j"))):
            counts = np.array([len(first.marks), len(marks)])
            truth = float(counts @ [getattr(first, name), getattr(second, name)] / counts.sum())
            covered[place] += abs(energy.value - truth) <= energy.half
    assert (covered >= 17).all(), covered
    between = (trace.times_s[:-1] < marks[0].begin_s + 0.1) & (trace.times_s[1:] > first.marks[-1].end_s + 0.1)
    assert not trace.good[between].any(), "the gap, and the first full interval of the second part"

"""From rows of trials to cells: averages, ratios paired by trial, grades."""

import math

import numpy as np
import pytest

from energyscope.benchmarking.summary import by_preference, cells, mean_over_trials, ratio_by_trial
from energyscope.intervals import Interval
from energyscope.reasons import reason, split

COLUMNS = ("mean_latency", "median_latency", "p95_latency", "p99_latency", "throughput", "tokens_per_s",
           "mean_power_w", "energy_per_inference_mj", "dynamic_energy_per_inference_mj", "inferences_per_joule",
           "tokens_per_joule", "energy_delay_product_js")  # fmt: skip

OTHER = reason("other-process", pid=42)


def row(precision, trial, latency, energy, **more):
    """A row with what cells are made of."""
    return {
        **dict.fromkeys(COLUMNS), "precision": precision, "batch_size": 1, "sequence_length": 128, "trial": trial,
        "mean_latency": latency, "energy_per_inference_mj": energy, "energy_ci_low_mj": None,
        "energy_ci_high_mj": None, "peak_allocated_gb": None, "stable": True, "reasons": "", **more,
    }  # fmt: skip


def drifting(ratio, blocks=5):
    """Two precisions of a fixed ratio on a board that drifts by 10 % from block to block."""
    drift = 1.1 ** np.arange(blocks)
    base = [row("fp32", n + 1, 0.02 * d, 100 * d) for n, d in enumerate(drift)]
    return base, [row("fp16", n + 1, 0.02 * d / ratio, 100 * d / ratio) for n, d in enumerate(drift)]


def test_a_ratio_is_paired_by_trial():
    """GIVEN a drift that both share THEN the speed-up is exact, and the latencies' own intervals are wide."""
    base, other = drifting(4.0)
    _, cell = cells(base + other, "fp32")
    assert cell["speedup"] == pytest.approx({"value": 4.0, "low": 4.0, "high": 4.0})
    assert cell["energy_ratio"]["value"] == pytest.approx(0.25)
    latency = cell["latency_s"]
    assert latency["high"] - latency["low"] > 0.1 * latency["value"]


def test_the_baseline_is_one_without_limits():
    """The baseline compared with itself is 1, and there is nothing to be uncertain of."""
    base, other = drifting(2.0)
    assert cells(base + other, "fp32")[0]["speedup"] == {"value": 1.0, "low": None, "high": None}


def test_trials_that_the_baseline_lacks_do_not_count():
    """GIVEN a baseline that lost a trial THEN only the common ones are compared."""
    base, other = drifting(3.0)
    assert ratio_by_trial(base[1:], other, "mean_latency").value == pytest.approx(3.0)
    assert ratio_by_trial(base[:0], other, "mean_latency") is None


@pytest.mark.parametrize(("spread", "quality"), [(0.001, "A"), (0.01, "B"), (0.03, "C"), (0.2, "invalid")])
def test_cells_are_graded_by_their_energy(spread, quality):
    """A needs 1 %, B 3 %, C 10 %: half-widths of five trials that spread by so much."""
    signs = np.array([-1.0, 1.0, 0.0, 1.0, -1.0])
    rows = [row("fp32", n, 0.01, 100 * (1 + spread * s)) for n, s in enumerate(signs)]
    assert cells(rows, "fp32")[0]["quality"] == quality


def test_unknown_energy_stays_unknown():
    """GIVEN no trial with an energy THEN the cell has none, is invalid, and says why."""
    rows = [row("fp32", n, 0.01, None, reasons="few-ticks(ticks=1, seconds=0.5)") for n in range(3)]
    cell = cells(rows, "fp32")[0]
    assert cell["energy_mj"] is None
    assert cell["quality"] == "invalid"
    assert [cause.code for cause in split(cell["reasons"])] == ["few-ticks", "no-interval"]


def test_an_unstable_warm_up_and_a_neighbour_are_said():
    """What disturbed a cell stands in its reasons; another program on the GPU costs the grade."""
    rows = [row("fp32", n, 0.01, 100.0, stable=n > 0) for n in range(5)]
    cell = cells(rows, "fp32", [OTHER])[0]
    assert cell["quality"] == "C"
    assert OTHER in split(cell["reasons"])
    assert reason("unstable-latency", unstable=1, trials=5) in split(cell["reasons"])


def test_ticks_keep_intervals_honest():
    """GIVEN trials that agree by luck THEN the interval is no narrower than their ticks allow."""
    loose = [row("fp32", n, 0.01, 100.0, energy_ci_low_mj=98.0, energy_ci_high_mj=102.0) for n in range(5)]
    energy = cells(loose, "fp32")[0]["energy_mj"]
    assert energy["high"] - energy["low"] > 1.0


def test_one_trial_has_no_interval():
    """A single trial has a value and no limits."""
    assert mean_over_trials([3.0]) == Interval(3.0)
    assert mean_over_trials([None]) is None


def test_the_widest_precision_comes_first():
    """FP32 before BF16 before FP16 before what is quantized, whose order stays."""
    assert by_preference(["int8", "fp16", "fp32", "nf4"]) == ["fp32", "fp16", "int8", "nf4"]
    assert by_preference(["int8", "fp16", "bf16"]) == ["bf16", "fp16", "int8"]
    assert by_preference(["nf4", "int8"]) == ["nf4", "int8"]


@pytest.mark.parametrize("moved", [{"batch_size": 8}, {"sequence_length": 64}, {}])
def test_without_a_trial_of_the_baseline_there_is_no_ratio(moved):
    """GIVEN a batch or length at which the baseline was not measured, or an early interruption THEN no ratio."""
    base, other = drifting(2.0)
    cell = cells([*(base if moved else []), *({**trial, **moved} for trial in other)], "fp32")[-1]
    assert cell["precision"] == "fp16"
    assert cell["speedup"] is cell["energy_ratio"] is None


def test_a_trial_that_was_disturbed_costs_the_grade():
    """GIVEN a trial that the board slowed down for heat THEN the cell is C at best, and says so."""
    rows = [row("fp32", n, 0.01, 100.0, reasons="slowed-by-heat" if n == 2 else "") for n in range(5)]
    cell = cells(rows, "fp32")[0]
    assert cell["quality"] == "C"
    assert "slowed-by-heat" in split(cell["reasons"])


def test_what_is_made_of_energy_is_no_sharper_than_energy():
    """GIVEN ticks of 2 % and trials that agree by luck THEN reciprocals, ratios and parts say so as well."""
    more = {"energy_ci_low_mj": 96.0, "energy_ci_high_mj": 104.0, "inferences_per_joule": 10.0,
            "dynamic_energy_per_inference_mj": 25.0}  # fmt: skip
    both = [row(name, n, 0.01, 100.0, **more) for name in ("fp32", "fp16") for n in range(5)]
    cell = cells(both, "fp32")[1]

    def width(item):
        return math.log(item["high"] / item["low"])

    whole = width(cell["energy_mj"])
    assert whole > 0.02
    assert width(cell["inferences_per_joule"]) == pytest.approx(whole)
    assert width(cell["energy_ratio"]) == pytest.approx(math.sqrt(2) * whole)
    assert width(cell["dynamic_energy_mj"]) == pytest.approx(4 * whole)


def test_the_interval_of_a_ratio_is_of_logarithms():
    """GIVEN ratios 2 and 8 THEN their geometric mean is 4."""
    base = [row("fp32", 0, 2.0, 1.0), row("fp32", 1, 8.0, 1.0)]
    other = [row("fp16", 0, 1.0, 1.0), row("fp16", 1, 1.0, 1.0)]
    ratio = ratio_by_trial(base, other, "mean_latency")
    assert ratio.value == pytest.approx(4.0)
    assert math.sqrt(ratio.low * ratio.high) == pytest.approx(4.0)

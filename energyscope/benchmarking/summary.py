"""From the rows of all trials to one cell for each precision, batch size and length. Pure functions.

Trials come in blocks, each with every cell once: cells are compared with the baseline inside of a block, so that a
drift from block to block cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from energyscope.grouping import group_by
from energyscope.intervals import Interval, interval, serialize
from energyscope.metering.grades import grade
from energyscope.metering.interval import FLOOR_QUANTILE, NORMAL_QUANTILE, combine, spread
from energyscope.reasons import join, reason, split
from energyscope.unknown import mean

Row = Mapping[str, Any]

BASELINES = ("fp32", "bf16", "fp16")  # others are compared with the first of these that can be measured
AVERAGED = {
    "latency_s": "mean_latency",
    "median_latency_s": "median_latency",
    "p95_latency_s": "p95_latency",
    "p99_latency_s": "p99_latency",
    "throughput": "throughput",
    "tokens_per_s": "tokens_per_s",
    "power_w": "mean_power_w",
    "energy_mj": "energy_per_inference_mj",
    "inferences_per_joule": "inferences_per_joule",
    "tokens_per_joule": "tokens_per_joule",
    "energy_delay_product_js": "energy_delay_product_js",
}
MADE_OF_ENERGY = {"energy_mj", "inferences_per_joule", "tokens_per_joule", "energy_delay_product_js"}


def by_preference(precisions: Sequence[str]) -> list[str]:
    """Return the precisions with those first that others are best compared with."""
    return sorted(precisions, key=lambda name: BASELINES.index(name) if name in BASELINES else len(BASELINES))


def cells(rows: Sequence[Row], baseline: str | None, guards: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return a cell for each precision, batch size and length, in the order in which they first come.

    Averages are over trials (see `mean_over_trials`). ``speedup`` and ``energy_ratio`` are against the
    ``baseline`` at the same batch and length (see `ratio_by_trial`). ``guards`` is what disturbed the
    measurement.
    """
    groups = group_by(rows, itemgetter("precision", "batch_size", "sequence_length"))
    return [
        _cell(group, groups.get((baseline, *key[1:]), []) if baseline else [], guards)
        for key, group in groups.items()
    ]


def _cell(group: Sequence[Row], base: Sequence[Row], guards: Sequence[str]) -> dict[str, Any]:
    first, floor = group[0], _timing_floor(group)
    energies = [row["energy_per_inference_mj"] for row in group]
    averages = {
        name: mean_over_trials([row[column] for row in group], floor if name in MADE_OF_ENERGY else 0.0)
        for name, column in AVERAGED.items()
    }
    disturbances = sorted({cause for row in group for cause in split(row["reasons"])})
    width = _relative_half_width(averages["energy_mj"])
    quality, reasons = grade(width, sum(value is not None for value in energies), [*guards, *disturbances])
    unstable = sum(row["stable"] is False for row in group)
    if unstable:
        reasons.append(reason("unstable-latency", unstable=unstable, trials=len(group)))
    ratio_floor = math.hypot(floor, _timing_floor(base))
    speedup = ratio_by_trial(base, group, "mean_latency")
    energy_ratio = ratio_by_trial(group, base, "energy_per_inference_mj", ratio_floor)
    if base and base[0]["precision"] == first["precision"]:
        speedup = energy_ratio = Interval(1.0)
    return {
        "precision": first["precision"],
        "batch_size": first["batch_size"],
        "sequence_length": first["sequence_length"],
        "trials": len(group),
        **{name: serialize(average) for name, average in averages.items()},
        "dynamic_energy_mj": serialize(_dynamic(group, floor)),
        "peak_allocated_gb": first["peak_allocated_gb"],
        "energy_spread": spread(energies),
        "quality": quality,
        "reasons": join(reasons),
        "speedup": serialize(speedup),
        "energy_ratio": serialize(energy_ratio),
    }


def _dynamic(group: Sequence[Row], floor: float) -> Interval | None:
    """Return the dynamic energy: the ticks' uncertainty of the whole is a larger share of this part."""
    pairs = [(row["energy_per_inference_mj"], row["dynamic_energy_per_inference_mj"]) for row in group]
    shares = [whole / part for whole, part in pairs if whole and part and part > 0]
    return mean_over_trials([part for _, part in pairs], floor * (mean(shares) or 1.0))


def mean_over_trials(values: Sequence[float | None], floor: float = 0.0) -> Interval | None:
    """Return the geometric mean over trials with its 95 % interval; None where no trial has a value.

    Student's interval of the logarithms, so that no limit of a positive quantity is negative, and ratios of means
    are means of ratios. ``floor`` is the relative deviation that one trial has at least. Values of which
    some are not positive have their arithmetic mean and Student's interval.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return Interval(known[0]) if known else None
    if min(known) <= 0:
        arithmetic = combine(known, first=len(known))
        return interval(arithmetic.mean, arithmetic.low, arithmetic.high)
    of_logs = combine([math.log(value) for value in known], first=len(known))
    centre = of_logs.mean or 0.0
    half = max((of_logs.high or centre) - centre, FLOOR_QUANTILE * floor / math.sqrt(len(known)))
    return Interval(math.exp(centre), math.exp(centre - half), math.exp(centre + half))


def ratio_by_trial(
    numerator: Sequence[Row], denominator: Sequence[Row], column: str, floor: float = 0.0
) -> Interval | None:
    """Return the mean over trials of a ratio, paired by trial, with its interval (see `mean_over_trials`).

    None where no trial has both.
    """
    divisors = {row["trial"]: row[column] for row in denominator}
    pairs = [(row[column], divisors.get(row["trial"])) for row in numerator]
    return mean_over_trials([value / divisor for value, divisor in pairs if value and divisor], floor)


def _timing_floor(group: Sequence[Row]) -> float:
    """Return the relative deviation of one trial's energy that its ticks alone make, the mean over trials."""
    shares = [
        (row["energy_ci_high_mj"] - row["energy_ci_low_mj"]) / 2 / NORMAL_QUANTILE / row["energy_per_inference_mj"]
        for row in group
        if row["energy_ci_high_mj"] is not None and row["energy_per_inference_mj"]
    ]
    return mean(shares) or 0.0


def _relative_half_width(energy: Interval | None) -> float | None:
    if energy is None or energy.low is None or energy.high is None or not energy.value:
        return None
    return (energy.high - energy.low) / 2 / abs(energy.value)

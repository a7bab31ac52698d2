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
from energyscope.metering.grades import grade
from energyscope.metering.interval import FLOOR_QUANTILE, NORMAL_QUANTILE, combine, spread
from energyscope.reasons import join, reason, split

Row = Mapping[str, Any]
Limited = dict[str, float | None]

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
    known = {name: number for number, name in enumerate(BASELINES)}
    return sorted(precisions, key=lambda name: known.get(name, len(known)))


def cells(rows: Sequence[Row], baseline: str | None, guards: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return a cell for each precision, batch size and length, in the order in which they first come.

    Averages are over trials (see `limited`). ``speedup`` and ``energy_ratio`` are against the
    ``baseline`` at the same batch and length (see `ratio_by_trial`). ``guards`` is what disturbed the
    measurement.
    """
    groups = group_by(rows, itemgetter("precision", "batch_size", "sequence_length"))
    return [
        _cell(group, groups.get((baseline, *key[1:]), []) if baseline else [], guards)
        for key, group in groups.items()
    ]


def _cell(group: Sequence[Row], base: Sequence[Row], guard: Sequence[str]) -> dict[str, Any]:
    first = group[0]
    energies = [row["energy_per_inference_mj"] for row in group]
    floor = _timing_floor(group)
    energy = limited(energies, floor)
    averages = {
        name: limited([row[column] for row in group], floor if name in MADE_OF_ENERGY else 0.0)
        for name, column in AVERAGED.items()
    }
    guards = [*guard, *sorted({one for row in group for one in split(row["reasons"])})]
    quality, reasons = grade(_relative(energy), sum(value is not None for value in energies), guards)
    unstable = sum(row["stable"] is False for row in group)
    if unstable:
        reasons.append(reason("unstable-latency", unstable=unstable, trials=len(group)))
    is_base = bool(base) and base[0]["precision"] == first["precision"]
    return {
        "precision": first["precision"],
        "batch_size": first["batch_size"],
        "sequence_length": first["sequence_length"],
        "trials": len(group),
        **averages,
        "dynamic_energy_mj": _dynamic(group, floor),
        "peak_allocated_gb": first["peak_allocated_gb"],
        "energy_spread": spread(energies),
        "quality": quality,
        "reasons": join(reasons),
        "speedup": _one() if is_base else ratio_by_trial(base, group, "mean_latency"),
        "energy_ratio": _one()
        if is_base
        else ratio_by_trial(group, base, "energy_per_inference_mj", math.hypot(floor, _timing_floor(base))),
    }


def _dynamic(group: Sequence[Row], floor: float) -> Limited | None:
    """Return the dynamic energy: what the ticks leave open of the whole is a larger share of this part."""
    pairs = [(row["energy_per_inference_mj"], row["dynamic_energy_per_inference_mj"]) for row in group]
    shares = [whole / part for whole, part in pairs if whole and part and part > 0]
    larger = sum(shares) / len(shares) if shares else 1.0
    return limited([part for _, part in pairs], floor * larger)


def _one() -> Limited:
    return {"value": 1.0, "low": None, "high": None}


def limited(values: Sequence[float | None], floor: float = 0.0) -> Limited | None:
    """Return the geometric mean over trials with its 95 % interval; None where no trial has a value.

    Student's interval of the logarithms, so that no limit of a positive quantity is negative, and ratios of means
    are means of ratios. ``floor`` is the relative deviation that one trial has at least. Values of which
    some are not positive have their arithmetic mean and Student's interval.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    if len(known) == 1:
        return {"value": known[0], "low": None, "high": None}
    if min(known) <= 0:
        arithmetic = combine(known, first=len(known))
        return {"value": arithmetic.mean, "low": arithmetic.low, "high": arithmetic.high}
    of_logs = combine([math.log(value) for value in known], first=len(known))
    centre = of_logs.mean or 0.0
    half = max((of_logs.high or centre) - centre, FLOOR_QUANTILE * floor / math.sqrt(len(known)))
    return {"value": math.exp(centre), "low": math.exp(centre - half), "high": math.exp(centre + half)}


def ratio_by_trial(upper: Sequence[Row], lower: Sequence[Row], column: str, floor: float = 0.0) -> Limited | None:
    """Return the mean over trials of ``upper / lower``, paired by trial, with its interval (see `limited`).

    None where no trial has both.
    """
    below = {row["trial"]: row[column] for row in lower}
    pairs = [(row[column], below.get(row["trial"])) for row in upper]
    return limited([one / other for one, other in pairs if one and other], floor)


def _timing_floor(group: Sequence[Row]) -> float:
    """Return the relative deviation of one trial's energy that its ticks alone make, the mean over trials."""
    shares = [
        (row["energy_ci_high_mj"] - row["energy_ci_low_mj"]) / 2 / NORMAL_QUANTILE / row["energy_per_inference_mj"]
        for row in group
        if row["energy_ci_high_mj"] is not None and row["energy_per_inference_mj"]
    ]
    return sum(shares) / len(shares) if shares else 0.0


def _relative(energy: Limited | None) -> float | None:
    if energy is None or energy["low"] is None or energy["high"] is None or not energy["value"]:
        return None
    return (energy["high"] - energy["low"]) / 2 / abs(energy["value"])

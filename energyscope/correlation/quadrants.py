"""High or low energy against high or low impact, and undecided where the intervals do not tell. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from energyscope.reasons import Reason, reason

Side = Literal["high", "low"]

UNDECIDED = "undecided"
QUADRANTS = (
    "high energy, high impact",
    "high energy, low impact",
    "low energy, high impact",
    "low energy, low impact",
    UNDECIDED,
)
LESS_IS_WORSE = ("accuracy_difference", "top1_agreement", "logit_difference")  # metrics that fall as impact grows


@dataclass(kw_only=True)
class Point:
    """One component with its energy (mJ per forward pass) and its impact, each with a 95 % interval or None.

    ``stands_for_parts``: it is compared in the place of parts that could not be measured, where those of its like
    in other layers could: it lies a level above them. ``likely_quadrant``, ``stability`` and the ranks (from
    1 for most) are those of `stability.add_stability`.
    """

    component: str
    kind: str
    layer: int | None
    energy_mj: float
    energy_ci_low_mj: float | None
    energy_ci_high_mj: float | None
    impact: float
    impact_ci_low: float | None
    impact_ci_high: float | None
    quadrant: str = UNDECIDED
    quality: str | None = None
    stands_for_parts: bool = False
    likely_quadrant: str | None = None
    stability: float | None = None
    energy_rank_low: float | None = None
    energy_rank_high: float | None = None
    impact_rank_low: float | None = None
    impact_rank_high: float | None = None


@dataclass(frozen=True)
class Thresholds:
    """Where high begins on each axis, None without points, and the rule behind it."""

    energy_mj: float | None
    impact: float | None
    rule: Reason


def high_is_more(metric: str) -> bool:
    """Say whether a larger value means more impact, as with KL, or less, as with agreement and accuracy."""
    return metric not in LESS_IS_WORSE


def assign_quadrants(points: Sequence[Point], metric: str) -> Thresholds:
    """Set the quadrant of every point, by the medians of the points; return the thresholds."""
    rule = reason("median-split", side="above" if high_is_more(metric) else "below")
    if not points:
        return Thresholds(None, None, rule)
    energy = statistics.median(point.energy_mj for point in points)
    impact = statistics.median(point.impact for point in points)
    for point in points:
        heat = side(point.energy_ci_low_mj, point.energy_ci_high_mj, energy)
        effect = side(point.impact_ci_low, point.impact_ci_high, impact)
        if effect is not None and not high_is_more(metric):
            effect = "low" if effect == "high" else "high"
        point.quadrant = UNDECIDED if heat is None or effect is None else f"{heat} energy, {effect} impact"
    return Thresholds(energy, impact, rule)


def side(ci_low: float | None, ci_high: float | None, threshold: float) -> Side | None:
    """Return on which side of a threshold an interval lies; None where it holds the threshold or is unknown."""
    if ci_low is None or ci_high is None or math.isnan(ci_low) or math.isnan(ci_high):
        return None
    if ci_low > threshold:
        return "high"
    return "low" if ci_high < threshold else None

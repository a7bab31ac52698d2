"""High or low energy against high or low impact, and undecided where the intervals do not tell. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Side = Literal["high", "low"]

UNDECIDED = "undecided"
QUADRANTS = (
    "high energy, high impact",
    "high energy, low impact",
    "low energy, high impact",
    "low energy, low impact",
    UNDECIDED,
)
MORE_IS_WORSE = {"kl": True, "perplexity_difference": True, "accuracy_difference": False, "top1_agreement": False}


@dataclass(kw_only=True)
class Point:
    """One component with its energy (mJ per forward pass) and its impact, each with a 95 % interval or None."""

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


@dataclass(frozen=True)
class Thresholds:
    """Where high begins on each axis, None without points; ``rule`` says it in words."""

    energy_mj: float | None
    impact: float | None
    rule: str = field(default="")


def high_is_more(metric: str) -> bool:
    """Say whether a larger value means more impact, as with KL, or less, as with agreement and accuracy."""
    return MORE_IS_WORSE.get(metric, True)


def assign_quadrants(points: Sequence[Point], metric: str) -> Thresholds:
    """Set the quadrant of every point, by the medians of the points; return the thresholds."""
    rule = _rule(metric)
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


def _rule(metric: str) -> str:
    direction = "above" if high_is_more(metric) else "below"
    return (
        "thresholds are the medians of the points; high energy lies above its median, high impact "
        f"{direction} its median; a component whose 95 % interval holds a threshold, or that has no interval, "
        f"is {UNDECIDED}"
    )

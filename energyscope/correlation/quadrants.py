"""High or low energy against high or low impact, undecided where intervals hold a threshold, and its stability.

Pure functions over points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from energyscope.correlation.association import FEWEST_POINTS
from energyscope.correlation.coefficients import average_ranks
from energyscope.correlation.resampling import Resamples, UncertainValues, axis
from energyscope.impact.metrics import Floats
from energyscope.reasons import Reason, reason

Side = Literal["high", "low"]

UNDECIDED = "undecided"
LESS_IS_WORSE = ("accuracy_difference", "top1_agreement", "logit_difference")  # metrics that fall as impact grows


@dataclass(kw_only=True)
class Point:
    """One component with its energy (mJ per forward pass) and its impact, each with a 95 % interval or None.

    ``stands_for_parts``: it replaces parts that could not be measured, although the same parts of other layers
    could, and lies a level above those. ``likely_quadrant``, ``stability`` and the ranks (from 1 for most) are
    those of `add_stability`.
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
    """Where high begins on each axis, None without points, and the rule for it."""

    energy_mj: float | None
    impact: float | None
    rule: Reason


def high_is_more(metric: str) -> bool:
    """Return whether a larger value means more impact, as with KL, or less, as with agreement and accuracy."""
    return metric not in LESS_IS_WORSE


def assign_quadrants(points: Sequence[Point], metric: str) -> Thresholds:
    """Set the quadrant of every point, by the medians of the points; return the thresholds."""
    rising = high_is_more(metric)
    rule = reason("median-split", side="above" if rising else "below")
    if not points:
        return Thresholds(None, None, rule)
    energy, impact = (float(np.median(values.values)) for values in (energies(points), impacts(points)))
    for point in points:
        energy_side = side(point.energy_ci_low_mj, point.energy_ci_high_mj, energy)
        impact_side = side(point.impact_ci_low, point.impact_ci_high, impact)
        if impact_side is not None and not rising:
            impact_side = "low" if impact_side == "high" else "high"
        decided = energy_side is not None and impact_side is not None
        point.quadrant = f"{energy_side} energy, {impact_side} impact" if decided else UNDECIDED
    return Thresholds(energy, impact, rule)


def side(ci_low: float | None, ci_high: float | None, threshold: float) -> Side | None:
    """Return on which side of a threshold an interval lies; None where it holds the threshold or is unknown."""
    if ci_low is None or ci_high is None or math.isnan(ci_low) or math.isnan(ci_high):
        return None
    if ci_low > threshold:
        return "high"
    return "low" if ci_high < threshold else None


def add_stability(points: Sequence[Point], metric: str, seed: int = 0) -> None:
    """Set ``likely_quadrant``, ``stability`` and the rank intervals of every point.

    A resample draws the points anew, which moves the medians, and each point's values, which moves the point;
    ``likely_quadrant`` is the most frequent one of a component, ``stability`` the share of resamples in which it
    lies in its quadrant (in the likely one where it is undecided). Ranks count from 1 for most energy and most
    impact among the same points, with redrawn values; their intervals hold 95 %. With fewer points than a
    correlation needs all stay None.
    """
    if len(points) < FEWEST_POINTS:
        return
    energy, impact = energies(points), impacts(points)
    if not high_is_more(metric):
        impact = UncertainValues(-impact.values, impact.above, impact.below)
    resamples = Resamples(len(points), seed)
    costly, important = (_is_high(values, resamples, stream) for stream, values in enumerate((energy, impact)))
    ranks = [_rank_intervals(values, resamples, stream) for stream, values in enumerate((energy, impact))]
    for place, point in enumerate(points):
        shares = {
            f"{first} energy, {second} impact": float(
                np.mean((costly[:, place] == (first == "high")) & (important[:, place] == (second == "high")))
            )
            for first in ("high", "low")
            for second in ("high", "low")
        }
        point.likely_quadrant = max(shares, key=lambda name: shares[name])
        point.stability = shares[point.likely_quadrant if point.quadrant == UNDECIDED else point.quadrant]
        (point.energy_rank_low, point.energy_rank_high), (point.impact_rank_low, point.impact_rank_high) = (
            (float(low[place]), float(high[place])) for low, high in ranks
        )


def energies(points: Sequence[Point]) -> UncertainValues:
    """Return the points' energies, mJ."""
    return _axis([(p.energy_mj, p.energy_ci_low_mj, p.energy_ci_high_mj) for p in points])


def impacts(points: Sequence[Point]) -> UncertainValues:
    """Return the points' impacts."""
    return _axis([(p.impact, p.impact_ci_low, p.impact_ci_high) for p in points])


def _axis(rows: Sequence[tuple[float | None, ...]]) -> UncertainValues:
    return axis(*np.array(rows, np.float64).reshape(-1, 3).T)


def _is_high(values: UncertainValues, resamples: Resamples, stream: int) -> npt.NDArray[np.bool_]:
    medians = np.median(resamples.take(values, stream), axis=1)
    high: npt.NDArray[np.bool_] = resamples.keep(values, stream) > medians[:, None]
    return high


def _rank_intervals(values: UncertainValues, resamples: Resamples, stream: int) -> tuple[Floats, Floats]:
    ranks = average_ranks(-resamples.keep(values, stream))
    low, high = np.quantile(ranks, [0.025, 0.975], axis=0)
    return np.floor(low), np.ceil(high)

"""How sure a component's place is: its quadrant and its ranks under resampling. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from energyscope.correlation.association import FEWEST_POINTS
from energyscope.correlation.coefficients import average_ranks
from energyscope.correlation.quadrants import UNDECIDED, Point, high_is_more
from energyscope.correlation.resampling import Resamples, UncertainValues, axis
from energyscope.impact.metrics import Floats

SIDES = ("low", "high")


def add_stability(points: Sequence[Point], metric: str, seed: int = 0) -> None:
    """Set ``likely_quadrant``, ``stability`` and the rank intervals of every point.

    A resample draws the points anew, which moves the medians, and each point's values, which moves the point;
    ``likely_quadrant`` is the one in which a component lies most often, ``stability`` the share of
    resamples in which it lies in its quadrant (in the likely one where it is undecided). Ranks count
    from 1 for most energy and most impact among the same points, with redrawn values; their intervals hold 95 %.
    Fewer points than a correlation needs have none of them.
    """
    if len(points) < FEWEST_POINTS:
        return
    energy, impact = energies(points), impacts(points)
    if not high_is_more(metric):
        impact = UncertainValues(-impact.values, impact.above, impact.below)
    resamples = Resamples(len(points), seed)
    heat, effect = (_is_high(values, resamples, stream) for stream, values in enumerate((energy, impact)))
    ranks = [_rank_intervals(values, resamples, stream) for stream, values in enumerate((energy, impact))]
    for place, point in enumerate(points):
        shares = {
            f"{SIDES[costly]} energy, {SIDES[important]} impact": float(
                np.mean((heat[:, place] == costly) & (effect[:, place] == important))
            )
            for costly in (True, False)
            for important in (True, False)
        }
        point.likely_quadrant = max(shares, key=lambda name: shares[name])
        point.stability = shares[point.likely_quadrant if point.quadrant == UNDECIDED else point.quadrant]
        (point.energy_rank_low, point.energy_rank_high), (point.impact_rank_low, point.impact_rank_high) = (
            (float(low[place]), float(high[place])) for low, high in ranks
        )


def energies(points: Sequence[Point]) -> UncertainValues:
    """Return the points' energies, mJ."""
    return axis(*_columns([(p.energy_mj, p.energy_ci_low_mj, p.energy_ci_high_mj) for p in points]))


def impacts(points: Sequence[Point]) -> UncertainValues:
    """Return the points' impacts."""
    return axis(*_columns([(p.impact, p.impact_ci_low, p.impact_ci_high) for p in points]))


def _columns(rows: Sequence[tuple[float | None, ...]]) -> Floats:
    return np.array(rows, np.float64).reshape(-1, 3).T


def _is_high(values: UncertainValues, resamples: Resamples, stream: int) -> npt.NDArray[np.bool_]:
    medians = np.median(resamples.take(values, stream), axis=1)
    high: npt.NDArray[np.bool_] = resamples.keep(values, stream) > medians[:, None]
    return high


def _rank_intervals(values: UncertainValues, resamples: Resamples, stream: int) -> tuple[Floats, Floats]:
    ranks = average_ranks(-resamples.keep(values, stream))
    low, high = np.quantile(ranks, [0.025, 0.975], axis=0)
    return np.floor(low), np.ceil(high)

"""Null models: do parameters, FLOPs or bytes say as much about impact (or energy) as the other of the two? Pure.

A correlation of energy with impact is worth little where counting parameters, which needs no measurement, does
as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from energyscope.correlation.association import rank_agreement, why_not
from energyscope.correlation.coefficients import Ints, coefficient
from energyscope.correlation.resampling import Resamples, UncertainValues, axis, clusters_of
from energyscope.impact.metrics import Floats, percentile_interval

PREDICTORS = ("parameters", "flops", "bytes")

Target = Literal["energy", "impact"]


@dataclass(frozen=True)
class NullComparison:
    """How well a null model ranks a target beside what was measured, over the same ``n`` points.

    ``value`` is Spearman's coefficient of ``predictor`` with ``target`` and ``measured`` that of energy with
    impact, each with its interval. ``difference`` is that of their sizes, each counted in the direction that it
    has over all points: positive where the null model ranks the target better. Its interval is that of the
    same resamples of both (paired), kinds first and then points where several kinds are pooled. ``better`` names
    the better one where that interval excludes 0.
    """

    predictor: str
    target: Target
    n: int
    value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    measured: float | None = None
    measured_ci_low: float | None = None
    measured_ci_high: float | None = None
    difference: float | None = None
    difference_ci_low: float | None = None
    difference_ci_high: float | None = None
    better: str | None = None
    reason: str | None = None


def null_models(
    predictors: dict[str, Floats],
    energy: UncertainValues,
    impact: UncertainValues,
    seed: int = 0,
    kinds: Sequence[str] | None = None,
) -> list[NullComparison]:
    """Compare each predictor (n,), NaN where unknown, with energy as a predictor of impact, and the reverse.

    ``kinds`` names the kind of each point, (n,), which are then drawn before their points
    (see `resampling`).
    """
    comparisons = []
    for name, values in predictors.items():
        known: Ints = np.flatnonzero(np.isfinite(values))
        null, heat, effect = axis(values[known]), energy[known], impact[known]
        own = None if kinds is None else [kinds[place] for place in known]
        comparisons.append(_compare(name, null, effect, heat, ("impact", "energy"), seed, own))
        comparisons.append(_compare(name, null, heat, effect, ("energy", "impact"), seed, own))
    return comparisons


def _compare(
    name: str,
    null: UncertainValues,
    target: UncertainValues,
    other: UncertainValues,
    words: tuple[Target, Target],
    seed: int,
    kinds: Sequence[str] | None,
) -> NullComparison:
    n = len(null)
    why = why_not(null.values, target.values, names=(name, words[0]))
    why = why or why_not(other.values, target.values, names=(words[1], words[0]))
    if why is not None:
        return NullComparison(name, words[0], n, reason=why)
    own, measured = (rank_agreement(predictor, target, seed, kinds) for predictor in (null, other))
    difference, low, high = _difference(null, other, target, Resamples(n, seed, clusters=clusters_of(kinds)))
    better = None
    if low is not None and high is not None and not low <= 0 <= high:
        better = name if low > 0 else words[1]
    return NullComparison(
        name,
        words[0],
        n,
        *(own.value, own.ci_low, own.ci_high),
        *(measured.value, measured.ci_low, measured.ci_high),
        *(difference, low, high),
        better,
        own.reason or measured.reason,
    )


def _difference(
    null: UncertainValues, other: UncertainValues, target: UncertainValues, resamples: Resamples
) -> tuple[float, float | None, float | None]:
    """Return the difference of two coefficients' sizes with its paired interval."""

    def signed(predictor: UncertainValues, stream: int) -> tuple[float, Floats, Floats]:
        value = float(coefficient(predictor.values[None], target.values[None], "spearman")[0])
        sign = -1.0 if value < 0 else 1.0
        both = resamples.coefficients(predictor, target, "spearman", streams=(stream, 0))
        alone = coefficient(resamples.keep(predictor, stream), resamples.keep(target, 0), "spearman")
        return sign * value, sign * both, sign * alone

    (first, both, alone), (second, of_both, of_alone) = signed(null, 1), signed(other, 2)
    difference, drawn = first - second, both - of_both
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < resamples.rows / 2:
        return difference, None, None
    return difference, *percentile_interval(drawn + difference - float(np.nanmedian(alone - of_alone)))

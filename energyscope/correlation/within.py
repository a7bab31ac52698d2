"""Energy against impact within each kind of component, and pooled over kinds without differences between them.

A correlation over pooled kinds may come from the kinds alone, and may reverse within each of them (Simpson 1951).
Within a kind the layers mostly take the same energy, and a correlation of their measurement errors is meaningless:
so a kind is tested only where its layers differ by more than the measurement does, on both axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from energyscope.correlation.association import (
    FEWEST_POINTS,
    METHODS,
    Association,
    Method,
    associate,
    too_few,
    why_not,
)
from energyscope.correlation.coefficients import Ints, coefficient
from energyscope.correlation.resampling import UncertainValues
from energyscope.reasons import Reason, reason

LEVEL = 0.05
RULE = reason("kinds-that-differ", needed=FEWEST_POINTS, level=LEVEL)


@dataclass(frozen=True)
class Differences:
    """Whether values differ by more than their errors: Cochran's Q on ``df`` degrees of freedom.

    ``variance_ratio`` is the variance between the values over their mean squared standard error: about 1
    where there is nothing but error. ``reason`` says why something is None.
    """

    q: float | None
    df: int
    p_value: float | None
    variance_ratio: float | None
    differ: bool
    reason: Reason | None = None


def differences(values: UncertainValues) -> Differences:
    """Test whether the values of an axis differ by more than their intervals say.

    Cochran (1954): Q = sum of w (x - x_w)^2 with w = 1 / se^2 and x_w the mean weighted by w, chi-squared on
    n - 1 degrees of freedom where nothing differs. The standard error is the interval's width over 3.92.
    """
    error = (values.below + values.above) / 2
    df = max(len(values) - 1, 0)
    if df < 1:
        return Differences(None, df, None, None, differ=False, reason=reason("one-component"))
    if not error.all():
        differ = bool(values.exact and np.ptp(values.values) > 0)
        return Differences(None, df, None, None, differ, reason("intervals-incomplete"))
    weights = (error.min() / error) ** 2
    centre = float((weights * values.values).sum() / weights.sum())
    q = float((((values.values - centre) / error) ** 2).sum())
    p_value = chi_squared_tail(q, df)
    ratio = float(np.var(values.values, ddof=1) / np.mean(error**2))
    return Differences(q, df, p_value, ratio, differ=p_value < LEVEL)


def chi_squared_tail(value: float, df: int) -> float:
    """Return the probability that chi-squared on ``df`` whole degrees of freedom exceeds ``value``.

    The finite sums that whole degrees of freedom have (Abramowitz and Stegun 1964, 26.4.4 and 26.4.5).
    """
    if value <= 0:
        return 1.0
    half = value / 2
    odd = df % 2
    powers = [step - odd / 2 for step in range(1, (df + odd) // 2)]
    first = math.erfc(math.sqrt(half)) if odd else math.exp(-half)
    return min(1.0, first + sum(math.exp(-half + p * math.log(half) - math.lgamma(p + 1)) for p in powers))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's step-down method (1979), in their order."""
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(p_values) - step) * p_values[place]))
        corrected[place] = highest
    return corrected


def within_kinds(
    kinds: Sequence[str], energy: UncertainValues, impact: UncertainValues, seed: int = 0
) -> list[dict[str, Any]]:
    """Correlate within each kind that has more than one component; why not, where its layers do not differ.

    ``kinds`` names the kind of each point, (n,). Each entry holds ``kind, n, tested, reason, energy, impact``
    (`Differences`) and ``correlations``, with Holm's correction over the kinds tested as ``p_holm``.
    """
    entries = []
    for kind in dict.fromkeys(kinds):
        chosen = np.asarray(kinds) == kind
        if chosen.sum() > 1:
            entries.append(_of_kind(kind, energy[chosen], impact[chosen], seed))
    for place in range(len(METHODS)):
        tested = [entry["correlations"][place] for entry in entries if entry["tested"]]
        known = [correlation for correlation in tested if correlation["p_value"] is not None]
        corrected = holm([correlation["p_value"] for correlation in known])
        for correlation, p_value in zip(known, corrected, strict=True):
            correlation["p_holm"] = p_value
    return entries


def _of_kind(kind: str, energy: UncertainValues, impact: UncertainValues, seed: int) -> dict[str, Any]:
    axes = {"energy": differences(energy), "impact": differences(impact)}
    why = _why_untested(len(energy), axes)
    tested = [] if why else [asdict(associate(energy, impact, method, seed)) for method in METHODS]
    return {
        "kind": kind,
        "n": len(energy),
        "tested": why is None,
        "reason": why,
        **{name: asdict(axis) for name, axis in axes.items()},
        "correlations": [{**correlation, "p_holm": None} for correlation in tested],
    }


def _why_untested(n: int, axes: dict[str, Differences]) -> Reason | None:
    if (few := too_few(n)) is not None:
        return few
    for name, test in axes.items():
        if not test.differ and test.reason:
            return reason("differences-unknown", axis=name, why=test.reason)
        if not test.differ:
            return reason("differences-within-error", axis=name, q=test.q, df=test.df, p_value=test.p_value)
    return None


def adjusted(
    kinds: Sequence[str], energy: UncertainValues, impact: UncertainValues, method: Method, seed: int = 0
) -> Association:
    """Correlate over all kinds that have two components or more, each kind centred on its own mean.

    Values (Pearson) and ranks (Spearman) are centred within a kind; Kendall compares pairs within a kind. Points
    are resampled and exchanged within their kind only.
    """
    several, numbers = _strata(kinds)
    return associate(energy[several], impact[several], method, seed, strata=numbers)


def adjusted_ranks(
    kinds: Sequence[str], x: UncertainValues, y: UncertainValues, names: tuple[str, str]
) -> tuple[float | None, Reason | None]:
    """Return Spearman's coefficient with ranks centred within kinds, or None and why there is none."""
    several, numbers = _strata(kinds)
    x, y = x[several], y[several]
    if (why := why_not(x.values, y.values, numbers, names)) is not None:
        return None, why
    return float(coefficient(x.values[None], y.values[None], "spearman", numbers)[0]), None


def _strata(kinds: Sequence[str]) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Return which points have others of their kind, (n,), and the number of these points' kinds."""
    if not kinds:
        return np.zeros(0, bool), np.zeros(0, np.int64)
    numbers = np.unique(np.asarray(kinds, str), return_inverse=True)[1].astype(np.int64)
    several = np.bincount(numbers)[numbers] > 1
    return several, numbers[several]

"""Correlation of two measured axes: coefficient, interval with both error bars, permutation p-value.

Pure functions over numpy arrays. What cannot be computed is None with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from energyscope.correlation.coefficients import (
    METHODS,
    Ints,
    Method,
    average_ranks,
    coefficient,
    statistic,
)
from energyscope.correlation.resampling import Resamples, UncertainValues, axis, clusters_of, interval_of
from energyscope.impact.metrics import Floats
from energyscope.reasons import Reason, join, reason

__all__ = ["FEWEST_POINTS", "METHODS", "Association", "Method", "associate", "permutation_p", "rank_agreement"]

PERMUTATIONS = 4999
ALONE = 500  # resamples of the errors only: no more than their median is used
FEWEST_POINTS = 8  # over fewer there is no coefficient, and no share of resamples


@dataclass(frozen=True)
class Association:
    """A correlation coefficient of ``n`` points; ``reason`` says why something is None."""

    method: Method
    n: int
    value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p_value: float | None = None
    reason: str | None = None


def associate(
    x: UncertainValues | Floats,
    y: UncertainValues | Floats,
    method: Method,
    seed: int = 0,
    strata: Ints | None = None,
    permutations: int = PERMUTATIONS,
    kinds: Sequence[str] | None = None,
) -> Association:
    """Correlate two axes of n points, all finite; with ``strata`` (n,) only within each stratum.

    The interval is the 95 % percentile bootstrap over points (within strata), in which each point's values are
    redrawn from their own intervals as well (see `resampling`). The p-value is two-sided, of the hypothesis
    that the pairing is arbitrary (within strata): (1 + b) / (1 + m), where b of m random permutations have a
    coefficient at least as large in magnitude (Phipson and Smyth 2010: a p-value from permutations is never
    0). ``permutations=0`` leaves it out.

    ``kinds`` names the kind of each point, (n,), where points of several kinds are pooled: those of one kind are
    not independent, so that kinds are drawn before their points (see `resampling`), and there is no
    p-value, since no exchange of points holds. It changes nothing where all points are of one kind, or each is of
    its own. It does not go with ``strata``.
    """
    x, y = _axis(x), _axis(y)
    if (why := why_not(x.values, y.values, strata)) is not None:
        return Association(method, len(x), reason=why)
    if strata is not None:
        order = np.argsort(strata, kind="stable")
        x, y, strata = x[order], y[order], np.unique(strata[order], return_inverse=True)[1].astype(np.int64)
    value = float(coefficient(x.values[None], y.values[None], method, strata)[0])
    clusters = clusters_of(kinds)
    tested = permutations > 0 and clusters is None
    p_value = permutation_p(x.values, y.values, method, seed, permutations, strata) if tested else None
    reasons = [reason("kinds-not-independent")] if permutations and not tested else []
    ends = interval_of(value, *draws(x, y, method, Resamples(len(x), seed, strata, clusters=clusters), strata))
    if ends is None:
        reasons.insert(0, reason("resamples-constant"))
    low, high = ends or (None, None)
    return Association(method, len(x), value, low, high, p_value, join(reasons) or None)


def rank_agreement(
    x: UncertainValues, y: UncertainValues, seed: int = 0, kinds: Sequence[str] | None = None
) -> Association:
    """Return Spearman's coefficient with its interval, without a p-value."""
    return associate(x, y, "spearman", seed, permutations=0, kinds=kinds)


def too_few(points: int) -> Reason | None:
    """Return why so few points have no correlation; None where they have one."""
    return reason("too-few-points", points=points, needed=FEWEST_POINTS) if points < FEWEST_POINTS else None


def why_not(
    x: Floats, y: Floats, strata: Ints | None = None, names: tuple[str, str] = ("energy", "impact")
) -> Reason | None:
    """Return why two axes have no correlation; None where they have one."""
    n = len(x)
    if (few := too_few(n)) is not None:
        return few
    numbers = np.zeros(n, np.int64) if strata is None else strata
    for name, values in zip(names, (x, y), strict=True):
        if all(np.ptp(values[numbers == stratum]) == 0 for stratum in np.unique(numbers)):
            code = "axis-constant" if strata is None else "axis-constant-within-kinds"
            return reason(code, axis=name, points=n)
    return None


def draws(
    x: UncertainValues, y: UncertainValues, method: Method, resamples: Resamples, strata: Ints | None = None
) -> tuple[Floats, Floats | None]:
    """Return the coefficient's draws (rows,): with other points and errors, and with other errors only."""
    both = resamples.coefficients(x, y, method, strata)
    if x.exact and y.exact:
        return both, None
    return both, coefficient(resamples.keep(x, 0)[:ALONE], resamples.keep(y, 1)[:ALONE], method, strata)


def ranks(values: Floats) -> Floats:
    """Return ranks from 1, (n,); ties share their mean rank."""
    result: Floats = average_ranks(values[None])[0]
    return result


def permutation_p(
    x: Floats,
    y: Floats,
    method: Method,
    seed: int = 0,
    permutations: int = PERMUTATIONS,
    strata: Ints | None = None,
) -> float:
    """Return the two-sided permutation p-value of a correlation, (1 + b) / (1 + m).

    With ``strata`` (in ascending order) only points of one stratum are exchanged.
    """
    if method == "spearman":
        x, y, method = ranks(x), ranks(y), "pearson"
    keys = np.random.default_rng([seed, len(x)]).random((permutations, len(x)))
    order = np.argsort(keys if strata is None else keys + strata, axis=1)  # a stratum's places stay its own
    drawn = np.abs(statistic(x, y[order], method, strata))
    observed = abs(statistic(x, y[None], method, strata)[0])
    slack = 1e-9 * max(observed, 1e-3)  # the same pairing may add up differently
    return float((1 + np.count_nonzero(drawn >= observed - slack)) / (1 + permutations))


def _axis(values: UncertainValues | Floats) -> UncertainValues:
    return values if isinstance(values, UncertainValues) else axis(values)

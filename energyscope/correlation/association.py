"""Correlation of two measured axes: coefficient, interval with both error bars, permutation p-value; a matrix.

Pure functions over numpy arrays. What cannot be computed is None with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from energyscope.correlation.coefficients import METHODS, Ints, Method, coefficient, statistic
from energyscope.correlation.resampling import Resamples, UncertainValues, axis, clusters_of, interval_of
from energyscope.impact.metrics import Floats
from energyscope.reasons import Reason, join, reason

__all__ = [
    "FEWEST_POINTS",
    "METHODS",
    "Association",
    "Method",
    "associate",
    "correlation_matrix",
    "permutation_p",
    "rank_agreement",
    "too_few",
    "why_not",
]

PERMUTATIONS = 4999
ERROR_RESAMPLES = 500  # with redrawn errors only: no more than their median is used
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
    not independent, so that kinds are drawn before their points (see `resampling`), and there is no p-value, since
    points cannot be exchanged. It changes nothing where all points are of one kind, or each is of its own. It
    excludes ``strata``.
    """
    x, y = (values if isinstance(values, UncertainValues) else axis(values) for values in (x, y))
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
    first, second = (resamples.keep(values, stream)[:ERROR_RESAMPLES] for stream, values in enumerate((x, y)))
    return both, coefficient(first, second, method, strata)


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
    keys = np.random.default_rng([seed, len(x)]).random((permutations, len(x)))
    order = np.argsort(keys if strata is None else keys + strata, axis=1)  # places stay within their stratum
    drawn = np.abs(statistic(x, y, order, method, strata))
    observed = abs(statistic(x, y, np.arange(len(x))[None], method, strata)[0])
    slack = 1e-9 * max(observed, 1e-3)  # sums of the same pairing may differ by rounding
    return float((1 + np.count_nonzero(drawn >= observed - slack)) / (1 + permutations))


def correlation_matrix(
    columns: Mapping[str, Floats], layers: Mapping[str, Floats], energy_count: int
) -> dict[str, Any]:
    """Return Spearman's coefficient and the number of points of every pair of columns.

    ``columns`` holds the values (n,) of the components compared, NaN where unknown; ``layers`` holds those of the
    layers, (m,), in the same columns: they are correlated where one of the pair has values for layers only. The
    first ``energy_count`` columns are energy. The result holds ``columns``, ``energy_columns``, and ``value``,
    ``n`` as lists of rows; ``reasons`` by ``"first|second"`` where the value is None; ``left_out`` the columns
    without any value.
    """
    used = {
        name: layers if not np.isfinite(values).any() and np.isfinite(layers[name]).any() else columns
        for name, values in columns.items()
    }
    names = [name for name in columns if np.isfinite(used[name][name]).any()]
    value: list[list[float | None]] = [[None] * len(names) for _ in names]
    count = [[0] * len(names) for _ in names]
    reasons = {}
    for i, first in enumerate(names):
        for j, second in enumerate(names[: i + 1]):
            table = layers if used[first] is layers or used[second] is layers else columns
            spearman, n, why = _pair(table, first, second)
            value[i][j] = value[j][i] = spearman
            count[i][j] = count[j][i] = n
            if why is not None:
                reasons[f"{first}|{second}"] = why
    return {
        "method": "spearman",
        "columns": names,
        "energy_columns": [name for name in names if name in list(columns)[:energy_count]],
        "value": value,
        "n": count,
        "reasons": reasons,
        "left_out": {name: reason("no-value") for name in columns if name not in names},
    }


def _pair(table: Mapping[str, Floats], first: str, second: str) -> tuple[float | None, int, Reason | None]:
    known = np.isfinite(table[first]) & np.isfinite(table[second])
    x, y = table[first][known], table[second][known]
    if (why := why_not(x, y, names=(first, second))) is not None:
        return None, len(x), why
    return round(float(coefficient(x[None], y[None], "spearman")[0]), 4), len(x), None

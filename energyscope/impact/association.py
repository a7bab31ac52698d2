"""Pearson and Spearman correlation with bootstrap intervals over points and permutation p-values.

Pure functions over numpy arrays. What cannot be computed is None with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from energyscope.impact.metrics import RESAMPLES, Floats, bootstrap_weights, percentile_interval

Method = Literal["pearson", "spearman"]

METHODS: tuple[Method, ...] = ("pearson", "spearman")
PERMUTATIONS = 4999
FEWEST_POINTS = 4


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


def associate(x: Floats, y: Floats, method: Method, seed: int = 0) -> Association:
    """Correlate two arrays of shape (n,), all finite.

    The interval is the 95 % percentile bootstrap over points. The p-value is two-sided, of the hypothesis that
    the pairing is arbitrary: (1 + b) / (1 + m), where b of m random permutations have a coefficient at least
    as large in magnitude (Phipson and Smyth 2010: a p-value from permutations is never 0).
    """
    n = len(x)
    if n < FEWEST_POINTS:
        return Association(
            method, n, reason=f"{n} points are too few: a correlation needs {FEWEST_POINTS} or more"
        )
    for name, values in (("energy", x), ("impact", y)):
        if np.ptp(values) == 0:
            return Association(method, n, reason=f"all {n} points have the same {name}")
    value = float(coefficients(x, y, method, np.ones((1, n)))[0])
    p_value = permutation_p(x, y, method, seed)
    draws = coefficients(x, y, method, bootstrap_weights(n, RESAMPLES, seed))
    draws = draws[np.isfinite(draws)]  # a resample that drew one value only has no correlation
    if len(draws) < RESAMPLES / 2:
        reason = "no interval: most resamples have only one value on an axis"
        return Association(method, n, value, p_value=p_value, reason=reason)
    return Association(method, n, value, *percentile_interval(draws), p_value)


def coefficients(x: Floats, y: Floats, method: Method, weights: Floats) -> Floats:
    """Return the coefficient of each resample, (rows,); ``weights`` (rows, n) says how often it drew each point.

    NaN where a resample is constant.
    """
    if method == "spearman":
        return _weighted_pearson(resampled_ranks(x, weights), resampled_ranks(y, weights), weights)
    shape = weights.shape
    return _weighted_pearson(np.broadcast_to(_scaled(x), shape), np.broadcast_to(_scaled(y), shape), weights)


def resampled_ranks(values: Floats, weights: Floats) -> Floats:
    """Return the rank of every point within every resample, (rows, n); ties share their mean rank.

    A resample that drew the points ``weights`` times ranks a value after all smaller ones and in the middle of
    its equals, so that ranks follow from the original order without sorting each resample.
    """
    below = (values[:, None] < values[None, :]).astype(np.float64)
    equal = (values[:, None] == values[None, :]).astype(np.float64)
    ranks: Floats = weights @ below + (weights @ equal + 1) / 2
    return ranks


def ranks(values: Floats) -> Floats:
    """Return ranks from 1, (n,); ties share their mean rank."""
    result: Floats = resampled_ranks(values, np.ones((1, len(values))))[0]
    return result


def permutation_p(x: Floats, y: Floats, method: Method, seed: int = 0, permutations: int = PERMUTATIONS) -> float:
    """Return the two-sided permutation p-value of a correlation, (1 + b) / (1 + m)."""
    if method == "spearman":
        x, y = ranks(x), ranks(y)
    x, y = _scaled(x), _scaled(y)
    rng = np.random.default_rng([seed, len(x)])
    shuffled = rng.permuted(np.tile(y, (permutations, 1)), axis=1)
    # the permutations leave the standard deviations alone: sums of products compare as coefficients do
    drawn, found = np.abs(shuffled @ x), abs(float(y @ x))
    slack = 1e-12 * float(np.sqrt((x @ x) * (y @ y)))  # the same pairing may add up differently
    return float((1 + np.count_nonzero(drawn >= found - slack)) / (1 + permutations))


def _weighted_pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    total = weights.sum(1, keepdims=True)
    varied = _varies(x, weights) & _varies(y, weights)
    x = x - (weights * x).sum(1, keepdims=True) / total
    y = y - (weights * y).sum(1, keepdims=True) / total
    spread = np.sqrt((weights * x * x).sum(1) * (weights * y * y).sum(1))
    result = np.full(len(weights), np.nan)
    np.divide((weights * x * y).sum(1), spread, out=result, where=varied & (spread > 0))
    clipped: Floats = np.clip(result, -1.0, 1.0)
    return clipped


def _varies(values: Floats, weights: Floats) -> npt.NDArray[np.bool_]:
    drawn = weights > 0
    highest = np.where(drawn, values, -np.inf).max(1)
    result: npt.NDArray[np.bool_] = highest > np.where(drawn, values, np.inf).min(1)
    return result


def _scaled(values: Floats) -> Floats:
    """Centre values and bring the largest to 1: squares of very small energies would vanish otherwise."""
    centred = values - values.mean()
    largest = np.abs(centred).max()
    result: Floats = centred / largest if largest > 0 else centred
    return result

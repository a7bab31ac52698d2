"""Which component matters more: ranks with intervals, and whether a component's rank is settled.

Pure functions over an array of a metric's value of each component (rows) for each example (columns), larger
meaning more important. NaN marks an example that a component was not tried on: two components are compared on
the examples that both have. Examples are resampled, the same ones for all components, because what makes an
example hard is shared by them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from energyscope.impact.metrics import Floats, bootstrap_weights, percentile_interval

LEVEL = 0.95
FEWEST_EXAMPLES = 30  # percentile intervals of a skewed mean are too narrow with fewer
NEGLIGIBLE = 0.0
Bools = npt.NDArray[np.bool_]


def rank_intervals(values: Floats, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Return each component's rank (1: the largest mean) and its 95 % interval, each (components,).

    The interval's ends are percentiles of the ranks in resampled data (Goldstein and Spiegelhalter 1996).
    Components that tie share the mean of their ranks. Between components that are truly equal such an interval
    is somewhat narrow: it says how stable the ranking is, ``separated`` says what can be told apart. A component
    without any example has NaN, and counts in nobody's rank.
    """
    known = ~np.isnan(values)
    rank = _ranks(values, np.ones((1, values.shape[1])))[0]
    draws = _ranks(values, bootstrap_weights(values.shape[1], seed=seed))
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    for ends in (rank, low, high):
        ends[~known.any(1)] = np.nan
    return rank, low, high


def separated(values: Floats, seed: int = 0, *, looks: int = 1, floor: float = NEGLIGIBLE) -> Bools:
    """Return for each component whether more examples are not needed to place it, (components,).

    It is placed when its paired differences to its two neighbours in the ranking have intervals without 0, or
    when its own interval lies between -``floor`` and ``floor`` (in the metric's unit; with 0, the default, no
    effect is negligible). Each needs 30 examples. Whoever looks ``looks`` times while the examples come in, and
    stops at the first good look, is wrong more often than one look is: the level of each interval is
    1 - 0.05 / looks (Bonferroni). Both neighbours have to differ, so that needs no correction of its own.
    """
    level = 1 - (1 - LEVEL) / max(1, looks)
    examples = (~np.isnan(values)).sum(1)
    rank = _ranks(values, np.ones((1, values.shape[1])))[0]
    present = np.flatnonzero(examples)
    order = present[np.argsort(rank[present], kind="stable")]
    clear = [_excludes_zero(values[above] - values[below], level, seed) for above, below in pairwise(order)]
    result = np.zeros(len(values), dtype=bool)
    result[order] = [both[0] and both[1] for both in pairwise([True, *clear, True])][: len(order)]
    for index in order[~result[order]] if floor > 0 else ():
        low, high = _interval(values[index], level, seed)
        result[index] = -floor < low and high < floor
    placed: Bools = result & (examples >= FEWEST_EXAMPLES)
    return placed


def _ranks(values: Floats, weights: Floats) -> Floats:
    """Return the components' ranks for each row of weights over the examples, (rows, components)."""
    patterns, which = np.unique(~np.isnan(values), axis=0, return_inverse=True)
    members = [np.flatnonzero(which.ravel() == number) for number in range(len(patterns))]
    result = np.full((len(weights), len(values)), 0.5)  # each component ties with itself
    for ours, us in zip(patterns, members, strict=True):
        for theirs, them in zip(patterns, members, strict=True):
            if theirs.any():
                shared = ours & theirs
                # sums order as means do, since both are of the same examples
                result[:, us] += _above(*(weights[:, shared] @ values[who][:, shared].T for who in (us, them)))
    return result


def _above(ours: Floats, theirs: Floats) -> Floats:
    """Return for each of ours (rows, n) how many of theirs (rows, m) are larger, ties counting half."""
    ordered = np.sort(theirs, axis=1)
    sides = [
        [np.searchsorted(row, own, side) for row, own in zip(ordered, ours, strict=True)]
        for side in ("left", "right")
    ]
    result: Floats = theirs.shape[1] - np.mean(sides, axis=0)
    return result


def _excludes_zero(differences: Floats, level: float, seed: int) -> bool:
    low, high = _interval(differences, level, seed)
    return low > 0 or high < 0


def _interval(values: Floats, level: float, seed: int) -> tuple[float, float]:
    """Return the interval of the mean; without ends where there are too few examples for one."""
    values = values[~np.isnan(values)]
    if len(values) < FEWEST_EXAMPLES:
        return -np.inf, np.inf
    return percentile_interval(bootstrap_weights(len(values), seed=seed) @ values / len(values), level)

"""Which component matters more: ranks, and whether a component's rank is settled.

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
Bools = npt.NDArray[np.bool_]


def separated(values: Floats, seed: int = 0, *, looks: int = 1) -> Bools:
    """Return for each component whether more examples are not needed to place it, (components,).

    It is placed when its paired differences to its two neighbours in the ranking have intervals without 0. Each
    needs 30 examples. Whoever looks ``looks`` times while the examples come in, and stops at the first good look,
    is wrong more often than one look is: the level of each interval is 1 - 0.05 / looks (Bonferroni). Both
    neighbours have to differ, so that needs no correction of its own.
    """
    level = 1 - (1 - LEVEL) / max(1, looks)
    examples = (~np.isnan(values)).sum(1)
    present = np.flatnonzero(examples)
    order = present[np.argsort(ranks(values)[present], kind="stable")]
    clear = [_excludes_zero(values[above] - values[below], level, seed) for above, below in pairwise(order)]
    result = np.zeros(len(values), dtype=bool)
    result[order] = [both[0] and both[1] for both in pairwise([True, *clear, True])][: len(order)]
    placed: Bools = result & (examples >= FEWEST_EXAMPLES)
    return placed


def ranks(values: Floats) -> Floats:
    """Return each component's rank, (components,): 1 for the largest mean. Ties share the mean of their ranks.

    A component without any example counts in nobody's rank, and its own says nothing.
    """
    patterns, which = np.unique(~np.isnan(values), axis=0, return_inverse=True)
    members = [np.flatnonzero(which.ravel() == number) for number in range(len(patterns))]
    weights = np.ones((1, values.shape[1]))
    result = np.full((1, len(values)), 0.5)  # each component ties with itself
    for ours, us in zip(patterns, members, strict=True):
        for theirs, them in zip(patterns, members, strict=True):
            if theirs.any():
                shared = ours & theirs
                # sums order as means do, since both are of the same examples
                result[:, us] += _above(*(weights[:, shared] @ values[who][:, shared].T for who in (us, them)))
    own: Floats = result[0]
    return own


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

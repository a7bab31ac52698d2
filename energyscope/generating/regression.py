"""Powers of phases that are shorter than a tick, from many tick intervals. Pure functions over arrays.

Each interval between two ticks shares known seconds with each phase, and the counter rose by known joules in it:

    phases   ...|rest|prefill|  decode                       |rest|prefill| ...
    ticks     |            |            |            |            |
    joules         = power of rest x its seconds here + power of prefill x its seconds here + ...

Over many generations at random offsets against the ticks, least squares tells the powers apart. The noise of
neighbouring intervals is correlated (a tick that came late takes from one what it gives to the next), so its
covariance is taken with it: of the residuals along time, with Bartlett's weights (W. K. Newey and K. D. West,
Econometrica 55, 1987), which is what a block bootstrap of them tends to (H. R. Kuensch, Annals of Statistics 17,
1989). Generations also differ from one another: their covariance is that which a bootstrap over generations tends
to (sums of the scores of each). A half-width is the larger of both, with Student's quantile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from energyscope.metering.interval import student_t
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason

LAGS = 4  # neighbouring intervals whose noise may be related
LEAST_TOLERANCE = 0.01  # share of a column that the others do not explain: below it, errors grow tenfold
FREEDOM = 5  # intervals more than powers that are asked for
SEEN = 1e-9  # s

Groups = npt.NDArray[np.intp]


@dataclass(frozen=True)
class PowerFit:
    """Powers (W) by column, shape (columns,), with two covariances (W^2): along time, and between generations.

    ``time_t`` and ``group_t`` are their Student quantiles. ``faults`` gives for each column why its power is not
    to be trusted, None where it is.
    """

    power_w: Array
    time_cov: Array
    group_cov: Array
    time_t: float
    group_t: float
    faults: tuple[Reason | None, ...]

    def energy_j(self, seconds: Array) -> tuple[float, float]:
        """Return the energy of some seconds of the first columns, and its 95 % half-width (J).

        Columns beyond them have none: a fit may end with one of its own, such as a counter's delay.
        """
        count = len(seconds)
        along = self.time_t * _deviation(seconds, self.time_cov[:count, :count])
        between = self.group_t * _deviation(seconds, self.group_cov[:count, :count])
        return float(seconds @ self.power_w[:count]), max(along, between)


def _deviation(weights: Array, covariance: Array) -> float:
    return math.sqrt(max(float(weights @ covariance @ weights), 0.0))


def fit_powers(seconds: Array, energy_j: Array, groups: Groups, names: Sequence[str]) -> PowerFit:
    """Fit powers to intervals by least squares.

    ``seconds`` has shape (intervals, columns), ``energy_j`` and ``groups`` (intervals,): the generation that an
    interval belongs to, in order of time. ``names`` are the columns' in what is said of them.
    """
    count, columns = seconds.shape
    seen = np.linalg.norm(seconds, axis=0) > SEEN
    faults = _faults(seconds, seen, names)
    power, time_cov, group_cov = np.zeros(columns), *np.zeros((2, columns, columns))  # 0 where it has a fault
    freedom, clusters = count - int(seen.sum()), len(np.unique(groups))
    if freedom < FREEDOM or clusters < 2:
        few = reason("few-tick-intervals", intervals=count, generations=clusters)
        return PowerFit(power, time_cov, group_cov, np.nan, np.nan, (few,) * columns)
    used = seconds[:, seen]
    inverse: Array = np.linalg.pinv(used).astype(float)  # shape (columns, intervals)
    power[seen] = inverse @ energy_j
    residual = energy_j - used @ power[seen]
    here = np.ix_(seen, seen)
    time_cov[here] = _along_time(inverse, residual, freedom)
    group_cov[here] = _between_groups(inverse, residual, groups, count / freedom)
    return PowerFit(power, time_cov, group_cov, student_t(freedom), student_t(clusters - 1), faults)


def _along_time(inverse: Array, residual: Array, freedom: int) -> Array:
    """Return the powers' covariance for noise that is alike throughout, and related within some intervals."""
    total = float(residual @ residual) / freedom * (inverse @ inverse.T)
    for lag in range(1, min(LAGS, len(residual) - 1) + 1):
        related = float(residual[lag:] @ residual[:-lag]) / freedom * (1 - lag / (LAGS + 1))
        across = inverse[:, lag:] @ inverse[:, :-lag].T
        total = total + related * (across + across.T)
    result: Array = total
    return result


def _between_groups(inverse: Array, residual: Array, groups: Groups, inflation: float) -> Array:
    """Return the powers' covariance for noise that is related, in whatever way, within a generation."""
    scores = inverse * residual
    sums = np.stack([scores[:, groups == one].sum(axis=1) for one in np.unique(groups)], axis=1)
    count = sums.shape[1]
    result: Array = inflation * count / (count - 1) * (sums @ sums.T)
    return result


def _faults(seconds: Array, seen: npt.NDArray[np.bool_], names: Sequence[str]) -> tuple[Reason | None, ...]:
    """Return for each column what stands in the way of its power: it was not seen, or another is like it."""
    unseen = [reason("phase-not-in-ticks", phase=name) for name in names]
    columns = range(seconds.shape[1])
    return tuple(_likeness(seconds, one, seen, names) if seen[one] else unseen[one] for one in columns)


def _likeness(seconds: Array, column: int, seen: npt.NDArray[np.bool_], names: Sequence[str]) -> Reason | None:
    own = seconds[:, column]
    others = [int(other) for other in np.flatnonzero(seen) if other != column]
    if not others:
        return None
    shares, *_ = np.linalg.lstsq(seconds[:, others], own, rcond=None)
    left = own - seconds[:, others] @ shares
    if left @ left >= LEAST_TOLERANCE * (own @ own):
        return None
    parts = np.abs(shares) * np.linalg.norm(seconds[:, others], axis=0)
    return reason("phases-not-separable", other=names[others[int(np.argmax(parts))]])

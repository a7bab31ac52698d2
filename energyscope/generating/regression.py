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

Where the ticks lie on our clock is known to a fraction of a millisecond at best, and a counter may show energy
somewhat late: a shift that all ticks share would put joules of one phase into the next. So the shift is fitted
with the powers: near the best of many by steps of Gauss and Newton, whose uncertainty is in the powers' intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from energyscope.generating.intervals import Intervals
from energyscope.generating.marks import Mark, overlaps
from energyscope.metering.interval import student_t
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason

LAGS = 4  # neighbouring intervals whose noise may be related
LEAST_TOLERANCE = 0.01  # share of a column that the others do not explain: below it, errors grow tenfold
FREEDOM = 5  # intervals more than powers that are asked for
SEEN = 1e-9  # s

STEP_S = 0.0005  # over which power around a tick is taken for the derivative
ROUNDS = 6
LONGEST_S = 0.03  # a shift from where it began beyond it is no answer
TRIED_S = np.arange(-0.02, 0.25, 0.004)
CONVINCING = 15.0  # times the variance of a residual, by which a delay must make their squares less
DELAY = "counter delay"

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
    sums = np.stack([scores[:, groups == group].sum(axis=1) for group in np.unique(groups)], axis=1)
    count = sums.shape[1]
    result: Array = inflation * count / (count - 1) * (sums @ sums.T)
    return result


def _faults(seconds: Array, seen: npt.NDArray[np.bool_], names: Sequence[str]) -> tuple[Reason | None, ...]:
    """Return for each column what stands in the way of its power: it was not seen, or another is like it."""
    unseen = [reason("phase-not-in-ticks", phase=name) for name in names]
    columns = range(seconds.shape[1])
    return tuple(_likeness(seconds, index, seen, names) if seen[index] else unseen[index] for index in columns)


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


def rough_delay_s(trace: Intervals, marks: Sequence[Mark], nodes: Array) -> float:
    """Return about how late (s) the counter shows energy: 0, unless another delay explains it clearly better."""
    used = _used(trace, marks)
    if len(used) <= nodes.shape[1] + 2:
        return 0.0
    energy = trace.energy_j[used]
    times_s, tried_s = trace.times_s, (0.0, *TRIED_S)
    left = [_unexplained(overlaps(times_s - delay_s, marks, nodes)[used], energy) for delay_s in tried_s]
    best = int(np.argmin(left))
    noise = left[best] / (len(used) - nodes.shape[1] - 2)
    return float(TRIED_S[best - 1]) if best and left[0] - left[best] > CONVINCING * noise else 0.0


def _unexplained(seconds: Array, energy_j: Array) -> float:
    """Return the sum of squares (J^2) that the best powers leave."""
    power, *_ = np.linalg.lstsq(seconds, energy_j, rcond=None)
    residual = energy_j - seconds @ power
    return float(residual @ residual)


def fit_delayed(trace: Intervals, marks: Sequence[Mark], nodes: Array, rough_s: float = 0.0) -> PowerFit:
    """Fit the powers of one meter to the intervals from the first generation's second tick to the last one's end.

    The first full interval under load is left out: boards show a transient in it. ``nodes`` are the weights of the
    decode steps, ``rough_s`` is about how late the counter is. The last column is the delay's, where it could be
    fitted.
    """
    used = _used(trace, marks)
    energy = trace.energy_j[used]
    middle = (trace.times_s[:-1] + trace.times_s[1:])[used] / 2
    groups = np.searchsorted([mark.begin_s for mark in marks], middle)
    names = ["pauses", "prefill", *_node_names(nodes)]
    undelayed = fit = fit_powers(overlaps(trace.times_s - rough_s, marks, nodes)[used], energy, groups, names)
    delay_s = rough_s
    for _ in range(ROUNDS):
        seconds, slope = _shifted(trace.times_s - delay_s, marks, nodes, fit.power_w[: len(names)])
        fit = fit_powers(np.column_stack([seconds, slope])[used], energy, groups, [*names, DELAY])
        delay_s -= float(fit.power_w[-1])
        if any(fit.faults) or abs(delay_s - rough_s) > LONGEST_S:
            return undelayed
    return fit


def _shifted(times_s: Array, marks: Sequence[Mark], nodes: Array, power_w: Array) -> tuple[Array, Array]:
    """Return the overlaps at some times, and how the joules in each interval change with these times (W)."""
    around = [overlaps(times_s + step, marks, nodes) @ power_w for step in (-STEP_S, STEP_S)]
    return overlaps(times_s, marks, nodes), (around[1] - around[0]) / (2 * STEP_S)


def _used(trace: Intervals, marks: Sequence[Mark]) -> npt.NDArray[np.intp]:
    begins, ends = trace.times_s[:-1], trace.times_s[1:]
    under_load = np.flatnonzero(begins > marks[0].begin_s)[1:]
    used: npt.NDArray[np.intp] = under_load[(ends[under_load] <= marks[-1].end_s) & trace.good[under_load]]
    return used


def _node_names(nodes: Array) -> list[str]:
    if nodes.shape[1] == 1:
        return ["decode"]
    return [f"decode near step {1 + int(np.argmax(weights))}" for weights in nodes.T]

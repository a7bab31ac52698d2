"""Energy of what is shorter than a tick, from many tick intervals. Pure functions over arrays.

Each interval between two ticks shares known amounts with each cause of energy, such as seconds of a phase, and the
counter rose by known joules in it:

    phases   ...|rest|prefill|  decode                       |rest|prefill| ...
    ticks     |            |            |            |            |
    joules         = power of rest x its seconds here + power of prefill x its seconds here + ...

Over many generations at random offsets against the ticks, least squares separates the powers. The noise of
neighbouring intervals is correlated (a late tick takes from one interval what it gives to the next), so its
autocovariance is included, with Bartlett's weights (W. K. Newey and K. D. West, Econometrica 55, 1987), which is
the limit of a block bootstrap (H. R. Kuensch, Annals of Statistics 17, 1989). Generations also differ from one
another: their covariance is the limit of a bootstrap over generations (sums of the scores of each). A half-width
is the larger of both, with Student's quantile.

Where the ticks lie on the host's clock is known to a fraction of a millisecond at best, and a counter may show
energy somewhat late: a shift that all ticks share would put joules of one phase into the next. So the shift is
fitted with the powers, from the best of many, by Gauss-Newton steps; its uncertainty is in the powers' intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from energyscope.metering.interval import student_t
from energyscope.metering.tick_intervals import TickIntervals
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason

LAGS = 4  # neighbouring intervals whose noise may be correlated
LEAST_TOLERANCE = 0.01  # share of a column that the others do not explain: below it, errors grow tenfold
FREEDOM = 5  # least number of intervals beyond that of the powers
OBSERVED_S = 1e-9

STEP_S = 0.0005  # over which power around a tick is taken for the derivative
ROUNDS = 6
LONGEST_S = 0.03  # of a shift from the rough delay; a longer one is refused
TRIED_S = np.arange(-0.02, 0.25, 0.004)
CONVINCING = 15.0  # times the variance of a residual, by which a delay must make their squares less
DELAY = "counter delay"

Places = npt.NDArray[np.intp]
# from times (s) to the amounts between each two: (times,) -> (times - 1, columns)
Design = Callable[[Array], Array]


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
        half = max(
            quantile * math.sqrt(max(float(seconds @ covariance[:count, :count] @ seconds), 0.0))
            for quantile, covariance in ((self.time_t, self.time_cov), (self.group_t, self.group_cov))
        )
        return float(seconds @ self.power_w[:count]), half


def fit_powers(seconds: Array, energy_j: Array, groups: Places, names: Sequence[str]) -> PowerFit:
    """Fit powers to intervals by least squares.

    ``seconds`` has shape (intervals, columns), ``energy_j`` and ``groups`` (intervals,): the generation that an
    interval belongs to, in order of time. ``names`` are the columns' names in reasons.
    """
    count, columns = seconds.shape
    observed = np.linalg.norm(seconds, axis=0) > OBSERVED_S
    faults = tuple(_fault(seconds, column, observed, names) for column in range(columns))
    power, time_cov, group_cov = np.zeros(columns), *np.zeros((2, columns, columns))  # 0 where it has a fault
    freedom, clusters = count - int(observed.sum()), len(np.unique(groups))
    if freedom < FREEDOM or clusters < 2:
        few = reason("few-tick-intervals", intervals=count, generations=clusters)
        return PowerFit(power, time_cov, group_cov, np.nan, np.nan, (few,) * columns)
    used = seconds[:, observed]
    inverse: Array = np.linalg.pinv(used).astype(float)  # shape (columns, intervals)
    power[observed] = inverse @ energy_j
    residual = energy_j - used @ power[observed]
    block = np.ix_(observed, observed)
    time_cov[block] = _covariance_along_time(inverse, residual, freedom)
    group_cov[block] = _covariance_between_groups(inverse, residual, groups, count / freedom)
    return PowerFit(power, time_cov, group_cov, student_t(freedom), student_t(clusters - 1), faults)


def _covariance_along_time(inverse: Array, residual: Array, freedom: int) -> Array:
    """Return the powers' covariance for noise of one variance, correlated between close intervals."""
    total: Array = float(residual @ residual) / freedom * (inverse @ inverse.T)
    for lag in range(1, min(LAGS, len(residual) - 1) + 1):
        autocovariance = float(residual[lag:] @ residual[:-lag]) / freedom * (1 - lag / (LAGS + 1))
        across = inverse[:, lag:] @ inverse[:, :-lag].T
        total = total + autocovariance * (across + across.T)
    return total


def _covariance_between_groups(inverse: Array, residual: Array, groups: Places, inflation: float) -> Array:
    """Return the powers' covariance for noise that is correlated in any way within a generation."""
    scores = inverse * residual
    sums = np.stack([scores[:, groups == group].sum(axis=1) for group in np.unique(groups)], axis=1)
    count = sums.shape[1]
    result: Array = inflation * count / (count - 1) * (sums @ sums.T)
    return result


def _fault(seconds: Array, column: int, observed: npt.NDArray[np.bool_], names: Sequence[str]) -> Reason | None:
    """Return why a column's power cannot be fitted: it was not observed, or others explain it; None if it can."""
    if not observed[column]:
        return reason("phase-not-in-ticks", phase=names[column])
    own = seconds[:, column]
    others = [int(other) for other in np.flatnonzero(observed) if other != column]
    if not others:
        return None
    shares, *_ = np.linalg.lstsq(seconds[:, others], own, rcond=None)
    unexplained = own - seconds[:, others] @ shares
    if unexplained @ unexplained >= LEAST_TOLERANCE * (own @ own):
        return None
    parts = np.abs(shares) * np.linalg.norm(seconds[:, others], axis=0)
    return reason("phases-not-separable", other=names[others[int(np.argmax(parts))]])


def rough_delay_s(trace: TickIntervals, used: Places, design: Design) -> float:
    """Return about how late (s) the counter shows energy: 0, unless another delay explains it clearly better.

    ``used`` are the intervals (positions) that count.
    """
    energy = trace.energy_j[used]
    delays_s = (0.0, *TRIED_S)
    squares, freedom = [], 0  # what the best powers leave (J^2), for each delay
    for delay_s in delays_s:
        amounts = design(trace.times_s - delay_s)[used]
        freedom = len(used) - amounts.shape[1]
        if freedom <= 0:
            return 0.0
        residual = energy - amounts @ np.linalg.lstsq(amounts, energy, rcond=None)[0]
        squares.append(float(residual @ residual))
    best = int(np.argmin(squares))
    return float(delays_s[best]) if squares[0] - squares[best] > CONVINCING * squares[best] / freedom else 0.0


def fit_delayed(
    trace: TickIntervals,
    used: Places,
    design: Design,
    groups: Places,
    names: Sequence[str],
    rough_s: float = 0.0,
) -> PowerFit:
    """Fit the powers of one meter to the intervals that are ``used`` (positions), and how late its counter is.

    ``groups`` are those of the used intervals and ``names`` of the columns, as in `fit_powers`; ``rough_s`` is
    about how late the counter is. The last column is the delay's, where it could be fitted.
    """
    energy = trace.energy_j[used]
    undelayed = fit = fit_powers(design(trace.times_s - rough_s)[used], energy, groups, names)
    delay_s = rough_s
    for _ in range(ROUNDS):
        times_s, power_w = trace.times_s - delay_s, fit.power_w[: len(names)]
        before, after = (design(times_s + step) @ power_w for step in (-STEP_S, STEP_S))
        slope = (after - before) / (2 * STEP_S)  # of the joules in each interval over its times (W)
        seconds = np.column_stack([design(times_s), slope])
        fit = fit_powers(seconds[used], energy, groups, [*names, DELAY])
        delay_s -= float(fit.power_w[-1])
        if any(fit.faults) or abs(delay_s - rough_s) > LONGEST_S:
            return undelayed
    return fit

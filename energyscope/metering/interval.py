"""From the windows of one component to its mean and its 95 % interval. Pure functions.

How many windows a component needs is decided after the first few of them, by Stein's two-stage rule
(C. Stein, Annals of Mathematical Statistics 16, 1945): their deviation alone chooses the number, so that it
knows nothing of the mean of all, and the interval still covers as often as it says. Stopping as soon as an
interval looks narrow enough would not.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from energyscope.metering.ticks import Array

FIRST = 5  # windows from which the number of all is decided
NORMAL_QUANTILE = 1.959964  # 97.5 % of the normal distribution
REPEATS = 0.004  # relative deviation of equal measurements on one board (reports/repeatability-h200)
FLOOR_QUANTILE = 1.645  # with 1.96, intervals would cover 98 % and more where timing is the whole noise
LEAST_CORRELATED = 4  # windows
MOST_CORRELATED = 0.95
NOISY = 8.0  # times the usual variance
SURPRISE = 1.0  # standard deviations beyond chance from which a correlation is taken for one
TWO_VALUES = 5.0  # deviations
MAD_TO_DEVIATION = 1.4826  # of a normal distribution
SPIKE_DEVIATIONS = 4.0
SPIKE = 0.005  # relative; less is none
LEAST_USUAL = 4  # values of which one can be a spike
DRIFT_CHANGE = 0.01  # a drift below this is not worth a word


@dataclass(frozen=True)
class Estimate:
    """A mean over windows with its 95 % interval; all None where no window was usable."""

    mean: float | None
    low: float | None
    high: float | None
    windows: int

    @property
    def relative_half_width(self) -> float | None:
        if self.mean is None or self.low is None or self.high is None or self.mean == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.mean)


@dataclass(frozen=True)
class Drift:
    """A trend: the relative change over the whole time with its 95 % interval (0.02: 2 % more at the end)."""

    change: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the interval excludes no change, and the change is more than 1 %."""
        return (self.low > 0 or self.high < 0) and abs(self.change) > DRIFT_CHANGE


def windows_wanted(values: Sequence[float | None], *, target: float, limit: int, first: int = FIRST) -> int:
    """Return how many windows to take in all, those taken already included.

    Stein's rule: N = (t s / (target mean))^2 from the mean and deviation s of the ``first`` usable windows, at
    least ``first``. A window without a value (None) is taken again, so ``while len(values) < windows_wanted(...)``
    is the whole loop. ``target`` is the relative 95 % half-width aimed at; ``limit`` bounds the windows taken.
    """
    known = _known(values)
    unusable = len(values) - len(known)
    stage = known[:first]
    if len(stage) < first or first < 2:
        return min(first + unusable, limit)
    half = student_t(first - 1) * float(stage.std(ddof=1))
    aim = target * abs(float(stage.mean()))
    if half > aim * math.sqrt(limit):
        return limit
    needed = math.ceil((half / aim) ** 2) if half > 0 else first
    return min(max(first, needed) + unusable, limit)


def combine(
    values: Sequence[float | None], *, first: int = FIRST, floor: float = 0.0, correlation: float = 0.0
) -> Estimate:
    """Return the mean of independent windows, in the order taken, with its 95 % interval (None: no value).

    The half-width is the largest of three, with N windows of deviation s, of which the ``first`` had s_first:

    - t(first - 1) s_first / sqrt(N): Stein's, exact where ``windows_wanted`` chose N;
    - t(N - 1) s / sqrt(N): Student's, which sees a drift that came after the first windows;
    - 1.645 ``floor`` |mean| / sqrt(N), where ``floor`` is the relative deviation of one window that the tick
      timing alone makes: five windows that agree by luck are not sharper than their ticks. It is known and
      not estimated, so it takes a normal quantile; that of 90 %, since it only ever adds to the other two.

    Where successive windows have a ``correlation`` (see `pooled_correlation`), the mean varies more than N
    independent windows tell and their deviation less than it should: the half-width grows by `widening`.
    """
    known = _known(values)
    count = len(known)
    if count == 0:
        return Estimate(None, None, None, 0)
    mean = float(known.mean())
    if count == 1:
        return Estimate(mean, None, None, 1)
    stage = known[: max(first, 2)]
    scaled = max(_t_times_deviation(stage), _t_times_deviation(known), FLOOR_QUANTILE * floor * abs(mean))
    half = scaled / math.sqrt(count) * widening(correlation, count)
    return Estimate(mean, mean - half, mean + half, count)


def widening(correlation: float, count: int) -> float:
    """Return how much wider the mean of so many windows must be stated if each resembles the one before it.

    For a first-order autoregression of variance 1, Var(mean) = (1 + 2 sum_k (1 - k / N) r^k) / N, and the expected
    sample variance is (1 - Var(mean)) N / (N - 1): the widening is the root of their ratio, times N.
    """
    if correlation <= 0 or count < 2:
        return 1.0
    lags = np.arange(1, count)
    variance = float((1 + 2 * ((1 - lags / count) * correlation**lags).sum()) / count)
    return math.sqrt((count - 1) * variance / (1 - variance))


def usual(values: Sequence[float]) -> list[bool]:
    """Return which of some values in turn are no spikes: those near one of the two before or the two after them.

    Near is within four deviations (by the median distance from the median), or half a percent. A change that
    lasts for two values is no spike; a single last value far off is. Of fewer than four, all are usual.
    """
    if len(values) < LEAST_USUAL:
        return [True] * len(values)
    middle = statistics.median(values)
    deviation = MAD_TO_DEVIATION * statistics.median(abs(value - middle) for value in values)
    near = max(SPIKE_DEVIATIONS * deviation, SPIKE * abs(middle))
    return [
        min(abs(value - other) for other in (*values[max(place - 2, 0) : place], *values[place + 1 : place + 3]))
        <= near
        for place, value in enumerate(values)
    ]


def pooled_correlation(groups: Iterable[Sequence[float | None]]) -> float:
    """Return by how much successive windows resemble each other: the lag-1 correlation over many targets.

    Each group are one target's windows in the order taken. Five windows cannot tell, but many targets' can: the
    mean of their sample correlations is compared with what it is expected to be at each true value, which for so
    few windows is far below it (-1 / N for none at all). 0 where it is not significantly above that.
    """
    known = [values for values in map(_known, groups) if len(values) >= LEAST_CORRELATED and values.mean() != 0]
    residuals = [values / values.mean() - 1 for values in known if values.std() > 0]
    if not residuals:
        return 0.0
    variances = np.array([float(values @ values) / (len(values) - 1) for values in residuals])
    weights = 1 / np.maximum(variances, NOISY * np.median(variances))  # a few noisy targets do not decide
    lagged = [weight * float(values[1:] @ values[:-1]) for weight, values in zip(weights, residuals, strict=True)]
    squared = [weight * float(values @ values) for weight, values in zip(weights, residuals, strict=True)]
    seen = sum(lagged) / sum(squared)
    shares = dict.fromkeys({len(values) for values in residuals}, 0.0)
    for values, square in zip(residuals, squared, strict=True):
        shares[len(values)] += square / sum(squared) / (len(values) - 1)

    def expected(correlation: float) -> float:
        """Return the ratio of both sums' expectations; targets weigh by their variance."""
        sums = [(share, *_expected_sums(correlation, count)) for count, share in shares.items()]
        return sum(share * lag for share, lag, _ in sums) / sum(share * own for share, _, own in sums)

    if seen <= expected(0.0) + SURPRISE / math.sqrt(sum(map(len, residuals))):
        return 0.0
    tried = np.linspace(0.0, MOST_CORRELATED, 100)
    return float(tried[np.argmin([abs(expected(correlation) - seen) for correlation in tried])])


def _expected_sums(correlation: float, count: int) -> tuple[float, float]:
    """Return the expected sums of lagged and of squared residuals, of windows of variance 1."""
    index = np.arange(count)
    centre = np.eye(count) - 1 / count
    covariance = centre @ correlation ** np.abs(index[:, None] - index) @ centre
    return float(np.trace(covariance, offset=1)), float(np.trace(covariance))


def _known(values: Sequence[float | None]) -> Array:
    return np.array([value for value in values if value is not None], dtype=float)


def _t_times_deviation(values: Array) -> float:
    return student_t(len(values) - 1) * float(values.std(ddof=1))


def two_values(values: Sequence[float | None]) -> tuple[float, float] | None:
    """Return the two values that windows take in turn, if they do: two clusters with nothing between them.

    The widest gap splits the sorted windows; both parts have two windows or more, and the gap is over 1 % and five
    times the deviation inside of them.
    """
    known = np.sort(_known(values))
    if len(known) < FIRST:
        return None
    gaps = np.diff(known)[1:-1]  # one window alone is no second value
    split = int(gaps.argmax()) + 2
    low, high = known[:split], known[split:]
    inside = math.sqrt((low.var() * len(low) + high.var() * len(high)) / (len(known) - 2))
    if gaps.max() <= max(TWO_VALUES * inside, DRIFT_CHANGE * abs(float(known.mean()))):
        return None
    return float(low.mean()), float(high.mean())


def drift(times_s: Sequence[float], values: Sequence[float | None]) -> Drift | None:
    """Return the trend of repeated measurements of one thing (the anchors) by least squares.

    ``times_s`` and ``values`` have shape (measurements,); None values are left out. The change is the fitted
    slope times the whole time, relative to the mean; its interval is Student's with two degrees fewer.

    Returns:
        The trend, None for fewer than three values or without a span of time.

    """
    pairs = [(time_s, value) for time_s, value in zip(times_s, values, strict=True) if value is not None]
    if len(pairs) < 3:
        return None
    times, known = np.array(pairs, dtype=float).T
    span, mean = float(np.ptp(times)), float(known.mean())
    if span == 0 or mean == 0:
        return None
    centred = times - times.mean()
    slope = float(centred @ known / (centred @ centred))
    residuals = known - mean - slope * centred
    variance = float(residuals @ residuals) / (len(known) - 2)
    half = student_t(len(known) - 2) * math.sqrt(variance / float(centred @ centred))
    change, width = slope * span / mean, half * span / abs(mean)
    return Drift(change, change - width, change + width)


def student_t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t; from tables to 30 degrees, then Cornish-Fisher's expansion.

    scipy.stats has it too, but takes 0.6 s to import.
    """
    table = (
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    )  # fmt: skip
    if freedom < 1:
        raise ValueError("an interval needs at least two windows")
    if freedom <= len(table):
        return table[freedom - 1]
    z = NORMAL_QUANTILE
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def spread(values: Sequence[float | None]) -> float | None:
    """Return the coefficient of variation between windows (one a pass), None for fewer than two."""
    known = _known(values)
    if len(known) < 2 or known.mean() == 0:
        return None
    return float(known.std(ddof=1) / abs(known.mean()))


def repeatable(
    value: float | None, low: float | None, high: float | None
) -> tuple[float, float] | tuple[None, None]:
    """Return limits of an energy that have in them what equal measurements on one board differ by.

    One session's windows do not show that; the two deviations are independent, and add in quadrature. None of what
    is not known.
    """
    if value is None or low is None or high is None:
        return None, None
    between = NORMAL_QUANTILE * REPEATS * value
    return value - math.hypot(value - low, between), value + math.hypot(high - value, between)

"""Ticks of an energy counter and the calls that ran beside them, on one clock. Pure data and functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from energyscope.reasons import Reason, reason

Array = npt.NDArray[np.float64]

MINIMUM_TICKS = 2  # an interval needs two ends
MINIMUM_GRID_TICKS = 4
WIDE_BRACKET = 1.5  # times the usual: reads failed there, and the tick may be anywhere inside
DENSE_GRID = 0.16  # of a period: brackets whose deviation is more are over half as wide as the grid
REGULAR_JITTER = 0.03  # of a period: what boards show, and more
GRID_JITTER = 0.15  # of a period: ticks that scatter more lie on no grid (random times scatter by 0.29)
MAXIMUM_W = 10_000.0  # no board, nor a group of them, draws more: a rise beyond it is a fault of the counter
LARGEST_RISE_MJ = 2.0**53  # beyond it a double no longer holds whole mJ
WRAPS_MJ = (2.0**32, 2.0**64, 2.0**32 / 1e3)  # the last: 32 bits of microjoules


@dataclass(frozen=True)
class Ticks:
    """Observed changes of an energy counter, in order. All arrays have shape (ticks,).

    ``before_s`` is when the old value was last seen, ``after_s`` when the new one was first seen (both on the
    monotonic clock, seconds); ``energy_mj`` the counter's new value; ``reset`` is True where the counter fell.
    """

    before_s: Array
    after_s: Array
    energy_mj: Array
    reset: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def __post_init__(self) -> None:
        if len(self.reset) == 0:  # left out: it never fell
            object.__setattr__(self, "reset", np.zeros(len(self), dtype=bool))

    @property
    def time_s(self) -> Array:
        return (self.before_s + self.after_s) / 2

    def __len__(self) -> int:
        return len(self.energy_mj)

    def between(self, begin_s: float, end_s: float) -> Ticks:
        """Return the ticks whose time lies in an interval."""
        inside = (self.time_s >= begin_s) & (self.time_s <= end_s)
        return Ticks(self.before_s[inside], self.after_s[inside], self.energy_mj[inside], self.reset[inside])


@dataclass(frozen=True)
class Calls:
    """How many calls had completed by when: ``count[i]`` calls at ``time_s[i]`` (monotonic clock, seconds).

    The first point is the start of the load, with count 0. ``waited_s`` is how long the host waited for the
    device meanwhile, None where it is not known: a host that never waits is itself what limits the calls.
    ``canary_s`` are the times of a fixed graph of tiny kernels just before and just after, where there is one.
    ``host_mj`` is what the host drew meanwhile (see `energyscope.metering.host`).
    """

    time_s: Array
    count: Array
    waited_s: float | None = None
    canary_s: tuple[float, ...] = ()
    host_mj: float | None = None

    def at(self, time_s: Array) -> Array:
        """Return the calls completed at given times, fractions of a call included."""
        return np.interp(time_s, self.time_s, self.count)

    @property
    def span_s(self) -> tuple[float, float]:
        """When the load began and ended."""
        return float(self.time_s[0]), float(self.time_s[-1])

    def first(self, seconds: float) -> Calls:
        """Return the record of the first seconds only."""
        within = self.time_s <= self.time_s[0] + seconds
        return Calls(self.time_s[within], self.count[within])

    @property
    def seconds(self) -> float:
        return float(self.time_s[-1] - self.time_s[0])

    @property
    def host_mj_each(self) -> float | None:
        """What the host drew for each call (mJ)."""
        return None if self.host_mj is None else self.host_mj / float(self.count[-1])


@dataclass(frozen=True)
class Grid:
    """The best estimate of when a counter's ticks happened. Arrays have shape (ticks,).

    ``sd_s`` is the standard deviation of each time (s); ``sure`` is False where a tick's number is a guess,
    because reads failed around it; ``period_s`` is None below four ticks, ``jitter_s`` (the ticks' own scatter
    about the grid) also where they lie on none; ``period_sd_s`` is the standard deviation of the fitted period.
    """

    time_s: Array
    sd_s: Array
    sure: npt.NDArray[np.bool_]
    period_s: float | None = None
    jitter_s: float | None = None
    period_sd_s: float = 0.0

    def span_sd_s(self, first: int, last: int) -> float:
        """Return the standard deviation (s) of the time between two ticks, given by their positions."""
        seconds = self.time_s[last] - self.time_s[first]
        stretch = self.period_sd_s * seconds / self.period_s if self.period_s else 0.0
        return float(np.sqrt(self.sd_s[first] ** 2 + self.sd_s[last] ** 2 + stretch**2))


def fit_grid(ticks: Ticks) -> Grid:
    """Fit a regular grid through the ticks, and weigh it against what was seen of each of them.

    A tick is known only to lie inside of its bracket, from ``before_s`` to ``after_s``. The grid over many ticks
    is known much better, but real ticks may scatter about it. So the scatter is estimated from what the
    brackets leave unexplained, and each time is the mean of grid and observation weighted by their variances:
    the grid where ticks are regular, the observation where they are not, and always inside of the bracket.
    """
    observed, bracket = ticks.time_s, ticks.after_s - ticks.before_s
    spread = bracket / np.sqrt(12)  # the standard deviation of a uniform distribution
    periods = _rough_periods(observed)
    if not periods:
        return Grid(observed, spread, np.ones(len(ticks), dtype=bool))
    sure = bracket <= WIDE_BRACKET * float(np.median(bracket)) + 0.01 * periods[1]
    line = _fit_line(observed[sure], spread[sure], periods)
    if line is None:
        return Grid(observed, spread, sure, periods[1])
    index = np.round((observed - line.origin_s) / line.period_s)
    # the counter shows its last tick: where reads failed, that is the last one on the grid before the new value
    index[~sure] = np.floor((ticks.after_s[~sure] - line.origin_s) / line.period_s)
    regular = line.origin_s + line.period_s * index
    variance = line.jitter_s**2 + spread**2
    known = variance > 0  # an exact observation of an exact grid has none, and all its weight
    weight = np.divide(line.jitter_s**2, variance, out=np.ones_like(variance), where=known & (spread > 0)) * sure
    times = np.clip(regular + weight * (observed - regular), ticks.before_s, ticks.after_s)
    return Grid(times, np.sqrt(weight) * spread, sure, line.period_s, line.jitter_s, line.period_sd_s)


def _rough_periods(observed: Array) -> list[float]:
    """Return candidates for the period (s): none was missed, a few were, many were; empty if there is none."""
    if len(observed) < MINIMUM_GRID_TICKS:
        return []
    steps = np.diff(observed)
    shortest = float(np.quantile(steps, 0.25))
    if shortest <= 0:
        return []
    refined = np.median(steps / np.maximum(np.round(steps / shortest), 1))
    return [float(steps.mean()), float(np.median(steps)), float(refined)]


@dataclass(frozen=True)
class _Line:
    """A straight line through ticks over their numbers."""

    period_s: float
    origin_s: float
    jitter_s: float
    period_sd_s: float


def _fit_line(observed: Array, spread: Array, periods: list[float]) -> _Line | None:
    """Return the line of the first period that explains the ticks well, else tolerably; None if none does.

    Longer periods come first, and none whose grid is so dense that it passes through any bracket.
    """
    if len(observed) < MINIMUM_GRID_TICKS:
        return None
    shortest = float(np.median(spread)) / DENSE_GRID
    tolerable = None
    for period in periods:
        line = _line(observed, spread, period)
        if line.period_s <= shortest or line.jitter_s > GRID_JITTER * line.period_s:
            continue
        if line.jitter_s <= REGULAR_JITTER * line.period_s:
            return line
        tolerable = tolerable or line
    return tolerable


def _line(observed: Array, spread: Array, rough_period: float) -> _Line:
    """Fit a weighted straight line; in closed form, numpy's costs ten times as much."""
    times = observed - observed[0]
    index = np.concatenate([[0.0], np.cumsum(np.maximum(np.round(np.diff(times) / rough_period), 1))])
    weights = (spread + 0.01 * rough_period) ** -2
    share = weights / weights.sum()
    centre = float(share @ index)
    period = float(share @ ((index - centre) * times)) / float(share @ (index - centre) ** 2)
    origin = float(share @ times) - period * centre
    residual = times - origin - period * index
    lever = float(np.sum((index - index.mean()) ** 2))
    period_sd = float(np.sqrt(np.sum(residual**2) / (len(times) - 2) / lever))
    return _Line(period, origin + float(observed[0]), _jitter(residual, spread), period_sd)


def _jitter(residual: Array, spread: Array) -> float:
    """Return the ticks' own scatter (s): what their reads leave unexplained, 0 where that may be chance."""
    unexplained = residual**2 - spread**2
    mean, error = float(unexplained.mean()), float(unexplained.std() / np.sqrt(len(residual)))
    return float(np.sqrt(mean)) if mean > 2 * error else 0.0


def unwrap(ticks: Ticks, maximum_w: float = MAXIMUM_W) -> Ticks:
    """Continue a counter that wrapped at 2^32 or 2^64; a fall that no wrap explains stays marked as a reset.

    It was a wrap if the rise that it would mean is plausible: at most ``maximum_w`` (W) over the time between.
    """
    energy = ticks.energy_mj.astype(float)
    falls = np.flatnonzero(np.diff(energy) < 0) + 1
    reset = ticks.reset.copy()
    reset[falls] = True
    offset = np.zeros(len(ticks))
    for fall in falls:
        most = maximum_w * 1e3 * (ticks.after_s[fall] - ticks.before_s[fall - 1])
        size = next((size for size in WRAPS_MJ if 0 <= energy[fall] + size - energy[fall - 1] <= most), None)
        if size is not None:
            offset[fall:] += size
            reset[fall] = False
    return Ticks(ticks.before_s, ticks.after_s, energy + offset, reset)


def fault(ticks: Ticks, first: int, last: int, maximum_w: float = MAXIMUM_W) -> Reason | None:
    """Return why the rise of an unwrapped counter between two ticks (positions) is no energy, None if it is."""
    rises = np.diff(ticks.energy_mj)
    longest = ticks.after_s[1:] - ticks.before_s[:-1]
    jumps = rises > maximum_w * 1e3 * longest
    resets = ticks.reset[1:]
    bad = np.flatnonzero((jumps | resets)[first:last])
    if len(bad) == 0:
        return None
    index = first + bad[0]
    if resets[index] and index > 0 and jumps[index - 1]:
        index -= 1  # it fell back from a jump
    if resets[index]:
        return reason("counter-reset")
    seconds = ticks.time_s[index + 1] - ticks.time_s[index]
    return reason("counter-jumped", kj=rises[index] / 1e6, seconds=seconds)


def quantum_mj(ticks: Ticks, *, proven: bool = False) -> float | None:
    """Return the steps in which an unwrapped counter rises: the largest that explain every rise (whole mJ).

    ``proven`` asks for two rises that differ by one such step, as rounding makes them: a steady power also
    gives rises with a large common divisor. None where there is no rise, or no such two.
    """
    rises = np.round(np.diff(ticks.energy_mj))
    sizes = np.unique(rises[(rises > 0) & (rises < LARGEST_RISE_MJ)])
    if len(sizes) == 0:
        return None
    quantum = float(np.gcd.reduce(sizes.astype(np.int64)))
    return quantum if not proven or (np.diff(sizes) == quantum).any() else None


def mean_power(ticks: Ticks, begin_s: float, end_s: float) -> float | None:
    """Return the mean power (W) between the first and the last tick of an interval.

    None where fewer than two ticks lie in it, or where the counter was reset or jumped.
    """
    inside = unwrap(ticks.between(begin_s, end_s))
    last = len(inside) - 1
    if len(inside) < MINIMUM_TICKS or fault(inside, 0, last):
        return None
    times = fit_grid(inside).time_s
    return float((inside.energy_mj[-1] - inside.energy_mj[0]) / 1e3 / (times[-1] - times[0]))


def sensor_facts(ticks: Ticks) -> dict[str, Any]:
    """Describe a counter from its ticks: period, jitter beyond the reads' uncertainty, energy quantum, the reads'
    uncertainty (s, s, mJ, s); None where unknown.
    """
    grid = fit_grid(ticks)
    enough = len(ticks) >= MINIMUM_GRID_TICKS
    return {
        "tick_period_s": grid.period_s,
        "tick_jitter_s": grid.jitter_s,
        "energy_quantum_mj": quantum_mj(unwrap(ticks)) if enough else None,
        "tick_uncertainty_s": float(np.median(ticks.after_s - ticks.before_s) / 2) if enough else None,
    }

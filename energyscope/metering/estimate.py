"""From ticks and calls to joules per call, with an interval. Pure functions over arrays.

One window of replay, seen from the host's monotonic clock::

    calls     |-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-|
    ticks  T0      T1        T2        T3        T4        T5
                    |-dropped-|====== used =======|

T1 is the first tick after the load began. The interval up to T2 is the first full one under load: boards
show a transient in it, so it is dropped. The counter's rise from T2 to the last tick before the calls end is
divided by the calls completed between these same two ticks. Reading the counter at the window's own ends
instead would be off by up to a whole tick at either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MINIMUM_TICKS = 2  # an interval needs two ends


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

    @property
    def time_s(self) -> Array:
        return (self.before_s + self.after_s) / 2

    def __len__(self) -> int:
        return len(self.energy_mj)

    def between(self, begin_s: float, end_s: float) -> Ticks:
        """Return the ticks whose time lies in an interval."""
        keep = (self.time_s >= begin_s) & (self.time_s <= end_s)
        reset = self.reset[keep] if len(self.reset) else self.reset
        return Ticks(self.before_s[keep], self.after_s[keep], self.energy_mj[keep], reset)


@dataclass(frozen=True)
class Calls:
    """How many calls had completed by when: ``count[i]`` calls at ``time_s[i]`` (monotonic clock, seconds).

    The first point is the start of the load, with count 0.
    """

    time_s: Array
    count: Array

    def at(self, time_s: Array) -> Array:
        """Return the calls completed at given times, fractions of a call included."""
        return np.interp(time_s, self.time_s, self.count)

    @property
    def seconds(self) -> float:
        return float(self.time_s[-1] - self.time_s[0])


@dataclass(frozen=True)
class Window:
    """What one window of replay gave; per call. ``reason`` says why ``energy_mj`` is None."""

    energy_mj: float | None
    time_us: float | None
    power_w: float | None
    naive_mj: float | None
    ticks: int
    calls: int
    seconds: float
    reason: str | None = None


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


def tick_times(ticks: Ticks) -> tuple[Array, float | None]:
    """Fit a regular grid through the ticks and return the fitted times (s) and the period (s).

    A single tick is known only to within one read of the counter; the grid over many of them is known much
    better. Where the ticks do not lie on a grid, the observed times are returned as they are.
    """
    observed = ticks.time_s
    if len(ticks) < 4:
        return observed, None
    rough = float(np.median(np.diff(observed)))
    if rough <= 0:
        return observed, None
    index = _grid_index(observed, rough)
    period, origin = np.polyfit(index, observed, 1)
    fitted = origin + period * index
    # an observed time may be off by half of its bracket; the fit itself adds a little
    tolerance = np.maximum(0.75 * (ticks.after_s - ticks.before_s), 0.03 * period)
    if np.mean(np.abs(fitted - observed) <= tolerance) < 0.9:
        return observed, float(rough)
    return fitted, float(period)


def _grid_index(observed: Array, period: float) -> Array:
    """Return each tick's number on the grid: a missed tick leaves a gap."""
    steps = np.maximum(np.round(np.diff(observed) / period), 1)
    return np.concatenate([[0.0], np.cumsum(steps)])


def estimate_window(ticks: Ticks, calls: Calls) -> Window:
    """Estimate energy, time and power of one call from one window of replay.

    ``ticks`` should reach some seconds back before the window: they sharpen the grid.

    Returns:
        The window's figures per call: millijoules, microseconds, watts.

    """
    total = int(calls.count[-1])
    naive = _naive(ticks, calls)
    fitted, _ = tick_times(ticks)
    inside = np.flatnonzero((fitted > calls.time_s[0]) & (fitted <= calls.time_s[-1]))
    used = inside[1:]  # the first full tick under load ends at inside[1]
    if len(used) < MINIMUM_TICKS:
        reason = f"only {len(used)} usable ticks in {calls.seconds:.2f} s: needs a longer window"
        return Window(None, None, None, naive, len(used), total, calls.seconds, reason)
    first, last = used[0], used[-1]
    if len(ticks.reset) and ticks.reset[first + 1 : last + 1].any():
        return Window(None, None, None, None, len(used), total, calls.seconds, "the energy counter was reset")
    begin, end = calls.at(fitted[[first, last]])
    done = end - begin
    if done <= 0:
        return Window(None, None, None, naive, len(used), total, calls.seconds, "no call completed between ticks")
    joules = ticks.energy_mj[last] - ticks.energy_mj[first]
    seconds = fitted[last] - fitted[first]
    return Window(
        energy_mj=float(joules / done),
        time_us=float(seconds / done * 1e6),
        power_w=float(joules / 1e3 / seconds),
        naive_mj=naive,
        ticks=len(used),
        calls=total,
        seconds=calls.seconds,
    )


def _naive(ticks: Ticks, calls: Calls) -> float | None:
    """Return the counter's plain difference at the window's ends, per call: what simpler tools report."""
    seen = np.searchsorted(ticks.after_s, [calls.time_s[0], calls.time_s[-1]], side="right") - 1
    if seen[0] < 0 or calls.count[-1] <= 0:
        return None
    rise = ticks.energy_mj[seen[1]] - ticks.energy_mj[seen[0]]
    return float(rise / calls.count[-1]) if rise >= 0 else None


def mean_power(ticks: Ticks, begin_s: float, end_s: float) -> float | None:
    """Return the mean power (W) between the first and the last tick of an interval, None if fewer than two."""
    inside = ticks.between(begin_s, end_s)
    if len(inside) < MINIMUM_TICKS or (len(inside.reset) and inside.reset[1:].any()):
        return None
    times = inside.time_s
    return float((inside.energy_mj[-1] - inside.energy_mj[0]) / 1e3 / (times[-1] - times[0]))


def combine(values: Sequence[float | None]) -> Estimate:
    """Return the mean of independent windows with Student's 95 % interval (None: windows without a value)."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if len(known) == 0:
        return Estimate(None, None, None, 0)
    mean = float(known.mean())
    if len(known) == 1:
        return Estimate(mean, None, None, 1)
    half = student_t(len(known) - 1) * float(known.std(ddof=1)) / np.sqrt(len(known))
    return Estimate(mean, mean - float(half), mean + float(half), len(known))


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
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def spread(values: Sequence[float | None]) -> float | None:
    """Return the coefficient of variation between windows (one a pass), None for fewer than two."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if len(known) < 2 or known.mean() == 0:
        return None
    return float(known.std(ddof=1) / abs(known.mean()))


def grade(relative_half_width: float | None, windows: int, guard: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Grade a number: A (<= 1 %, five windows, guards clean), B (<= 3 %), C (<= 10 %), else invalid.

    Returns:
        The grade and the reasons that kept it from being better.

    """
    reasons = list(guard)
    if relative_half_width is None:
        return "invalid", [*reasons, f"{windows} usable windows: no interval"]
    if windows < 5:
        reasons.append(f"{windows} windows (A needs 5)")
    if relative_half_width > 0.01:
        reasons.append(f"95 % half-width {relative_half_width:.1%}")
    for name, limit in (("A", 0.01), ("B", 0.03), ("C", 0.10)):
        clean = not guard or name == "C"
        if relative_half_width <= limit and clean and (name != "A" or windows >= 5) and windows >= 3:
            return name, reasons
    return "invalid", reasons


def sensor_facts(ticks: Ticks) -> dict[str, Any]:
    """Describe a counter from its ticks: period, jitter, energy quantum, read uncertainty (s, s, mJ, s)."""
    if len(ticks) < 4:
        return {
            "tick_period_s": None,
            "tick_jitter_s": None,
            "energy_quantum_mj": None,
            "tick_uncertainty_s": None,
        }
    fitted, period = tick_times(ticks)
    rises = np.diff(ticks.energy_mj)
    quantum = float(np.gcd.reduce(np.round(rises[rises > 0]).astype(np.int64))) if (rises > 0).any() else None
    return {
        "tick_period_s": period,
        "tick_jitter_s": float(np.std(ticks.time_s - fitted)) if period else None,
        "energy_quantum_mj": quantum,
        "tick_uncertainty_s": float(np.median(ticks.after_s - ticks.before_s) / 2),
    }

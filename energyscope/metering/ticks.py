"""Ticks of an energy counter and the calls that ran beside them, on one clock. Pure data and functions."""

from __future__ import annotations

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


def mean_power(ticks: Ticks, begin_s: float, end_s: float) -> float | None:
    """Return the mean power (W) between the first and the last tick of an interval, None if fewer than two."""
    inside = ticks.between(begin_s, end_s)
    if len(inside) < MINIMUM_TICKS or (len(inside.reset) and inside.reset[1:].any()):
        return None
    times = inside.time_s
    return float((inside.energy_mj[-1] - inside.energy_mj[0]) / 1e3 / (times[-1] - times[0]))


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

"""From ticks and calls to joules per call, with an interval. Pure functions over arrays.

One window of replay, seen from the host's monotonic clock:

    calls     |-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-|
    ticks  T0      T1        T2        T3        T4        T5
                    |-dropped-|====== used =======|

T1 is the first tick after the load began. The interval up to T2 is the first full one under load: boards
show a transient in it, so it is dropped. The counter's rise from T2 to the last tick before the calls end is
divided by the calls completed between these same two ticks. Reading the counter at the window's own ends
instead would be off by up to a whole tick at either side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from energyscope.metering.activity import Activity
from energyscope.metering.ticks import (
    MAXIMUM_W,
    MINIMUM_TICKS,
    Calls,
    Grid,
    Ticks,
    fault,
    fit_grid,
    quantum_mj,
    unwrap,
)
from energyscope.reasons import Reason, reason

Positions = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Window:
    """What one window of replay gave; per call. ``reason`` says why ``energy_mj`` is None.

    ``naive_mj`` is the counter's plain difference at the window's own ends. ``timing_share`` is the relative
    standard deviation of the energy that the ticks alone make, by the uncertainty of their times and the steps
    of the counter; ``power_spread`` that of the power from tick to tick, and ``power_trend`` its relative change
    from the first to the last tick (None below three intervals). ``activity`` is what the device was busy with.
    """

    energy_mj: float | None
    time_us: float | None
    power_w: float | None
    naive_mj: float | None
    ticks: int
    calls: int
    seconds: float
    reason: str | None = None
    timing_share: float | None = None
    power_spread: float | None = None
    power_trend: float | None = None
    activity: Activity | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return a window as a journal holds it."""
        activity = record.get("activity")
        return cls(**{**record, "activity": Activity(**activity) if activity else None})


def estimate_window(ticks: Ticks, calls: Calls, *, settle_s: float = 0.0, maximum_w: float = MAXIMUM_W) -> Window:
    """Estimate energy, time and power of one call from one window of replay.

    ``ticks`` should reach some seconds back before the window: they sharpen the grid. Ticks earlier than
    ``settle_s`` after the load began still carry the power before it (lag and averaging of the sensor) and are
    not used; a rise of more than ``maximum_w`` (W) is a fault of the counter.

    Returns:
        The window's figures per call: millijoules, microseconds, watts. Where the counter wrapped, the wrap is
        undone; where it was reset or jumped, the energy is None, never negative or absurd.

    """
    ticks = unwrap(ticks, maximum_w)
    grid = fit_grid(ticks)
    used = _usable(grid, calls, settle_s)
    naive = _naive(ticks, calls, maximum_w)

    def unknown(why: Reason) -> Window:
        return Window(None, None, None, naive, len(used), int(calls.count[-1]), calls.seconds, why)

    if len(used) < MINIMUM_TICKS:
        settled_s = max(calls.seconds - settle_s, 0.0)
        return unknown(reason("few-ticks", ticks=len(used), seconds=settled_s))
    wrong = fault(ticks, used[0], used[-1], maximum_w)
    if wrong:
        return unknown(wrong)
    return _between_ticks(ticks, grid, used, calls, naive) or unknown(reason("no-call-between-ticks"))


def _usable(grid: Grid, calls: Calls, settle_s: float) -> Positions:
    """Return the positions of the ticks that may bound the energy."""
    begin, end = calls.time_s[0], calls.time_s[-1]
    under_load = np.flatnonzero((grid.time_s > begin) & (grid.time_s <= end))
    settled = under_load[1:]  # the first full tick under load ends at the second
    settled_ticks: Positions = settled[(grid.time_s[settled] >= begin + settle_s) & grid.sure[settled]]
    return settled_ticks


def _between_ticks(ticks: Ticks, grid: Grid, used: Positions, calls: Calls, naive: float | None) -> Window | None:
    """Divide the counter's rise between the outermost usable ticks by the calls between the same two."""
    first, last = int(used[0]), int(used[-1])
    begin, end = calls.at(grid.time_s[[first, last]])
    done = end - begin
    if done <= 0:
        return None
    joules = ticks.energy_mj[last] - ticks.energy_mj[first]
    seconds = grid.time_s[last] - grid.time_s[first]
    return Window(
        energy_mj=float(joules / done),
        time_us=float(seconds / done * 1e6),
        power_w=float(joules / 1e3 / seconds),
        naive_mj=naive,
        ticks=len(used),
        calls=int(calls.count[-1]),
        seconds=calls.seconds,
        timing_share=_timing_share(ticks, grid, first, last),
        power_spread=_power_spread(ticks, grid, used),
        power_trend=_power_trend(ticks, grid, used),
    )


def _timing_share(ticks: Ticks, grid: Grid, first: int, last: int) -> float | None:
    """Combine what the ticks' times and the counter's steps leave open, relative to the energy between two ticks.

    Rounding to steps of a quantum at both ends has a standard deviation of quantum / sqrt(6).
    """
    rise = float(ticks.energy_mj[last] - ticks.energy_mj[first])
    if rise <= 0:
        return None
    seconds = float(grid.time_s[last] - grid.time_s[first])
    steps = (quantum_mj(ticks, proven=True) or 0.0) / math.sqrt(6) / rise
    return math.hypot(grid.span_sd_s(first, last) / seconds, steps)


def _power_spread(ticks: Ticks, grid: Grid, used: Positions) -> float | None:
    if len(used) < 4:
        return None
    power = np.diff(ticks.energy_mj[used]) / np.diff(grid.time_s[used])
    return float(power.std(ddof=1) / power.mean()) if power.mean() > 0 else None


def _power_trend(ticks: Ticks, grid: Grid, used: Positions) -> float | None:
    """Return the change of power from the first used tick to the last, by least squares, relative to its mean."""
    if len(used) < 4:
        return None
    power = np.diff(ticks.energy_mj[used]) / np.diff(grid.time_s[used])
    centred = np.arange(len(power)) - (len(power) - 1) / 2
    slope = float(centred @ power / (centred @ centred))
    return slope * (len(power) - 1) / float(power.mean()) if power.mean() > 0 else None


def _naive(ticks: Ticks, calls: Calls, maximum_w: float = MAXIMUM_W) -> float | None:
    """Return the counter's plain difference at the window's ends, per call: what simpler tools report."""
    shown = np.searchsorted(ticks.after_s, [calls.time_s[0], calls.time_s[-1]], side="right") - 1
    if shown[0] < 0 or calls.count[-1] <= 0 or fault(ticks, shown[0], shown[1], maximum_w):
        return None
    return float((ticks.energy_mj[shown[1]] - ticks.energy_mj[shown[0]]) / calls.count[-1])

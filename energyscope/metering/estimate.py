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

from dataclasses import dataclass

import numpy as np

from energyscope.metering.ticks import MINIMUM_TICKS, Calls, Ticks, tick_times


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

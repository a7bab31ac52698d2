"""Intervals between ticks of an energy counter, and what was drawn in them. Pure functions over arrays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from energyscope.metering.ticks import Array, Ticks, fault, fit_grid, unwrap
from energyscope.reasons import reason


@dataclass(frozen=True)
class Intervals:
    """Times of ticks (s), shape (ticks,); joules between each two and whether to trust them, (ticks - 1,)."""

    times_s: Array
    energy_j: Array
    good: npt.NDArray[np.bool_]


def intervals(ticks: Ticks) -> Intervals:
    """Return the intervals between the ticks whose times are known.

    Ticks around which reads failed are left out: the counter's rise over them is that of the longer interval. An
    interval in which the counter was reset or jumped is not to be trusted.
    """
    ticks = unwrap(ticks)
    grid = fit_grid(ticks)
    at = np.flatnonzero(grid.sure)
    good = [fault(ticks, int(first), int(last)) is None for first, last in itertools.pairwise(at)]
    return Intervals(grid.time_s[at], np.diff(ticks.energy_mj[at]) / 1e3, np.array(good, dtype=bool))


def without(trace: Intervals, spans: Sequence[tuple[float, float]]) -> Intervals:
    """Return the same intervals, of which those that share time with a span (s) are not to be trusted."""
    good = trace.good.copy()
    for begin_s, end_s in spans:
        good &= (trace.times_s[1:] <= begin_s) | (trace.times_s[:-1] >= end_s)
    return replace(trace, good=good)


def as_lists(ticks: Ticks) -> list[list[float]]:
    """Return ticks as plain data: before (s), after (s), energy (mJ), reset (0 or 1) of each."""
    reset = ticks.reset if len(ticks.reset) else np.zeros(len(ticks))
    rows: list[list[float]] = np.stack([ticks.before_s, ticks.after_s, ticks.energy_mj, reset], axis=1).tolist()
    return rows


def from_lists(rows: Sequence[Sequence[float]]) -> Ticks:
    """Return the ticks of plain data, each once: pieces of a trace may share one."""
    table = np.array(rows, dtype=float).reshape(-1, 4)
    table = table[np.unique(table[:, 1], return_index=True)[1]]
    return Ticks(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(bool))


def spent_between(ticks: Ticks, begin_s: float, end_s: float) -> dict[str, Any]:
    """Return the energy (J) drawn between two times, of a load that lasts many ticks.

    Within the tick interval in which either time lies, power is taken as even. ``low`` counts the whole intervals
    only and ``high`` all that were touched: bounds, not an interval of chance.

    Returns:
        ``energy_j``, ``low``, ``high``; all None with a ``reason`` where the ticks do not reach over both times.

    """
    known = intervals(ticks)
    times = known.times_s
    if len(times) < 2 or times[0] > begin_s or times[-1] < end_s:
        return _unknown("phase-beyond-ticks")
    first, after = int(np.searchsorted(times, begin_s, side="right")), int(np.searchsorted(times, end_s))
    if not known.good[first - 1 : after].all():
        return _unknown("counter-disturbed")
    energy = np.concatenate([[0.0], np.cumsum(known.energy_j)])
    begun, ended = np.interp([begin_s, end_s], times, energy)
    last = int(np.searchsorted(times, end_s, side="right")) - 1
    first_inside = int(np.searchsorted(times, begin_s))
    return {
        "energy_j": float(ended - begun),
        "low": max(float(energy[last] - energy[first_inside]), 0.0),
        "high": float(energy[after] - energy[first - 1]),
        "reason": None,
    }


def _unknown(code: str) -> dict[str, Any]:
    return {"energy_j": None, "low": None, "high": None, "reason": reason(code)}

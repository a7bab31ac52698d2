"""Intervals between ticks of an energy counter, and the energy drawn in them. Pure functions over arrays."""

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
class TickIntervals:
    """Times of ticks (s), shape (ticks,); joules between each two and whether to trust them, (ticks - 1,)."""

    times_s: Array
    energy_j: Array
    good: npt.NDArray[np.bool_]

    def excluding(self, spans: Sequence[tuple[float, float]]) -> TickIntervals:
        """Return the same intervals; those that share time with a span (s) are not to be trusted."""
        good = self.good.copy()
        for begin_s, end_s in spans:
            good &= (self.times_s[1:] <= begin_s) | (self.times_s[:-1] >= end_s)
        return replace(self, good=good)

    def merged(self, least_s: float) -> TickIntervals:
        """Return longer intervals of at least some seconds each, from tick to tick."""
        kept = [0] if len(self.times_s) else []
        for place in range(1, len(self.times_s)):
            if self.times_s[place] - self.times_s[kept[-1]] >= least_s:
                kept.append(place)
        energy = np.concatenate([[0.0], np.cumsum(self.energy_j)])
        bad = np.concatenate([[0], np.cumsum(~self.good)])
        return TickIntervals(self.times_s[kept], np.diff(energy[kept]), np.diff(bad[kept]) == 0)


def tick_intervals(ticks: Ticks) -> TickIntervals:
    """Return the intervals between the ticks whose times are known.

    Ticks around which reads failed are left out: the counter's rise over them is that of the longer interval. An
    interval in which the counter was reset or jumped is not to be trusted.
    """
    ticks = unwrap(ticks)
    grid = fit_grid(ticks)
    known = np.flatnonzero(grid.sure)
    good = [fault(ticks, int(first), int(last)) is None for first, last in itertools.pairwise(known)]
    return TickIntervals(grid.time_s[known], np.diff(ticks.energy_mj[known]) / 1e3, np.array(good, dtype=bool))


def ticks_to_rows(ticks: Ticks) -> list[list[float]]:
    """Return ticks as plain data: before (s), after (s), energy (mJ), reset (0 or 1) of each."""
    reset = ticks.reset if len(ticks.reset) else np.zeros(len(ticks))
    rows: list[list[float]] = np.stack([ticks.before_s, ticks.after_s, ticks.energy_mj, reset], axis=1).tolist()
    return rows


def ticks_from_rows(rows: Sequence[Sequence[float]]) -> Ticks:
    """Return the ticks of plain data, each once: two parts of a trace may share one."""
    table = np.array(rows, dtype=float).reshape(-1, 4)
    table = table[np.unique(table[:, 1], return_index=True)[1]]
    return Ticks(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(bool))


def energy_between(ticks: Ticks, begin_s: float, end_s: float) -> dict[str, Any]:
    """Return the energy (J) drawn between two times, of a load that lasts many ticks.

    Within the tick interval in which either time lies, power is taken as even. ``low`` counts only the intervals
    that lie within, ``high`` all that overlap: they are bounds, not a confidence interval.

    Returns:
        ``energy_j``, ``low``, ``high``; all None with a ``reason`` where the ticks do not reach over both times.

    """
    known = tick_intervals(ticks)
    times = known.times_s
    unknown = {"energy_j": None, "low": None, "high": None}
    if len(times) < 2 or times[0] > begin_s or times[-1] < end_s:
        return {**unknown, "reason": reason("phase-beyond-ticks")}
    first_inside, after = (int(place) for place in np.searchsorted(times, [begin_s, end_s]))
    before, last_inside = (int(place) - 1 for place in np.searchsorted(times, [begin_s, end_s], side="right"))
    if not known.good[before:after].all():
        return {**unknown, "reason": reason("counter-disturbed")}
    energy = np.concatenate([[0.0], np.cumsum(known.energy_j)])
    begin_j, end_j = np.interp([begin_s, end_s], times, energy)
    return {
        "energy_j": float(end_j - begin_j),
        "low": max(float(energy[last_inside] - energy[first_inside]), 0.0),
        "high": float(energy[after] - energy[before]),
        "reason": None,
    }

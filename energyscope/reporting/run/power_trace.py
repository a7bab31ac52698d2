"""Power over time of traced generations, from a counter's readings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from energyscope.intervals import finite
from energyscope.reporting.run.report import DECODE, PREFILL
from energyscope.reporting.table import Column, Table

_MARGIN_S = 0.3  # shown before the first generation and after the last
_MOST_POINTS = 700
_COLUMNS = [
    Column("begin", "From", "s"),
    Column("end", "To", "s"),
    Column("power", "Power", "W"),
    Column("phase", "Phase"),
]
Generation = tuple[float, float, float]  # its begin, the end of its prefill, and its end, s


def power_over_time(trace: Any, document: Mapping[str, Any]) -> Table:
    """Return mean power (W) between readings of the counter, around the marked generations, by phase."""
    generations = list(marked_generations(document))
    if trace is None or trace.empty or not generations:
        return Table(_COLUMNS, [])
    low = min(begin for begin, _, _ in generations) - _MARGIN_S
    high = max(end for _, _, end in generations) + _MARGIN_S
    readings = counter_readings(trace[trace["device"] == str(trace["device"].iloc[0])])
    points = [(begin, end, watts) for begin, end, watts in readings if end > low and begin < high]
    step = -(-len(points) // _MOST_POINTS) or 1
    rows = []
    for first in range(0, len(points), step):
        group = points[first : first + step]
        begin, end = group[0][0], group[-1][1]
        seconds = sum(end - begin for begin, end, _ in group)
        energy = sum(watts * (end - begin) for begin, end, watts in group)
        phase = _phase_at((begin + end) / 2, generations)
        rows.append(
            {"begin": begin - low, "end": end - low, "phase": phase, "kind": phase, "power": energy / seconds}
        )
    return Table(_COLUMNS, rows, "Power over time")


def marked_generations(document: Mapping[str, Any]) -> Iterator[Generation]:
    """Yield when each traced generation began, its prefill ended, and it ended."""
    for mark in document.get("marks") or []:
        begin, split, end = (finite(mark.get(key)) for key in ("begin_s", "prefill_end_s", "end_s"))
        if begin is not None and split is not None and end is not None:
            yield begin, split, end


def _phase_at(time: float, generations: list[Generation]) -> str:
    for begin, split, end in generations:
        if begin <= time <= end:
            return PREFILL if time < split else DECODE
    return "between"


def counter_readings(rows: Any) -> Iterator[tuple[float, float, float]]:
    """Yield (begin, end, mean power) between readings that differ, of the counter where there is one."""
    before: tuple[float, float | None] | None = None
    for record in rows.sort_values("time_s").to_dict("records"):
        time, energy, power = (finite(record[key]) for key in ("time_s", "energy_mj", "power_w"))
        if time is None:
            continue
        if before is None:
            before = (time, energy)
            continue
        since, counter = before
        if time <= since or (counter is not None and energy == counter):
            continue
        if counter is not None and energy is not None and energy > counter:
            power = (energy - counter) / 1e3 / (time - since)
        if power is not None:
            yield since, time, power
        before = (time, energy)

"""The power while generations were traced, with their phases as spans of time and the moments of their tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.reporting.data.given import entries
from energyscope.runs.intervals import finite

if TYPE_CHECKING:
    import pandas as pd

PREFILL, DECODE = "prefill", "decode"
MARGIN_S = 0.5  # of the trace that is shown before the first generation and after the last
MOST_POINTS = 1500  # of each device, beyond which neighbours are joined
CLOSE_S, MOST_CLOSE, CLOSE_TOKENS = 3.0, 3, 200  # what the part that is shown larger holds at most


@dataclass(frozen=True)
class PowerPoint:
    """The mean power (W) of a device between two readings of its counter, at these times (s)."""

    device: str
    begin_s: float
    end_s: float
    power_w: float


@dataclass(frozen=True)
class Band:
    """One phase of one generation, in the trace's time (s)."""

    phase: str
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class PowerTrace:
    """What is drawn; times begin at the first point. ``tokens_s`` are the moments at which tokens were there."""

    points: list[PowerPoint]
    bands: list[Band]
    tokens_s: list[float]

    @property
    def begin_s(self) -> float:
        """Where it begins."""
        return min(point.begin_s for point in self.points)

    @property
    def end_s(self) -> float:
        """Where it ends."""
        return max(point.end_s for point in self.points)

    @property
    def devices(self) -> list[str]:
        """The devices, in the order of the table."""
        return list(dict.fromkeys(point.device for point in self.points))

    @property
    def generations(self) -> int:
        """How many generations it shows."""
        return sum(band.phase == PREFILL for band in self.bands)


def power_trace(table: pd.DataFrame | None, document: Mapping[str, Any]) -> PowerTrace | None:
    """Return the trace around the marked generations; None where there is none, or none that meets the marks."""
    marks = [found for entry in entries(document, "marks") if (found := _mark(entry)) is not None]
    if table is None or table.empty or not marks:
        return None
    begin = min(mark[0] for mark in marks) - MARGIN_S
    end = max(mark[2] for mark in marks) + MARGIN_S
    points = [point for point in _points(table) if point.end_s > begin and point.begin_s < end]
    if not points:
        return None
    origin = min(point.begin_s for point in points)
    bands = [
        Band(phase, start - origin, stop - origin)
        for first, middle, last, _ in marks
        for phase, start, stop in ((PREFILL, first, middle), (DECODE, middle, last))
    ]
    moved = [PowerPoint(one.device, one.begin_s - origin, one.end_s - origin, one.power_w) for one in points]
    tokens = sorted(time - origin for *_, times in marks for time in times)
    return PowerTrace(_thinned(moved), bands, tokens)


def close_up(trace: PowerTrace) -> PowerTrace | None:
    """Return one to three whole generations from the middle of a trace; None where there are hardly more."""
    starts = [band.begin_s for band in trace.bands if band.phase == PREFILL]
    ends = [band.end_s for band in trace.bands if band.phase == DECODE]
    if len(starts) < MOST_CLOSE + 1:
        return None
    first = last = (len(starts) - 1) // 2
    while last + 1 < min(first + MOST_CLOSE, len(ends)) and _fits(trace, starts[first], ends[last + 1]):
        last += 1
    edge = 0.1 * (ends[last] - starts[first])
    low, high = starts[first] - edge, ends[last] + edge
    points = [
        PowerPoint(point.device, max(point.begin_s, low), min(point.end_s, high), point.power_w)
        for point in trace.points
        if point.end_s > low and point.begin_s < high
    ]
    bands = [band for band in trace.bands if starts[first] <= band.begin_s and band.end_s <= ends[last]]
    tokens = [time for time in trace.tokens_s if starts[first] <= time <= ends[last]]
    return PowerTrace(points, bands, tokens) if points else None


def _fits(trace: PowerTrace, begin_s: float, end_s: float) -> bool:
    tokens = sum(begin_s <= time <= end_s for time in trace.tokens_s)
    return end_s - begin_s <= CLOSE_S and tokens <= CLOSE_TOKENS


def _mark(entry: Mapping[str, Any]) -> tuple[float, float, float, list[float]] | None:
    times = [finite(entry.get(key)) for key in ("begin_s", "prefill_end_s", "end_s")]
    begin, middle, end = times
    if begin is None or middle is None or end is None:
        return None
    tokens = [time for value in entry.get("tokens_s") or [] if (time := finite(value)) is not None]
    return begin, middle, end, tokens


def _points(table: pd.DataFrame) -> list[PowerPoint]:
    """Return each device's mean power between readings that differ, of its counter where it has one."""
    found = []
    for device, rows in table.groupby("device", sort=False):
        records = [
            (time, finite(row["energy_mj"]), finite(row["power_w"]))
            for row in rows.sort_values("time_s").to_dict("records")
            if (time := finite(row["time_s"])) is not None
        ]
        found += _of_device(str(device), records)
    return found


def _of_device(device: str, records: Sequence[tuple[float, float | None, float | None]]) -> list[PowerPoint]:
    found: list[PowerPoint] = []
    if not records:
        return found
    before, counter, _ = records[0]
    for time, energy, power in records[1:]:
        if time <= before or (counter is not None and energy == counter):
            continue
        rises = counter is not None and energy is not None and energy > counter
        watts = (energy - counter) / 1e3 / (time - before) if rises else power  # type: ignore[operator]
        if watts is not None:
            found.append(PowerPoint(device, before, time, watts))
        before, counter = time, energy
    return found


def _thinned(points: list[PowerPoint]) -> list[PowerPoint]:
    """Join neighbours of a device until it has few enough points to be drawn; their energy stays what it was."""
    found = []
    for device in dict.fromkeys(point.device for point in points):
        own = [point for point in points if point.device == device]
        step = math.ceil(len(own) / MOST_POINTS)
        found += [_joined(own[index : index + step]) for index in range(0, len(own), step)]
    return found


def _joined(points: Sequence[PowerPoint]) -> PowerPoint:
    seconds = sum(point.end_s - point.begin_s for point in points)
    joules = sum(point.power_w * (point.end_s - point.begin_s) for point in points)
    return PowerPoint(points[0].device, points[0].begin_s, points[-1].end_s, joules / seconds)

"""Power over time as Chrome trace events, which https://ui.perfetto.dev opens.

    process "board"     counter tracks: power (mean between two ticks of the counter), clock, temperature
    process "run"       threads of slices: phases (as the ticks saw them), generations, windows

Times are microseconds after the first thing shown. Slices of one thread never overlap in part: the format knows
no such ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from energyscope.exporting import nothing
from energyscope.intervals import finite
from energyscope.reporting.run.power_trace import counter_readings, marked_generations
from energyscope.reporting.run.report import DECODE, PREFILL
from energyscope.reporting.terminal_text import printable

if TYPE_CHECKING:
    import pandas as pd

    from energyscope.runs.store import Run

RUN = 1  # the process of slices; boards follow
NS_PER_US = 1e3
SAMPLED = {"sm_clock_mhz": ("SM clock", "MHz"), "temperature_c": ("temperature", "C")}

Event = dict[str, Any]
Slice = tuple[float, float, str, Mapping[str, Any]]  # begin and end (s), name, arguments


def content(run: Run) -> tuple[str, list[str]]:
    """Return the trace; there is nothing to say about it.

    Raises:
        RunError: the run has no samples over time.

    """
    if run.trace is None or run.trace.empty:
        why = " (modelled joules are time x watts)" if run.modelled else ""
        raise nothing(run, f"samples over time{why}")
    mark = " MODELLED" if run.modelled else ""
    boards = list(run.trace.groupby("device", sort=False))
    events = [_named(RUN, "process_name", f"{run.name}{mark}")]
    for pid, (device, rows) in enumerate(boards, RUN + 1):
        name = (run.document.get("device") or {}).get("name") or "board"
        events += [_named(pid, "process_name", f"{name} {device}{mark}"), *_counters(pid, rows)]
    tid = 0
    for name, slices in _threads(run).items():
        for lane in _lanes(slices):
            tid += 1
            events += [_named(RUN, "thread_name", name, tid), *(_slice(tid, *part) for part in lane)]
    first = min((event["ts"] for event in events if "ts" in event), default=0)
    for event in events:
        for key, origin in (("ts", first), ("dur", 0)):
            if key in event:
                event[key] = (event[key] - origin) / NS_PER_US
    other = {"run": run.name, "energyscope": run.document.get("energyscope"), "modelled": mark.strip() or "no"}
    document = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": _printable(other)}
    return json.dumps(document, allow_nan=False), []


def _counters(pid: int, rows: pd.DataFrame) -> Iterator[Event]:
    for begin, _, watts in counter_readings(rows):
        yield _counter(pid, begin, "power", "W", watts)
    for record in rows.to_dict("records"):
        time = finite(record["time_s"])
        for column, (name, unit) in SAMPLED.items():
            value = finite(record[column])
            if time is not None and value is not None:
                yield _counter(pid, time, name, unit, value)


def _threads(run: Run) -> dict[str, list[Slice]]:
    """Return the slices of each thread by its name, in the order of time."""
    generated: list[Slice] = []
    for number, (begin, split, end) in enumerate(marked_generations(run.generation or {}), 1):
        parts = ((begin, end, f"generation {number}"), (begin, split, PREFILL), (split, end, DECODE))
        generated += [(*part, {}) for part in parts]
    windows: list[Slice] = []
    for name, window in run.windows().to_dict("index").items():
        known = {key: finite(window[key]) for key in ("calls", "energy_mj", "time_us")}
        values = {key: value for key, value in known.items() if value is not None}
        if not str(name).startswith("generation#"):
            windows.append((window["begin_s"], window["end_s"], str(name), values))
    threads = {"phases": list(_phases(run.trace)), "generations": generated, "windows": windows}
    return {name: [part for part in parts if _is_timed(part)] for name, parts in threads.items()}


def _phases(trace: Any) -> Iterator[Slice]:
    """Yield from the first to the last tick that saw a phase, where these are two."""
    for phase, rows in groupby(trace.sort_values("time_s").to_dict("records"), key=lambda row: row["phase"]):
        times = [row["time_s"] for row in rows]
        if isinstance(phase, str):
            yield times[0], times[-1], phase, {}


def _is_timed(part: Slice) -> bool:
    begin, end = finite(part[0]), finite(part[1])
    return begin is not None and end is not None and end > begin


def _lanes(slices: Iterable[Slice]) -> list[list[Slice]]:
    """Spread slices over as few threads as let those of one lie beside or within each other."""
    lanes: list[list[Slice]] = []
    open_ends: list[list[float]] = []  # of each lane: the ends of the slices that the next one may lie in
    for part in sorted(slices, key=lambda part: (part[0], -part[1])):
        for ends in open_ends:
            while ends and ends[-1] <= part[0]:
                ends.pop()
        fitting = (place for place, ends in enumerate(open_ends) if not ends or part[1] <= ends[-1])
        place = next(fitting, len(lanes))
        if place == len(lanes):
            lanes.append([])
            open_ends.append([])
        lanes[place].append(part)
        open_ends[place].append(part[1])
    return lanes


def _slice(tid: int, begin: float, end: float, name: str, arguments: Mapping[str, Any]) -> Event:
    return {
        "ph": "X", "pid": RUN, "tid": tid, "ts": _ns(begin), "dur": _ns(end) - _ns(begin),
        "name": printable(name), "cat": "energyscope", "args": dict(arguments),
    }  # fmt: skip


def _counter(pid: int, time: float, name: str, unit: str, value: float) -> Event:
    return {"ph": "C", "pid": pid, "ts": _ns(time), "name": name, "args": {unit: value}}


def _ns(time_s: float) -> int:
    return round(time_s * 1e9)


def _named(pid: int, what: str, name: str, tid: int = 0) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": printable(name)}}


def _printable(texts: Mapping[str, Any]) -> dict[str, str]:
    return {name: printable(text) for name, text in texts.items()}

"""What the stages of one run share, and the power trace: the boards' state at every tick, and the phase then."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from energyscope.generation.document import generated
from energyscope.generation.loop import step_spans
from energyscope.generation.timeline import GenerationTimes
from energyscope.loading import LoadedModel
from energyscope.metering.group import MeterGroup
from energyscope.progress import Progress
from energyscope.reasons import Reason
from energyscope.runs import schema
from energyscope.runs.files import read_table
from energyscope.runs.store import RunStore, read_journal
from energyscope.runs.windows import windows_of
from energyscope.settings.run import RunSettings
from energyscope.stages import facts
from energyscope.workloads import Evaluation, Workload

STEP = "step"  # of the model by itself, between generations
Entries = Sequence[Mapping[str, Any]]  # of a run's journal

NamedSpan = tuple[float, float, str]  # when a window began and ended (s), and its name

DECIMALS = 6  # of times in the trace (s)
TRACED = ("device", "energy_mj", "power_w", "sm_clock_mhz", "temperature_c")


@dataclass
class Context:
    """What the stages of one run share."""

    settings: RunSettings
    loaded: LoadedModel
    evaluation: Evaluation | None
    no_evaluation: Reason | None
    workload: Workload
    meters: dict[str, MeterGroup]  # of each stage that measures: a meter's records begin with its stage
    store: RunStore
    progress: Progress
    marks: list[tuple[float, str]] = field(default_factory=list)  # when (s) what phase began to be profiled
    sensor: Mapping[str, Any] | None = None  # what an earlier run on the same meters found out; None measures it
    earlier_trace: Sequence[Mapping[str, Any]] = ()  # rows from before the run was resumed


@contextmanager
def metered(context: Context, stage: str) -> Iterator[MeterGroup]:
    """Start a stage's meters; whatever happens, what they are and what they saw is kept."""
    store = context.store
    before: Mapping[str, Any] = store.document.get("sensor") or {}

    def keep(sensor: Mapping[str, Any]) -> None:
        store.update(sensor={**sensor, **facts.host_so_far(before, meter.host.describe(), stage)})

    with context.meters[stage] as meter:
        keep(meter.describe())
        try:
            if not meter.modelled:
                context.progress("sensor", "idle", 0, 1)
                keep(context.sensor or facts.idle_sensor(meter))
            yield meter
        finally:
            keep(facts.known_of_sensor(store.document["sensor"], meter.describe()))
            _write_trace(context)


def _write_trace(context: Context) -> None:
    """Keep the boards' state at every tick of the stages so far; the modelled meter has none."""
    seen = [(stage, state) for stage, meter in context.meters.items() for state in meter.states(0.0, math.inf)]
    if seen:
        before = context.earlier_trace
        origin: float = context.store.document["trace_origin_s"] if before else seen[0][1]["after_s"]
        entries = read_journal(context.store.path)
        generations, steps, windows = generated(entries), step_spans(entries), spans_of(entries)
        rows = [{**row, "window": _window_at(float(row["time_s"]) + origin, windows)} for row in before]
        rows += [
            trace_row(stage, state, origin, context.marks, generations, steps, windows) for stage, state in seen
        ]
        context.store.update(trace_origin_s=origin)
        context.store.write_rows(schema.TRACE_FILE, rows, schema.TRACE_COLUMNS)


def earlier_trace(path: Path) -> list[dict[str, Any]]:
    """Return the rows of the trace that a run has so far.

    Raises:
        RunError: it cannot be read.

    """
    file = path / schema.TRACE_FILE
    if read_table(file, schema.STABLE_TRACE_COLUMNS, schema.TraceRow) is None:
        return []
    with file.open(encoding="utf-8", newline="") as rows:
        return [{name: value or None for name, value in row.items()} for row in csv.DictReader(rows)]


def spans_of(entries: Entries) -> list[NamedSpan]:
    """Return when the windows of a journal began and ended (s), and their names, in the order of time."""
    return sorted((window["begin_s"], window["end_s"], name) for name, window in windows_of(entries).items())


def trace_row(
    stage: str,
    state: Mapping[str, Any],
    origin_s: float,
    marks: Sequence[tuple[float, str]],
    generations: Sequence[GenerationTimes],
    steps: Sequence[tuple[float, float]] = (),
    windows: Sequence[NamedSpan] = (),
) -> dict[str, Any]:
    """Return the trace's row of a meter's state at a tick.

    Args:
        stage: the stage whose meter saw it; the phase of those that are no phase of an inference.
        state: one of `MeterGroup.states`.
        origin_s: the trace's time 0, on the clock of the meter.
        marks: when (s) the profile began which phase.
        generations: the traced generations.
        steps: when (s) the step in their middle was replayed by itself.
        windows: all windows, as `spans_of` returns them.

    """
    now = state["after_s"]
    phase, token = _in_generation(now, generations) if stage == "generate" else (_begun(now, marks), None)
    if stage == "generate" and phase is None and any(begin_s <= now <= end_s for begin_s, end_s in steps):
        phase = STEP
    named = phase if stage in {"generate", "profile"} and phase else stage
    return {
        "time_s": round(now - origin_s, DECIMALS),
        "before_s": round(state["before_s"] - origin_s, DECIMALS),
        "phase": named,
        "token": token,
        "window": _window_at(now, windows),
        **{key: state[key] for key in TRACED},
    }


def _window_at(now: float, windows: Sequence[NamedSpan]) -> str | None:
    place = bisect_right(windows, now, key=lambda window: window[0]) - 1
    return windows[place][2] if place >= 0 and now <= windows[place][1] else None


def _begun(now: float, marks: Sequence[tuple[float, str]]) -> str | None:
    begun = [phase for begin_s, phase in marks if begin_s <= now]
    return begun[-1] if begun else None


def _in_generation(now: float, generations: Sequence[GenerationTimes]) -> tuple[str | None, int | None]:
    """Return the phase of a generation at a time, and the index of the token that was in the making."""
    place = bisect_right(generations, now, key=lambda mark: mark.begin_s) - 1
    if place < 0 or now > generations[place].end_s:
        return None, None
    done = bisect_right(generations[place].tokens_s, now)
    return ("prefill" if done == 0 else "decode"), done + 1

"""What the stages of one run share: settings, model, data, meters and the run directory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from energyscope.generating.repeated import aside
from energyscope.loading import LoadedModel
from energyscope.metering.group import MeterGroup
from energyscope.progress import Progress
from energyscope.reasons import Reason
from energyscope.runs import schema
from energyscope.runs.store import RunStore, read_journal
from energyscope.settings.run import RunSettings
from energyscope.stages import facts
from energyscope.stages.tracing import generated, trace_row
from energyscope.workloads import Evaluation, Workload


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


@contextmanager
def metered(context: Context, stage: str) -> Iterator[MeterGroup]:
    """Start a stage's meters; whatever happens, what they are and what they saw is kept."""
    store = context.store
    with context.meters[stage] as meter:
        store.update(sensor=meter.describe())
        try:
            if not meter.modelled:
                context.progress("sensor", "idle", 0, 1)
                store.update(sensor=context.sensor or facts.idle_sensor(meter))
            yield meter
        finally:
            store.update(sensor=facts.known_of_sensor(store.document["sensor"], meter.describe()))
            _write_trace(context)


def _write_trace(context: Context) -> None:
    """Keep the boards' state at every tick of the stages so far; the modelled meter has none."""
    seen = [(stage, state) for stage, meter in context.meters.items() for state in meter.states(0.0, math.inf)]
    if seen:
        origin = seen[0][1]["after_s"]
        entries = read_journal(context.store.path)
        generations, steps = generated(entries), aside(entries)
        rows = [trace_row(stage, state, origin, context.marks, generations, steps) for stage, state in seen]
        context.store.update(trace_origin_s=origin)
        context.store.write_rows(schema.TRACE_FILE, rows, schema.TRACE_COLUMNS)

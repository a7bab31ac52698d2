"""What each stage of a run does: a function a stage, which keeps what it finished and says why it was skipped."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from energyscope.benchmarking.memory import release
from energyscope.components import component_tree
from energyscope.errors import ModelError
from energyscope.generating.step import aside
from energyscope.impact.examples import pack
from energyscope.impact.metrics import Outcomes
from energyscope.impact.plan import beside_singles
from energyscope.loading import LoadedModel
from energyscope.metering.group import MeterGroup
from energyscope.progress import Progress
from energyscope.reasons import Reason, reason, words
from energyscope.runs import schema
from energyscope.runs.store import RunStore, read_journal
from energyscope.stages import facts
from energyscope.stages.ablate import ablate
from energyscope.stages.alternatives import AlternativesSettings, alternatives
from energyscope.stages.benchmark import Source, benchmark, with_shapes
from energyscope.stages.generate import GenerateSettings, generate
from energyscope.stages.profile import PREFILL, ProfileSettings, profile
from energyscope.stages.salvage import (
    write_alternatives,
    write_benchmark,
    write_correlation,
    write_generation,
    write_impact,
    write_profile,
)
from energyscope.stages.scenes import Scene, middle_step, profile_settings, resolve_phase, scenes, workload_of
from energyscope.stages.settings import RunSettings
from energyscope.stages.tracing import generated, trace_row
from energyscope.stages.triggered import triggered
from energyscope.workloads import Evaluation, Workload
from energyscope.workloads.decoding import can_generate, too_long

GENERATIONS_S, MODELLED_GENERATIONS_S = 12.0, 4.0  # a regression on ticks needs many; time x watts does not
DRAWING = ("altair", "vl_convert", "jinja2")  # a machine that measures need not be able to draw


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


def _benchmark(context: Context) -> Reason | None:
    settings, workload = context.settings, context.workload
    if len(context.loaded.devices) > 1:
        return reason("offloaded-model" if context.loaded.offloaded else "spread-model")
    with _metered(context, "benchmark") as meter:
        benchmark(
            context.loaded,
            context.evaluation,
            meter,
            with_shapes(settings.benchmark, workload.batch_size, workload.sequence_length, settings.executions[0]),
            Source.of(settings),
            journal=context.store.journal,
            progress=context.progress,
        )
    entries = read_journal(context.store.path)
    if not write_benchmark(context.store, entries):
        notes = [words(entry["note"]) for entry in entries if "note" in entry]
        raise ModelError(f"no trial of the benchmark could be measured ({'; '.join(notes[:2])})")
    return None


def _no_generation(context: Context) -> Reason | None:
    """Return why a run explains no generation; None where it does."""
    if not can_generate(context.loaded):
        return reason("generates-no-text")
    if resolve_phase(context.settings, context.loaded.adapter) == PREFILL:
        return reason("one-pass")
    return reason("offloaded-model") if context.loaded.offloaded else None


def _generate(context: Context) -> Reason | None:
    settings, loaded = context.settings, context.loaded
    prompt = context.workload.sequence_length
    if why_not := _no_generation(context) or too_long(loaded, prompt, settings.new_tokens):
        return why_not
    with _metered(context, "generate") as meter:
        generate(
            loaded,
            context.workload,
            meter,
            GenerateSettings(
                settings.new_tokens,
                settings.kv_cache,
                seconds=MODELLED_GENERATIONS_S if meter.modelled else GENERATIONS_S,
                seed=settings.seed,
            ),
            middle_step=lambda: middle_step(settings, loaded, prompt, context.evaluation),
            journal=context.store.journal,
            progress=context.progress,
        )
    write_generation(context.store, read_journal(context.store.path))
    release(loaded.device)
    return None


def _profile(context: Context) -> None:
    with _metered(context, "profile") as meter:
        planned = scenes(context.settings, context.loaded)
        for scene in planned:
            context.marks.append((time.monotonic(), scene.phase))
            _profile_scene(
                context,
                scene,
                profile_settings(context.settings, planned, scene, warm=context.sensor is not None),
                meter,
            )
            write_profile(context.store, read_journal(context.store.path))
            release(context.loaded.device)


def _alternatives(context: Context) -> Reason | None:
    settings, loaded = context.settings, context.loaded
    if why_not := _no_generation(context):
        return why_not
    chosen = AlternativesSettings(
        context_lengths=settings.context_lengths,
        passes=settings.passes,
        seed=settings.seed,
        window_s=settings.window_s,
        new_tokens=settings.new_tokens,
    )
    with _metered(context, "alternatives") as meter:
        alternatives(
            loaded,
            context.workload,
            meter,
            chosen,
            execution=settings.executions[0],
            kv_cache=settings.kv_cache,
            batch_size=settings.batch_size,
            context_length=next(iter(settings.context_lengths), None),
            evaluation=context.evaluation,
            journal=context.store.journal,
            progress=context.progress,
        )
    write_alternatives(context.store, read_journal(context.store.path))
    release(loaded.device)
    return None


def _profile_scene(context: Context, scene: Scene, chosen: ProfileSettings, meter: MeterGroup) -> None:
    settings, loaded = context.settings, context.loaded
    workload = workload_of(scene, loaded, context.workload, settings, context.evaluation)
    keep, told = context.store.journal, context.progress
    if settings.sampling == "triggered":
        triggered(loaded, workload, meter, chosen, journal=keep, progress=told)
    else:
        profile(loaded, workload, meter, chosen, journal=keep, progress=told, scene=scene.name)


@contextmanager
def _metered(context: Context, stage: str) -> Iterator[MeterGroup]:
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


def _ablate(context: Context) -> Reason | None:
    if context.evaluation is None:
        return context.no_evaluation
    settings, store = context.settings, context.store
    model, adapter = context.loaded.model, context.loaded.adapter
    tree = component_tree(model, adapter, settings.granularity)
    more = beside_singles(model, tree, adapter, settings.methods, joint=settings.joint, per_head=settings.heads)
    try:
        result = ablate(
            model,
            tree,
            context.evaluation,
            methods=settings.methods,
            more=more,
            adaptive=settings.adaptive,
            seed=settings.seed,
            predictors=settings.predict,
            on_finished=lambda rows, outcomes: store.journal(_finished(rows, outcomes)),
            progress=lambda label, done, total: context.progress("ablate", label, done, total),
        )
    except ModelError as error:  # the model was not the same all along: no row of it can be used
        store.journal({"stage": "ablate", "void": reason("failed", error=error)})
        raise
    store.document["workload"]["evaluation"]["baseline"] = result.baseline
    store.document["warnings"] += result.notes
    write_impact(store, read_journal(store.path))
    return None


def _finished(rows: list[schema.ImpactRow], outcomes: Outcomes | None) -> dict[str, Any]:
    """Return the journal's line of a change that is finished."""
    return {"stage": "ablate", "rows": rows, "examples": None if outcomes is None else pack(outcomes)}


def _correlate(context: Context) -> Reason | None:
    context.progress("correlate", "energy against impact", 0, 1)
    return write_correlation(context.store, seed=context.settings.seed)


def _report(context: Context) -> Reason | None:
    missing = [name for name in DRAWING if importlib.util.find_spec(name) is None]
    if missing:
        return reason("cannot-draw", packages=missing)
    from energyscope.reporting.run.page import write_report

    context.progress("report", schema.REPORT_FILE, 0, 1)
    context.store.stage("report", "done")  # the page says so of itself
    write_report(context.store.path)
    return None


STEPS: dict[str, Callable[[Context], Reason | None]] = {
    "benchmark": _benchmark,
    "generate": _generate,
    "profile": _profile,
    "alternatives": _alternatives,
    "ablate": _ablate,
    "correlate": _correlate,
    "report": _report,
}

"""The stages of a run: a function each, which keeps what it finished or says why it was skipped."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from energyscope.benchmarking.memory import release
from energyscope.components import component_tree
from energyscope.errors import ModelError
from energyscope.impact.examples import pack
from energyscope.impact.metrics import Outcomes
from energyscope.impact.plan import beside_singles
from energyscope.metering.group import MeterGroup
from energyscope.reasons import Reason, reason, words
from energyscope.runs import schema
from energyscope.runs.store import RunStore, read_journal
from energyscope.stages.ablate import ablate
from energyscope.stages.alternatives import AlternativesSettings, alternatives
from energyscope.stages.benchmark import benchmark, with_shapes
from energyscope.stages.context import Context, metered
from energyscope.stages.generate import GenerateSettings, generate
from energyscope.stages.profile import PREFILL, ProfileSettings, profile
from energyscope.stages.recovery import (
    Entries,
    recover_correlation,
    write_alternatives,
    write_benchmark,
    write_correlation,
    write_generation,
    write_impact,
    write_profile,
)
from energyscope.stages.scenes import Scene, middle_step, profile_settings, resolve_phase, scenes, workload_of
from energyscope.stages.triggered import triggered
from energyscope.workloads.decoding import can_generate, too_long

GENERATIONS_S, MODELLED_GENERATIONS_S = 12.0, 4.0  # a regression on ticks needs many; time x watts does not
DRAWING = ("altair", "vl_convert", "jinja2")  # a machine that measures need not be able to draw


def _benchmark(context: Context) -> Reason | None:
    settings, workload = context.settings, context.workload
    if len(context.loaded.devices) > 1:
        return reason("offloaded-model" if context.loaded.offloaded else "spread-model")
    with metered(context, "benchmark") as meter:
        benchmark(
            context.loaded,
            context.evaluation,
            meter,
            with_shapes(settings.benchmark, workload.batch_size, workload.sequence_length, settings.executions[0]),
            settings.model,
            settings.loading(settings.precision, context.loaded.devices),
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
    with metered(context, "generate") as meter:
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
    with metered(context, "profile") as meter:
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
    with metered(context, "alternatives") as meter:
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
    keep, progress = context.store.journal, context.progress
    if settings.sampling == "triggered":
        triggered(loaded, workload, meter, chosen, journal=keep, progress=progress)
    else:
        profile(loaded, workload, meter, chosen, journal=keep, progress=progress, scene=scene.name)


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


@dataclass(frozen=True)
class Stage:
    """A stage: what it does, and for one whose results are a file, how that is written from the journal.

    ``run`` returns why it was skipped, ``write`` whether there was anything to write; ``metered`` stages measure
    with meters of their own.
    """

    name: str
    run: Callable[[Context], Reason | None]
    write: Callable[[RunStore, Entries], bool] | None = None
    file: str | None = None
    metered: bool = False


STAGES = (
    Stage("benchmark", _benchmark, write_benchmark, schema.BENCHMARK_FILE, metered=True),
    Stage("generate", _generate, write_generation, schema.GENERATION_JSON, metered=True),
    Stage("profile", _profile, write_profile, schema.ENERGY_FILE, metered=True),
    Stage("alternatives", _alternatives, write_alternatives, schema.ALTERNATIVES_JSON, metered=True),
    Stage("ablate", _ablate, write_impact, schema.IMPACT_FILE),
    Stage("correlate", _correlate, recover_correlation, schema.CORRELATION_FILE),
    Stage("report", _report),
)


def recover(store: RunStore) -> list[str]:
    """Write the results of stages that did not finish from the journal; return the names of the files."""
    entries = read_journal(store.path)
    states = {name: (entry or {}).get("state") for name, entry in (store.document.get("stages") or {}).items()}
    unfinished = [stage for stage in STAGES if states.get(stage.name) not in {"done", "skipped"}]
    return [stage.file for stage in unfinished if stage.file and stage.write and stage.write(store, entries)]

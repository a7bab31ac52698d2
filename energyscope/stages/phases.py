"""The phases of an inference that a run profiles, each by itself: the prompt's pass, and steps of decoding.

A step costs what it costs at its context, so each context length is a phase of its own. The first of a kind is
measured as finely as was asked for; further contexts as means over the layers, which is enough to see what grows.
Where both executions were asked for, each of them is a phase: side by side, so that the board is the same.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.accounting import records
from energyscope.accounting import triggered as triggered_accounting
from energyscope.accounting.aggregate import Attribution
from energyscope.adapters import Adapter
from energyscope.benchmarking.memory import release
from energyscope.errors import DeviceError, ModelError
from energyscope.failures import first_line, no_memory_left
from energyscope.generation.loop import middle_context
from energyscope.generation.phases import NO_DECODE
from energyscope.loading import LoadedModel
from energyscope.metering.group import MeterGroup
from energyscope.reasons import Reason, reason
from energyscope.replay.replayer import Execution
from energyscope.replay.targets import Layers
from energyscope.runs import schema
from energyscope.runs.store import RunStore, read_journal
from energyscope.settings.run import RunSettings
from energyscope.stages import profile as one_phase
from energyscope.stages.context import Context, Entries, metered
from energyscope.stages.profile import PREFILL, ProfileSettings, profile
from energyscope.stages.sampling_budget import PREHEAT_S, REWARM_S, SamplingBudget
from energyscope.stages.session import STAGE
from energyscope.stages.triggered import triggered
from energyscope.workloads import Workload
from energyscope.workloads.decoding import (
    can_decode,
    can_generate,
    check_context,
    check_decodes,
    decode_step,
    default_context,
    prompt_length,
    prompt_pass,
)
from energyscope.workloads.evaluation import Evaluation

FINISHED = "finished"  # of a journal's entry: its phase is whole

OF_SCENE = ("phase", "context_length", "kv_cache", "layers", "execution", "in_model")  # of a profile's header


@dataclass(frozen=True)
class PhasePlan:
    """A phase to profile, the context of a decode step, and how each layer is measured.

    ``again``: another execution of the same phase comes before it, and has the plain name.
    """

    phase: str
    context_length: int | None
    layers: Layers
    execution: Execution = "eager"
    again: bool = False

    @property
    def name(self) -> str:
        """What its journal entries are marked with: ``prefill``, ``decode@1024``, ``prefill/cuda-graph``."""
        plain = self.phase if self.context_length is None else f"{self.phase}@{self.context_length}"
        return f"{plain}/{self.execution}" if self.again else plain


def resolve_phase(settings: RunSettings, adapter: Adapter) -> str:
    """Return what ``auto`` means: all of a generation where a family's users wait for one, or ask about it."""
    if settings.phase != "auto":
        return settings.phase
    if settings.sampling == "triggered":
        return PREFILL
    of_decode = settings.context_lengths or settings.kv_cache != RunSettings.kv_cache
    return "both" if of_decode else adapter.phase


def has_cache(phase_plan: PhasePlan, settings: RunSettings, adapter: Adapter) -> bool:
    """Tell whether a phase's pass reads or fills a KV cache."""
    return phase_plan.phase == "decode" or resolve_phase(settings, adapter) != PREFILL


def plan_phases(settings: RunSettings, loaded: LoadedModel) -> list[PhasePlan]:
    """Return what a run profiles, in order; the first is what its impact is related to.

    Raises:
        UsageError: a context is beyond the model's positions, or the model generates no text.

    """
    phase = resolve_phase(settings, loaded.adapter)
    first = _layers(settings, phase)
    planned = [] if phase == "decode" else _each(settings, PREFILL, None, first)
    if phase == PREFILL:
        return planned
    check_decodes(loaded)
    asked = dict.fromkeys(settings.context_lengths)
    lengths = [check_context(loaded, length) for length in asked] or [default_context(loaded)]
    for number, length in enumerate(lengths):
        planned += _each(settings, "decode", length, "kinds" if number else first)
    return planned


def _each(settings: RunSettings, phase: str, context_length: int | None, layers: Layers) -> list[PhasePlan]:
    """Return one phase in every execution that was asked for."""
    return [
        PhasePlan(phase, context_length, layers, execution, again=number > 0)
        for number, execution in enumerate(settings.executions)
    ]


def _layers(settings: RunSettings, phase: str) -> Layers:
    """Return how the layers are measured: each by itself, and a sample of them where there are several phases."""
    if settings.layers != "auto":
        return settings.layers
    return "sample" if phase == "both" else "mean"


def middle_step(
    settings: RunSettings, loaded: LoadedModel, workload: Workload, evaluation: Evaluation | None
) -> Workload | Reason:
    """Return the step in the middle of the traced generation from a workload, or why there is none."""
    if settings.new_tokens < 2:
        return NO_DECODE
    prompt = prompt_length(loaded, workload)
    context = middle_context(prompt, settings.new_tokens)
    try:
        return decode_step(
            loaded,
            batch_size=settings.batch_size,
            context_length=context,
            kv_cache=settings.kv_cache,
            evaluation=evaluation,
            seed=settings.seed,
            new_tokens=max(2, prompt + settings.new_tokens - context),
            read=workload.sequence_length,
        )
    except ModelError as error:
        return reason("failed", error=first_line(error))
    except Exception as error:
        if not no_memory_left(error) and not isinstance(error, DeviceError):
            raise
        return reason("no-memory-for-step")


def profile_settings(
    settings: RunSettings, planned: Sequence[PhasePlan], phase_plan: PhasePlan, *, warm: bool = False
) -> ProfileSettings:
    """Return what a run's settings say of the profile of one of its planned phases.

    It brings the board to its working temperature, unless an earlier phase or run left it ``warm``.
    """
    sampling_budget = SamplingBudget(
        settings.passes,
        settings.target_interval,
        settings.component_budget_s,
        settings.window_s,
        phases=len({(plan.phase, plan.context_length) for plan in planned}),
        preheat_s=REWARM_S if warm else PREHEAT_S,
    )
    return ProfileSettings(
        settings.granularity, phase_plan.layers, sampling_budget, settings.seed, phase_plan.execution
    )


def workload_of(
    phase_plan: PhasePlan,
    loaded: LoadedModel,
    prompt: Workload,
    settings: RunSettings,
    evaluation: Evaluation | None,
) -> Workload:
    """Return what the model is given in a phase; ``prompt`` is the run's input.

    A prefill beside decode steps is that of a generation: it fills a KV cache, and the head sees the last token.
    That of an encoder and decoder is one pass over both.
    """
    if phase_plan.phase == "decode":
        return decode_step(
            loaded,
            batch_size=settings.batch_size,
            context_length=phase_plan.context_length,
            kv_cache=settings.kv_cache,
            evaluation=evaluation,
            seed=settings.seed,
        )
    if not has_cache(phase_plan, settings, loaded.adapter) or not can_generate(loaded):
        return prompt
    return prompt_pass(loaded, prompt, kv_cache=settings.kv_cache, new_tokens=settings.new_tokens)


def why_no_generation(settings: RunSettings, loaded: LoadedModel) -> Reason | None:
    """Return why a run explains no generation; None where it does."""
    if not can_decode(loaded):
        return reason("generates-no-text")
    if resolve_phase(settings, loaded.adapter) == PREFILL:
        return reason("one-pass")
    return reason("offloaded-model") if loaded.offloaded else None


def run(context: Context) -> None:
    """Profile every phase of a run; the table holds each as soon as it is finished."""
    store = context.store
    planned = plan_phases(context.settings, context.loaded)
    finished = finished_phases(read_journal(store.path))  # before the run was resumed
    if finished:
        write(store, read_journal(store.path))  # which the table may lack
    left = [phase_plan for phase_plan in planned if phase_plan.name not in finished]
    if not left:
        return
    warm = context.sensor is not None
    with metered(context, STAGE) as meter:
        for phase_plan in left:
            context.marks.append((time.monotonic(), phase_plan.phase))
            _profile_phase(context, planned, phase_plan, meter, warm=warm)
            write(store, read_journal(store.path))
            release(context.loaded.device)
            warm = True


def _profile_phase(
    context: Context, planned: Sequence[PhasePlan], phase_plan: PhasePlan, meter: MeterGroup, *, warm: bool
) -> None:
    """Profile one phase. Its inputs and KV cache live no longer than this call: the next one needs the memory."""
    settings, loaded = context.settings, context.loaded
    workload = workload_of(phase_plan, loaded, context.workload, settings, context.evaluation)
    chosen = profile_settings(settings, planned, phase_plan, warm=warm)
    journal, progress = context.store.journal, context.progress
    earlier = _by_phase(read_journal(context.store.path)).get(phase_plan.name, ())  # before the run was resumed
    if settings.sampling == "triggered":
        triggered(loaded, workload, meter, chosen, journal=journal, progress=progress)
    else:
        name = phase_plan.name
        profile(
            loaded, workload, meter, chosen, earlier=earlier, journal=journal, progress=progress, phase_name=name
        )
    journal({"stage": STAGE, "scene": phase_plan.name, FINISHED: True})


def finished_phases(entries: Entries) -> set[str]:
    """Return the phases that a journal holds whole."""
    return {entry["scene"] for entry in one_phase.of_profile(entries) if entry.get(FINISHED)}


def write(store: RunStore, entries: Entries) -> bool:
    """Write the energy table, the closure and the passes of every phase; False if nothing was finished."""
    finished = {name: own for name, own in _by_phase(entries).items() if _measured(own)}
    if not finished:
        return False
    attributions = {name: _attribution(own) for name, own in finished.items()}
    measured = [entry for own in finished.values() for entry in own]
    sensor = store.document.get("sensor", {})
    idle = {"idle_w": records.idle_power(measured), "host_idle_w": records.host_idle_power(measured)}
    warnings = [*store.document.get("warnings", []), *one_phase.notes_of(measured)]
    warnings += records.bystanders_of(measured)
    warnings += [note for own in finished.values() for note in records.notes(own)]
    described = [
        {"name": name, **_described(finished[name], attribution)} for name, attribution in attributions.items()
    ]
    store.update(
        **{key: described[0][key] for key in ("closure", "differential", "passes", "drift")},
        scenes=described,
        sensor={"idle_w": None, **sensor, **{key: power for key, power in idle.items() if power is not None}},
        warnings=list(dict.fromkeys(warnings)),
    )
    rows = [row for attribution in attributions.values() for row in attribution.rows]
    store.write_rows(schema.ENERGY_FILE, rows, schema.ENERGY_COLUMNS)
    return True


def _by_phase(entries: Entries) -> dict[str, Entries]:
    """Return the profile's entries by phase, in the phases' order."""
    by_phase: dict[str, Any] = {}
    for entry in one_phase.of_profile(entries):
        by_phase.setdefault(entry.get("scene", PREFILL), []).append(entry)
    return by_phase


def _measured(entries: Entries) -> bool:
    key = "reads" if triggered_accounting.is_triggered(entries) else "window"
    return any(key in entry for entry in entries)


def _attribution(entries: Entries) -> Attribution:
    if triggered_accounting.is_triggered(entries):
        return triggered_accounting.recover(entries)
    return one_phase.recover(entries)


def _described(entries: Entries, attribution: Attribution) -> dict[str, Any]:
    """Return what run.json says of a phase beside its rows."""
    header = next(entry["header"] for entry in entries if "header" in entry)
    is_triggered = triggered_accounting.is_triggered(entries)
    return {
        **{key: header.get(key) for key in OF_SCENE},
        "closure": attribution.closure,
        "differential": attribution.differential,
        "passes": [] if is_triggered else records.passes_of(entries),
        "drift": None if is_triggered else one_phase.anchors_drift(entries),
    }

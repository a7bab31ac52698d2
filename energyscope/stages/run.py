"""Run: load, benchmark, profile, ablate, correlate and report, into one run directory.

Every stage keeps what it finished before the next begins, so that a run that is interrupted or fails can
still be reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import torch

from energyscope.errors import DeviceError, EnergyscopeError, UsageError
from energyscope.failures import no_memory_left
from energyscope.loading import LoadedModel
from energyscope.loading.tensor_parallel import leave
from energyscope.metering.group import MeterGroup
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, reason
from energyscope.runs import method
from energyscope.runs.store import Run, RunStore, free_name, load_run, plain_name
from energyscope.runs.writing import writing
from energyscope.settings.run import RunSettings
from energyscope.stages import facts
from energyscope.stages.benchmark import chosen_precisions
from energyscope.stages.context import Context
from energyscope.stages.measured_devices import find_devices, of_devices, open_meters
from energyscope.stages.preparing import (
    benchmark_alone,
    check_possible,
    evaluation_of,
    load,
    load_for_benchmark,
    prompt_of,
    watched_load,
)
from energyscope.stages.preview import TimeEstimate, estimated_times
from energyscope.stages.ranks import (
    Ranks,
    follow_run,
    ranks,
    require_torchrun,
    skipped_because,
    speaking_for_all,
    split_devices,
    split_settings,
)
from energyscope.stages.registry import STAGES, recover
from energyscope.stages.scenes import resolve_phase

METERED = ("load", *(one.name for one in STAGES if one.metered))


def run(
    model: str,
    *,
    progress: Progress = silent,
    command: str | None = None,
    follow: Callable[[Path], None] | None = None,
    on_estimates: Callable[[Mapping[str, Sequence[TimeEstimate]]], None] | None = None,
    **options: Any,
) -> Run:
    """Do the whole job for a model and return the run.

    Args:
        model: a short name, a bundled name, a folder or a Hugging Face id.
        progress: is told of each step.
        command: how the user called for it, for the record.
        follow: is told the run's directory as soon as there is one, which is after the model's load.
        on_estimates: is then told how long the stages will take, as `energyscope.stages.preview` knows it.
        options: those of the command line, by the names of `energyscope.settings.run.RunSettings`.

    Raises:
        EnergyscopeError: with what to do; what was finished is kept.
        KeyboardInterrupt: likewise kept; its note says where.

    """
    return carry_out(
        RunSettings.of(model, **options),
        progress=progress,
        command=command,
        follow=follow,
        on_estimates=on_estimates,
    )


@contextmanager
def _noting_interrupts() -> Iterator[None]:
    """Say of an interrupt before there was a run that nothing was kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        if not getattr(error, "__notes__", ()):
            error.add_note("nothing was finished yet, and nothing was kept")
        raise


@_noting_interrupts()
def carry_out(
    settings: RunSettings,
    *,
    progress: Progress = silent,
    command: str | None = None,
    follow: Callable[[Path], None] | None = None,
    on_estimates: Callable[[Mapping[str, Sequence[TimeEstimate]]], None] | None = None,
) -> Run:
    """Do what settings ask for, as `run` does."""
    this = ranks()
    with speaking_for_all(this):
        settings.check()
        require_torchrun(settings.tensor_parallel)
        settings.check_places()
    asked, settings = settings.stages, split_settings(settings)
    if not this.leads:
        _follow(settings, this)
    where = split_devices(settings, this) if settings.tensor_parallel else find_devices(settings)
    settings = replace(settings, device=str(where.device))
    names: list[str] = []
    if "benchmark" in settings.stages:
        names, _ = chosen_precisions(settings.benchmark.precisions, where.device)  # refuses what cannot be done
    # before the model takes memory: others' is told by its growth
    meters = {stage: open_meters(settings, where.gpus) for stage in METERED}
    progress("load", settings.model, 0, 1)
    only = benchmark_alone(settings)
    with watched_load(settings, meters.pop("load")) as loading:
        loaded = load_for_benchmark(settings, names, where.devices) if only else load(settings, where.devices)
    meters = {stage: of_devices(group, where, loaded.devices) for stage, group in meters.items()}
    context = opened(settings, loaded, meters, progress)
    if follow is not None:
        follow(context.store.path)
    if on_estimates is not None:
        on_estimates(estimated_times(context))
    return carried_out(context, command, loading=loading, asked=asked)


def opened(
    settings: RunSettings,
    loaded: LoadedModel,
    meters: Mapping[str, MeterGroup],
    progress: Progress = silent,
    sensor: Mapping[str, Any] | None = None,
) -> Context:
    """Make the run directory that the settings name, for a model that is loaded, and what its stages share.

    Raises:
        UsageError: the model cannot do what was asked, or the name is taken.
        DeviceError: no memory is left for the inputs.

    """
    check_possible(settings, loaded)
    try:
        evaluation, why_none = evaluation_of(loaded, settings)
        workload = prompt_of(loaded, evaluation, settings)
    except torch.OutOfMemoryError as error:
        raise DeviceError("no memory is left for the inputs: lower --batch-size or --max-examples") from error
    store = _made(settings)
    settings = replace(settings, name=store.path.name)
    kept = dict(meters)
    return Context(settings, loaded, evaluation, why_none, workload, kept, store, progress, sensor=sensor)


def _made(settings: RunSettings) -> RunStore:
    """Make the run directory; without a name, one that no other run has, even one begun in the same second."""
    if settings.name is not None:
        return RunStore.create(settings.name, settings.root)
    while True:
        name = default_name(settings.model, settings.root)
        try:
            return RunStore.create(name, settings.root)
        except UsageError:
            if not (settings.root / name).exists():  # nobody took it meanwhile: the place cannot be written
                raise


def carried_out(
    context: Context, command: str | None, *, loading: Sequence[Mapping[str, Any]] = (), asked: Sequence[str] = ()
) -> Run:
    """Do the stages of an opened run and return it.

    ``loading`` are journal entries on the load, ``asked`` the stages that the user named, where some are left out.
    """
    store = context.store
    try:
        _open_document(context, command)
        for entry in loading:
            store.journal(entry)
        with writing(store.path):
            _run_stages(context, asked or context.settings.stages)
        return load_run(store.path)
    except KeyboardInterrupt as error:
        error.add_note(_kept(store))
        raise


def _kept(store: RunStore) -> str:
    """Say what an interrupted run leaves: a table of any stage, or nothing but how it was begun."""
    if any((store.path / name).is_file() for name in (one.file for one in STAGES) if name):
        return f"what was finished is in {store.path}; `energyscope report {store.path}` shows it"
    return f"no stage was finished, and no result was kept ({store.path} holds only the settings)"


def _follow(settings: RunSettings, found: Ranks) -> NoReturn:
    """Do in another process of a split model what the first one's run needs, and end this process.

    Raises:
        Dismissed: always.

    """
    try:
        with speaking_for_all(found):
            settings = replace(settings, device=str(split_devices(settings, found).device))
            loaded = load(settings)
            check_possible(settings, loaded)
            follow_run(settings, loaded, prompt_of(loaded, None, settings))
    except KeyboardInterrupt as error:
        error.add_note("the first process says what was kept")
        raise


def default_name(model: str, root: Path) -> str:
    """Return a free run name made of the model's name and the time (UTC)."""
    return free_name(plain_name(model), root)


def _open_document(context: Context, command: str | None) -> None:
    settings, loaded = context.settings, context.loaded
    device = {
        **facts.device_facts(loaded.device),
        "measured": facts.measured_gpus(context.meters["profile"]),
        "spread": facts.spread_facts(loaded.devices),
    }
    environment = facts.environment()
    context.store.update(
        name=settings.name,
        energyscope=environment["energyscope_llm"],
        method=method.REVISION,
        created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        command=command,
        fingerprint=settings.fingerprint(
            source=loaded.source,
            device=device["measured"] or device["uuid"] or device["name"],
            data=None if context.evaluation is None else context.evaluation.digest,
            versions=environment,
        ),
        settings={
            **settings.document(),
            "precision": loaded.precision,
            "device": str(loaded.device),
            "phase": resolve_phase(settings, loaded.adapter),
        },
        model=facts.model_facts(loaded),
        workload={
            **facts.workload_facts(context.workload, context.evaluation),
            "evaluation_reason": context.no_evaluation,
        },
        environment=environment,
        device=device,
        warnings=[*loaded.notes, *_notes_on_data(context)],
    )
    context.store.stage("load", "done", seconds=loaded.seconds)


def _notes_on_data(context: Context) -> tuple[Reason, ...]:
    if context.evaluation is not None:
        return context.evaluation.notes
    data = context.settings.data
    return () if data is None else (reason("data-not-read", data=data, why=context.no_evaluation),)


def _run_stages(context: Context, asked: Sequence[str]) -> None:
    for stage in STAGES:
        name = stage.name
        if name not in context.settings.stages:
            context.store.stage(name, "skipped", reason=skipped_because(context.settings, name, asked))
            continue
        with _recorded(context, name) as started:
            why_not = stage.run(context)
            seconds = time.monotonic() - started
            context.store.stage(name, "skipped" if why_not else "done", reason=why_not, seconds=seconds)
        if name == "profile":
            leave()  # the processes of a split model part at the same time: NCCL waits for all


@contextmanager
def _recorded(context: Context, name: str) -> Iterator[float]:
    """Record a stage's state whatever happens in it, and keep what it finished."""
    context.store.stage(name, "running")
    try:
        yield time.monotonic()
    except KeyboardInterrupt:
        context.store.stage(name, "interrupted", reason=reason("stopped-by-user"))
        recover(context.store)
        raise
    except EnergyscopeError as error:
        _fail(context, name, str(error))
        raise
    except Exception as error:
        if not no_memory_left(error):
            _fail(context, name, f"{type(error).__name__}: {error}")
            raise
        shorter = "lower --batch-size, --sequence-length or --context-length"
        lower = "give shorter texts with --data" if name == "ablate" else shorter
        message = f"out of memory in {name}: {lower}, or use a smaller --precision"
        _fail(context, name, message)
        raise DeviceError(message) from error


def _fail(context: Context, name: str, message: str) -> None:
    """Record the failure; what cannot be recovered then must not hide it."""
    with suppress(Exception):
        context.store.stage(name, "failed", reason=reason("failed", error=message))
        recover(context.store)

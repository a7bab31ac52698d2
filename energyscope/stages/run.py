"""Run: load, benchmark, profile, ablate, correlate and report, into one run directory.

Every stage keeps what it finished before the next begins, so that a run that is interrupted or fails can
still be reported.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from energyscope.errors import DeviceError, EnergyscopeError, UsageError
from energyscope.failures import explained, no_memory_left
from energyscope.loading import LoadedModel
from energyscope.loading.devices import fitting_threads
from energyscope.loading.tensor_parallel import leave
from energyscope.metering.claims import claimed
from energyscope.metering.group import MeterGroup
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, reason
from energyscope.runs import method
from energyscope.runs.locks import write_lock
from energyscope.runs.store import (
    Run,
    RunStore,
    find_run,
    free_name,
    lacking_stages,
    load_run,
    plain_name,
    read_journal,
)
from energyscope.serving.run import refuse_server
from energyscope.settings.run import RunSettings
from energyscope.stages import facts
from energyscope.stages.benchmark import chosen_precisions
from energyscope.stages.context import Context, earlier_trace
from energyscope.stages.dry_run import estimated_times
from energyscope.stages.measured_devices import find_devices, of_devices, open_meters
from energyscope.stages.phases import resolve_phase
from energyscope.stages.plan_scope import check_plan
from energyscope.stages.preparing import (
    benchmark_alone,
    check_possible,
    evaluation_of,
    load,
    load_for_benchmark,
    prompt_of,
    watched_load,
)
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
from energyscope.stages.reference import carried_reference
from energyscope.stages.registry import STAGES, recover
from energyscope.stages.resume_run import resumable, take_up
from energyscope.stages.sampling_budget import TimeEstimate
from energyscope.workloads import Evaluation, Workload

LOG = logging.getLogger("energyscope")
METERED = ("load", *(stage.name for stage in STAGES if stage.metered))
OnOpen = Callable[[Path, Mapping[str, Sequence[TimeEstimate]]], None]


def run(
    model: str,
    *,
    progress: Progress = silent,
    command: str | None = None,
    on_open: OnOpen | None = None,
    **options: Any,
) -> Run:
    """Do the whole job for a model and return the run.

    Args:
        model: a short name, a bundled name, a folder or a Hugging Face id.
        progress: is called at each step.
        command: how the user called for it, for the record.
        on_open: is called once the model is loaded, with the run's directory and how long each stage will take
            (`energyscope.stages.dry_run.estimated_times`).
        options: those of the command line with underscores, or the fields of
            `energyscope.settings.run.RunSettings`; lists may be text with commas.

    Raises:
        EnergyscopeError: with what to do; what was finished is kept.
        KeyboardInterrupt: likewise kept; its note says where.

    """
    on_open = on_open or _on_open_of(options)
    return run_settings(RunSettings.of(model, **options), progress=progress, command=command, on_open=on_open)


def resume(
    path: str | Path, *, progress: Progress = silent, command: str | None = None, on_open: OnOpen | None = None
) -> Run:
    """Do what a run lacks, with its settings, and return it; one that lacks nothing is returned as it is.

    Args:
        path: its directory or name.
        progress, command, on_open: as in `run`.

    Raises:
        RunError: the run cannot be read, is being measured, or was begun by another version's method.
        UsageError: model, data, versions or board are others than when it began, with what has changed.
        EnergyscopeError: as in `run`.

    """
    path = find_run(path).resolve()
    refuse_server(path)
    if not lacking_stages(path):
        return load_run(path)
    settings, lacking = resumable(path)
    return run_settings(settings, progress=progress, command=command, on_open=on_open, lacking=lacking)


def _on_open_of(options: dict[str, Any]) -> OnOpen | None:
    """Take the two callbacks that ``on_open`` replaced out of the options; they are still called."""
    callbacks = {name: options.pop(name, None) for name in ("follow", "foresee", "on_estimates")}
    old = {name: callback for name, callback in callbacks.items() if callback is not None}
    if not old:
        return None
    warnings.warn(f"{', '.join(old)}: on_open(path, estimates) replaces it", DeprecationWarning, stacklevel=3)

    def on_open(path: Path, estimates: Mapping[str, Sequence[TimeEstimate]]) -> None:
        for name, callback in old.items():
            callback(path if name == "follow" else estimates)

    return on_open


@contextmanager
def _noting_interrupts(resumed: bool) -> Iterator[None]:
    """Note on an interrupt that nothing was saved yet, unless it says what was."""
    try:
        yield
    except KeyboardInterrupt as error:
        if not getattr(error, "__notes__", ()):
            new = "nothing was finished yet, and nothing was kept"
            error.add_note("the run is as it was" if resumed else new)
        raise


def run_settings(
    settings: RunSettings,
    *,
    progress: Progress = silent,
    command: str | None = None,
    on_open: OnOpen | None = None,
    lacking: Sequence[str] | None = None,
) -> Run:
    """Do what settings ask for, as `run` does; of a run that is resumed, the stages that it is ``lacking``."""
    with _noting_interrupts(resumed=lacking is not None):
        return _run_settings(settings, progress, command, on_open, lacking)


def _places(settings: RunSettings, lacking: Sequence[str] | None) -> RunSettings:
    """Return the settings whose places must be free: a run that is resumed has its own."""
    if lacking is None:
        return settings
    return replace(settings, name=None, export=settings.export if "plan" in lacking else None)


def _run_settings(
    settings: RunSettings,
    progress: Progress,
    command: str | None,
    on_open: OnOpen | None,
    lacking: Sequence[str] | None,
) -> Run:
    process = ranks()
    with speaking_for_all(process):
        settings.check()
        require_torchrun(settings.tensor_parallel)
        _places(settings, lacking).check_places()
    requested, settings = settings.stages, split_settings(settings)
    if not process.leads:
        _follow(settings, process)
    where = split_devices(settings, process) if settings.tensor_parallel else find_devices(settings)
    settings = replace(settings, device=str(where.device))
    names: list[str] = []
    if "benchmark" in settings.stages:
        names, _ = chosen_precisions(settings.benchmark.precisions, where.device)  # refuses what cannot be done
    # before the model takes memory: its growth tells how much is used by others
    meters = {stage: open_meters(settings, where.gpus) for stage in METERED}
    progress("load", settings.model, 0, 1)
    only = benchmark_alone(settings)
    with watched_load(settings, meters.pop("load")) as loading:
        loaded = load_for_benchmark(settings, names, where.devices) if only else load(settings, where.devices)
    for note in loaded.notes:
        if note.code in {"found-by-structure", "structure-asked-for"}:
            progress("load", note.words, 1, 1)
    meters = {stage: of_devices(group, where, loaded.devices) for stage, group in meters.items()}
    return run_loaded(
        settings, loaded, meters, progress=progress, command=command, on_open=on_open,
        loading=loading, requested=requested, lacking=lacking,
    )  # fmt: skip


def run_loaded(  # noqa: PLR0913  what a run and the cells of a sweep have in common
    settings: RunSettings,
    loaded: LoadedModel,
    meters: Mapping[str, MeterGroup],
    *,
    progress: Progress = silent,
    command: str | None = None,
    on_open: OnOpen | None = None,
    sensor: Mapping[str, Any] | None = None,
    loading: Sequence[Mapping[str, Any]] = (),
    requested: Sequence[str] = (),
    workload: Workload | None = None,
    lacking: Sequence[str] | None = None,
) -> Run:
    """Do the stages of a run with a loaded model and return it.

    Args:
        settings: those of the run; its directory is made here, unless it is lacking some stages only.
        loaded: the model.
        meters: for each stage that measures, not started.
        progress, command, on_open: as in `run`.
        sensor: what an earlier run found out about the same meters, which are then not watched again.
        loading: journal entries on the load.
        requested: the stages that the user named, where ``settings`` leaves some out.
        workload: the inputs, where they are given; nothing is then judged.
        lacking: the stages that a run lacks which is resumed.

    Raises:
        UsageError: the model cannot do what was asked, the name is taken, or the run was begun otherwise.
        DataError: a plan is asked for, and there are too few data.
        DeviceError: no memory is left for the inputs.

    """
    check_possible(settings, loaded)
    evaluation, why_none, workload = _inputs_of(settings, loaded, workload)
    store = _create_store(settings) if lacking is None else RunStore.open(settings.root / str(settings.name))
    settings = replace(settings, name=store.path.name)
    context = Context(
        settings, loaded, evaluation, why_none, workload, dict(meters), store, progress, sensor=sensor
    )
    try:
        measured = facts.measured_devices(context.meters["profile"])
        with (
            write_lock(store.path),
            claimed(measured, store.path.name) as others,
            fitting_threads(loaded.model, loaded.device),
        ):
            _begin(context, lacking, command, loading)
            _warn(context, others)
            if on_open is not None:
                times = estimated_times(context)
                on_open(store.path, {name: times[name] for name in times if lacking is None or name in lacking})
            _run_stages(context, requested or settings.stages, lacking)
            store.compress_journal()
        return load_run(store.path)
    except KeyboardInterrupt as error:
        error.add_note(_saved(store))
        raise


def _inputs_of(
    settings: RunSettings, loaded: LoadedModel, workload: Workload | None
) -> tuple[Evaluation | None, Reason | None, Workload]:
    """Return the evaluation data, or why there are none, and the inputs; `run_loaded` says its errors."""
    try:
        evaluation, why_none = evaluation_of(loaded, settings)
        workload = workload or prompt_of(loaded, evaluation, settings)
        check_plan(settings, loaded, evaluation, why_none)
    except RuntimeError as error:  # the host's allocator raises a plain one
        if not no_memory_left(error):
            raise
        raise DeviceError("no memory is left for the inputs: lower --batch-size or --max-examples") from error
    return evaluation, why_none, workload


def _warn(context: Context, others: Sequence[Reason]) -> None:
    """Tell of what else the devices do now, while one of them may still be stopped, and on the page."""
    busy = facts.load_of_host(context.loaded.device, context.meters["profile"])
    for other in others:
        LOG.warning("energyscope: %s", other.words)
    for note in busy:
        context.progress("load", note.words, 1, 1)
    if others or busy:
        context.store.update(warnings=[*context.store.document["warnings"], *others, *busy])


def _begin(
    context: Context, lacking: Sequence[str] | None, command: str | None, loading: Sequence[Mapping[str, Any]]
) -> None:
    """Write what is known before the first stage of a run, or go on with one that is lacking some."""
    if lacking is None:
        _open_document(context, command)
    else:
        take_up(context.store, lacking, _sections(context), command)
        context.earlier_trace = earlier_trace(context.store.path)
    kept = () if lacking is None else read_journal(context.store.path)
    if (lacking is None or "generate" in lacking) and not any(entry.get("phase") == "load" for entry in kept):
        for entry in loading:
            context.store.journal(entry)


def _create_store(settings: RunSettings) -> RunStore:
    """Make the run directory; without a name, one that no other run has, even one begun in the same second."""
    if settings.name is not None:
        return RunStore.create(settings.name, settings.root)
    while True:
        name = default_name(settings.model, settings.root)
        try:
            return RunStore.create(name, settings.root, over_empty=False)  # another run may just have made it
        except UsageError:
            if not (settings.root / name).exists():  # nobody took it meanwhile: the place cannot be written
                raise


def _saved(store: RunStore) -> str:
    """Return what an interrupted run leaves: a table of any stage, or only its settings."""
    if any(stage.file and (store.path / stage.file).is_file() for stage in STAGES):
        return f"what was finished is in {store.path}; `energyscope report {store.path}` shows it"
    return f"no stage was finished, and no result was kept ({store.path} holds only the settings)"


def _follow(settings: RunSettings, process: Ranks) -> NoReturn:
    """Do in another process of a split model what the first one's run needs, and end this process."""
    try:
        with speaking_for_all(process):
            settings = replace(settings, device=str(split_devices(settings, process).device))
            loaded = load(settings)
            check_possible(settings, loaded)
            follow_run(settings, loaded, prompt_of(loaded, None, settings))
    except KeyboardInterrupt as error:
        error.add_note("the first process says what was kept")
        raise


def default_name(model: str, root: Path) -> str:
    """Return a free run name made of the model's name and the time (UTC)."""
    return free_name(plain_name(model), root)


def _sections(context: Context) -> dict[str, Any]:
    """Return what the numbers of a run depend on beside its settings."""
    loaded, meters = context.loaded, context.meters["profile"]
    device, spread = facts.device_facts(loaded.device), facts.spread_facts(loaded.devices)
    return {
        "model": facts.model_facts(loaded),
        "workload": {
            **facts.workload_facts(context.workload, context.evaluation),
            "evaluation_reason": context.no_evaluation,
        },
        "environment": {**facts.environment(), "clock": facts.clock(meters, loaded.device)},
        "device": {
            **device,
            "measured": facts.measured_gpus(meters),
            "spread": spread,
            "reference": None
            if spread or context.settings.locked_clock_mhz
            else carried_reference(device, meters.name, loaded.device),
        },
        "boot": facts.boot(),
    }


def _open_document(context: Context, command: str | None) -> None:
    settings, loaded, sections = context.settings, context.loaded, _sections(context)
    device, environment = sections["device"], sections["environment"]
    context.store.update(
        name=settings.name,
        energyscope=environment["energyscope_llm"],
        method=method.REVISION,
        created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        command=command,
        tags=settings.tags,
        note=settings.note,
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
        **sections,
        warnings=[*loaded.notes, *_notes_on_data(context)],
    )
    context.store.stage("load", "done", seconds=loaded.seconds)


def _notes_on_data(context: Context) -> tuple[Reason, ...]:
    if context.evaluation is not None:
        return context.evaluation.notes
    data = context.settings.data
    return () if data is None else (reason("data-not-read", data=data, why=context.no_evaluation),)


def _run_stages(context: Context, requested: Sequence[str], lacking: Sequence[str] | None) -> None:
    begun = set(context.store.document.get("stages") or ()) if lacking is not None else set()
    for stage in STAGES:
        name = stage.name
        if name not in context.settings.stages:
            context.store.stage(name, "skipped", reason=skipped_because(context.settings, name, requested))
            continue
        if lacking is not None and name not in lacking:
            continue
        with _recorded(context, name) as started:
            why_not = stage.run(context)
            seconds = None if name in begun else time.monotonic() - started  # an earlier part's are not known
            context.store.stage(name, "skipped" if why_not else "done", reason=why_not, seconds=seconds)
        if name == "profile":
            leave()  # the processes of a split model leave at the same time: NCCL waits for all


@contextmanager
def _recorded(context: Context, name: str) -> Iterator[float]:
    """Record how a stage ends, and keep what it finished."""
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
            known = explained(error)
            _fail(context, name, f"{type(error).__name__}: {error}" if known is None else str(known))
            if known is None:
                raise
            raise known from error
        shorter = "lower --batch-size, --sequence-length or --context-length"
        lower = "give shorter texts with --data" if name == "ablate" else shorter
        message = f"out of memory in {name}: {lower}, or use a smaller --precision"
        _fail(context, name, message)
        raise DeviceError(message) from error


def _fail(context: Context, name: str, message: str) -> None:
    """Record the failure; a recovery that fails as well must not hide it."""
    with suppress(Exception):
        context.store.stage(name, "failed", reason=reason("failed", error=message))
        recover(context.store)

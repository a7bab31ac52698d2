"""A sweep by an engine: which cells there are, what each worker is told, and what became of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace

from energyscope.engines import Engine
from energyscope.engines.cell import CellResult, CellTask
from energyscope.engines.gpus import VISIBLE, board_of, visible_gpus
from energyscope.engines.local import LocalEngine
from energyscope.engines.on_ray import RayEngine
from energyscope.engines.on_slurm import SlurmEngine
from energyscope.errors import UsageError
from energyscope.format import count
from energyscope.loading import check_precision
from energyscope.loading.devices import pick_device
from energyscope.loading.sources import find_model
from energyscope.metering.nvml.devices import resolve_gpus
from energyscope.progress import Progress
from energyscope.reasons import reason
from energyscope.runs.sweeps import Sweep, SweepCell, require_a_cell
from energyscope.settings.fields import as_options
from energyscope.settings.sweep import SweepSettings
from energyscope.stages.preparing import skeleton_of
from energyscope.workloads.decoding import CANNOT_GENERATE, USE_PREFILL, can_decode, check_context
from energyscope.workloads.limits import check_length

STAGE = "sweep"
JOBS = 256  # of Slurm at once, where nothing is said


def check_engine(settings: SweepSettings) -> None:
    """Refuse an engine that cannot measure here, before anything is made.

    Raises:
        UsageError: with what to do.

    """
    for precision in settings.precisions:
        if precision != "auto":
            check_precision(precision)
    if _is_here(settings):
        gpus_of(settings)
    engine_of(settings, ()).check()


def with_whole_paths(settings: SweepSettings) -> SweepSettings:
    """Return the settings with each model's folder as a path that is the same from any directory.

    Raises:
        UsageError: there is no such model.

    """
    sources = {one.run.model: find_model(one.run.model) for one in settings.subjects()}
    models = tuple(str(source.folder) if source.kind == "folder" else model for model, source in sources.items())
    return replace(settings, models=models)


def cells_of(settings: SweepSettings) -> list[SweepCell]:
    """Return the cells of a sweep by an engine; lengths that a model has no positions for have failed already.

    Raises:
        UsageError: no cell is possible, a GPU is not known, or a model generates no text and is to decode.

    """
    too_long = {one.run.model: lengths_refused(one) for one in settings.subjects()}
    cells = [
        replace(cell, state="failed", reason=reason("failed", error=why)) if why else cell
        for cell in named_cells(settings)
        for why in [too_long[str(cell.model)].get(cell.tokens)]
    ]
    if all(cell.state == "failed" for cell in cells):
        raise UsageError(next(why for refused in too_long.values() for why in refused.values()))
    return cells


def named_cells(settings: SweepSettings) -> list[SweepCell]:
    """Return the cells of a sweep, with their GPUs where each is measured on every one.

    Raises:
        UsageError: that is asked for, and no GPU is visible.

    """
    gpus = gpus_of(settings) if settings.each_gpu else []
    if settings.each_gpu and not gpus:
        raise UsageError("--each-gpu measures on every GPU, and none is visible: leave it out")
    return settings.cells(gpus)


def lengths_refused(settings: SweepSettings) -> dict[int, str]:
    """Return the lengths that the model has no positions for, each with the message of the refusal.

    Raises:
        UsageError: it is to decode, and generates no text.

    """
    run = settings.run
    model = skeleton_of(run)
    if run.phase == "decode" and not can_decode(model):
        raise UsageError(f"{model.name} {CANNOT_GENERATE}, {USE_PREFILL}")
    checked = check_context if run.phase == "decode" else check_length
    refused = {}
    for length in dict.fromkeys(settings.lengths):
        try:
            checked(model, length)
        except UsageError as error:
            refused[length] = str(error)
    return refused


def gpus_of(settings: SweepSettings) -> list[str]:
    """Return the UUIDs of the GPUs that cells are shared out to; none where they run on the CPU.

    Raises:
        UsageError: a GPU is not known, or GPUs are named for cells on the CPU.
        MeterError: GPUs are named, and NVML cannot be used.

    """
    if pick_device(settings.run.device).type != "cuda":
        if settings.gpus:
            raise UsageError("--gpus names GPUs, and the cells would run on the CPU: leave it out")
        return []
    named, visible = resolve_gpus(settings.gpus), visible_gpus()
    if VISIBLE in os.environ and (hidden := [gpu.uuid for gpu in named if gpu not in visible]):
        raise UsageError(f"{VISIBLE} hides {hidden[0]}: leave it out of --gpus, or change that")
    if not (named or visible):
        raise UsageError(
            "no whole GPU is visible to the cells: name slices (MIG) with --gpus, or use --device cpu"
        )
    return [gpu.uuid for gpu in named or visible][: settings.workers]


def measure_by_engine(settings: SweepSettings, made: Sweep, progress: Progress) -> None:
    """Measure the waiting cells of a sweep, and record each as it ends.

    Raises:
        UsageError: the engine cannot be used here.
        DeviceError: no cell could be measured.

    """
    waiting = {cell.name: cell for cell in made.cells if cell.state == "waiting"}
    here = _is_here(settings)
    gpus = gpus_of(settings) if here else []
    on_gpu = bool(gpus) if here else settings.run.device != "cpu"
    tasks = [task_of(settings, made, cell, on_gpu=on_gpu) for cell in waiting.values()]
    progress(STAGE, count(len(tasks), "cell"), 0, len(tasks))
    with contextlib.closing(engine_of(settings, gpus).measure(tasks)) as results:  # type: ignore[type-var]
        for done, result in enumerate(results, 1):
            made.record(_recorded(waiting[result.name], result))
            progress(STAGE, f"{result.name}: {result.state}", done, len(tasks))
    require_a_cell(made)


def _is_here(settings: SweepSettings) -> bool:
    """Tell whether cells run on this machine: on others, only the workers know their devices."""
    return settings.by == "local" or (settings.by == "ray" and not settings.address)


def workers_of(settings: SweepSettings) -> int | None:
    """Return how many cells are measured at once; None where only a cluster knows."""
    if settings.by is None:
        return 1
    if _is_here(settings):
        return len({board_of(gpu) for gpu in gpus_of(settings)}) or settings.workers or 1
    return settings.workers


def engine_of(settings: SweepSettings, gpus: Sequence[str]) -> Engine:
    """Return the engine of a sweep, with the GPUs of this machine that it may use."""
    if settings.by == "ray":
        return RayEngine(settings.address, settings.workers or max(1, len(gpus)), len(gpus))
    if settings.by == "slurm":
        words = dict(word.split("=", 1) for word in settings.slurm)
        options = {key: int(value) if value.isdigit() else value for key, value in words.items()}
        return SlurmEngine(settings.workers or JOBS, options)
    return LocalEngine(list(gpus) or [None] * (settings.workers or 1))


def task_of(settings: SweepSettings, made: Sweep, cell: SweepCell, *, on_gpu: bool) -> CellTask:
    """Return what a worker is told of a cell: the words of `energyscope run`."""
    run = settings.settings_of(cell, made.path)
    return CellTask(
        name=cell.name,
        root=str(made.path.resolve()),
        options=(run.model, *as_options(run, leave=("name", "root"))),
        on_gpu=on_gpu,
        gpus=(cell.gpu,) if cell.gpu else (),
    )


def _recorded(cell: SweepCell, result: CellResult) -> SweepCell:
    why = reason("failed", error=result.why) if result.why else None
    return replace(cell, state=result.state, reason=why, seconds=result.seconds, host=result.host)

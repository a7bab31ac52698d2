"""What of a run's settings cannot be, each in one line: words, numbers, and what does not go together."""

from __future__ import annotations

import tempfile
from pathlib import Path

from energyscope.errors import UsageError
from energyscope.loading.checkpoint_formats import format_of
from energyscope.loading.options import QUANTIZED, check_quantization
from energyscope.loading.sharding.device_maps import check_device_map
from energyscope.metering.choice import OF_POWER
from energyscope.runs.store import RunStore
from energyscope.settings.fields import check_each
from energyscope.settings.run import BOTH, RUN_METERS, SPLIT_STAGES, RunSettings


def check(settings: RunSettings) -> None:
    """Refuse what cannot be.

    Raises:
        UsageError: an unknown word or a number out of range, with what to give instead.

    """
    if settings.meter == "recorded":
        raise UsageError(f"--meter recorded plays a trace back in tests: use one of {', '.join(RUN_METERS)}")
    check_each(settings)
    if settings.device_map:
        check_device_map(settings.device_map)
    check_quantization(
        settings.precision,
        double_quant=settings.double_quant,
        compute_dtype=settings.compute_dtype,
        skip_modules=()
        if "plan" in settings.stages
        else settings.skip_modules,  # which leaves them as they are, too
    )
    if settings.gpu_id and settings.device == "cpu":
        raise UsageError("--gpu-id measures GPUs, and --device cpu runs the model on none: give one of them")
    if len(settings.gpu_id) > 1 and settings.meter == "modelled":
        raise UsageError("--meter modelled knows the watts of one device: name one GPU with --gpu-id")
    if settings.tensor_parallel:
        _check_tensor_parallel(settings)
    if settings.sampling == "triggered":
        _check_triggered(settings)
    if settings.execution == BOTH and "profile" not in settings.stages:
        raise UsageError("--execution both is for the profile, and --stages leaves it out: name one of them")
    if settings.joint in {"pairs", "all"} and "skip" not in settings.methods:
        raise UsageError(f"--joint {settings.joint} skips layers in pairs: add skip to --methods, to compare with")
    _check_plan(settings)
    settings.benchmark.check()


def _check_plan(settings: RunSettings) -> None:
    """Refuse workloads or a budget that cannot be read, or that random weights can neither keep nor break.

    And an export without a plan, or of a precision that has no format for it; a context without decode steps.
    """
    if settings.export is not None and "plan" not in settings.stages:
        raise UsageError("--export writes a model with its plan: give a --budget, or leave it out")
    if settings.export is None and settings.export_format is not None:
        raise UsageError("--export-format is for --export FOLDER: name a folder, or leave it out")
    if settings.export is not None:
        format_of(settings.plan_precisions, settings.export_format)
    from energyscope.planning.workloads import parse_workload

    planned = {parse_workload(text).phase for text in settings.workloads}
    if settings.context_lengths and settings.phase == "prefill" and "decode" not in planned:
        raise UsageError("--context-length is for decode steps: use --phase decode or both, or leave it out")
    if "plan" not in settings.stages or settings.budget is None:
        return
    from energyscope.planning.budget import WITHOUT_WEIGHTS, parse_budget  # imports numpy

    budget = parse_budget(settings.budget)
    if settings.weights == "random" and budget.metric != "kl":
        raise UsageError(
            f"--budget {str(budget)!r} needs trained weights, and these are random: use --budget "
            f'"{WITHOUT_WEIGHTS}", which compares outputs'
        )


def _check_tensor_parallel(settings: RunSettings) -> None:
    """Refuse what a model that is split over processes cannot do."""
    if "cuda-graph" in settings.executions:
        raise UsageError(
            f"--execution {settings.execution} captures what one process does by itself, and --tensor-parallel "
            "needs several: use --execution eager"
        )
    if settings.precision in QUANTIZED:
        raise UsageError(
            f"--tensor-parallel splits plain weights, not {settings.precision}: use bf16, or --device-map"
        )
    conflicts = {
        f"--device-map {settings.device_map}": settings.device_map,
        f"--gpu-id {','.join(settings.gpu_id)}": settings.gpu_id,
        f"--device {settings.device}": ":" in settings.device,
        f"--sampling {settings.sampling}": settings.sampling != "replay",
    }
    if given := [option for option, is_given in conflicts.items() if is_given]:
        raise UsageError(
            f"{given[0]} does not go with --tensor-parallel, where process N has cuda:N: leave it out "
            "(CUDA_VISIBLE_DEVICES chooses GPUs)"
        )
    if not set(SPLIT_STAGES) & set(settings.stages):
        raise UsageError(f"--tensor-parallel is for --stages {','.join(SPLIT_STAGES)}")


def _check_triggered(settings: RunSettings) -> None:
    """Refuse what only replay can do."""
    if "cuda-graph" in settings.executions:
        raise UsageError("--sampling triggered reads the meter between launches: use --execution eager")
    if settings.meter in OF_POWER:
        raise UsageError(f"--sampling triggered reads an energy counter, which {settings.meter} has not: use nvml")
    of_replay = {
        "--window": settings.window_s is not None,
        "--component-budget": settings.component_budget_s is not None,
        f"--phase {settings.phase}": settings.phase in {"decode", "both"},
        "--context-length": settings.context_lengths,
        "--layers": settings.layers != RunSettings.layers,
        "--target-interval": settings.target_interval != RunSettings.target_interval,
    }
    if given := [option for option, is_given in of_replay.items() if is_given]:
        raise UsageError(f"{given[0]} is for replay: --sampling triggered reads around every component")


def check_places(settings: RunSettings) -> None:
    """Refuse files and folders that cannot be used, before anything is loaded.

    Raises:
        UsageError: ``data`` is no file and no folder with data, ``name`` is taken or not plain, or ``root``
            cannot be written.

    """
    if settings.data is not None and Path(settings.data).is_dir():
        from energyscope.workloads.inputs import check_folder  # imports torch, which no check before it needs

        check_folder(Path(settings.data))
    elif settings.data is not None and not Path(settings.data).is_file():
        raise UsageError(f"there is no file {settings.data}: give --data a JSONL, CSV or text file, or a folder")
    _writable(settings.root)
    if settings.export is not None and settings.export.exists():
        raise UsageError(f"--export {settings.export} exists: name a new folder")
    if settings.name is not None:
        RunStore.check_free(settings.name, settings.root)


def _writable(root: Path) -> None:
    """Refuse a folder that cannot be written; tried in the nearest one that exists."""
    folder = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"--root {root} cannot be written ({folder}: {reason}): give another folder") from error

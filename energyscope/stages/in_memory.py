"""Profile a model that is in memory: any module, on inputs of its caller.

run = energyscope.profile(model, {"input_ids": ids, "attention_mask": mask}, granularity="fine")
run.energy      a row for each component
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from energyscope.adapters import Adapter
from energyscope.errors import DeviceError, UsageError
from energyscope.loading import LoadedModel
from energyscope.progress import Progress, silent
from energyscope.reasons import reason
from energyscope.runs.store import Run
from energyscope.settings.run import RunSettings
from energyscope.stages.measured_devices import find_devices, open_meters
from energyscope.stages.run import run_loaded
from energyscope.workloads.timed import Workload

STAGES = ("profile", "report")  # a module says neither what it predicts nor how it is loaded in another precision
_PRECISIONS = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def profile(
    model: nn.Module,
    inputs: Mapping[str, Any] | torch.Tensor,
    *,
    adapter: Adapter | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Run:
    """Measure the energy of every component of a module in memory, and return the run.

    The module is put in evaluation mode for as long, and comes back as it was. Predictions are not judged.

    Args:
        model: any module with a list of like layers, all of it on one device.
        inputs: the keyword arguments of its forward, or its first argument alone, a tensor; the first tensor's
            first dimension is the batch.
        adapter: which of its modules are which components; by default found by structure.
        progress: is called at each step.
        options: those of ``energyscope run`` that concern a profile (``granularity``, ``window``, ``root``, ...).

    Raises:
        UsageError: no tensor is among the inputs, or an option asks for more than a profile.
        ModelError: its components cannot be found, or the forward fails on the inputs.
        DeviceError: it lies on several devices.

    """
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"profile takes a torch.nn.Module, not {model!r:.60}: `energyscope.run` takes a model's name"
        )
    arguments = _named(model, inputs)
    given = arguments.values() if isinstance(arguments, Mapping) else ()  # and not a data loader, say
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    if not tensors or not tensors[0].dim():
        raise UsageError("inputs: name the forward's arguments, a tensor with the batch first among them")
    device = _device_of(model)
    settings = RunSettings.of(type(model).__name__, **{"stages": STAGES, **options, "device": str(device)})
    if set(settings.stages) - set(STAGES):
        raise UsageError(f"a module in memory is profiled only: stages may be {' and '.join(STAGES)}")
    settings = replace(settings, phase="prefill")
    settings.check()
    settings.check_places()
    where = find_devices(settings)
    meters = {"profile": open_meters(settings, where.gpus)}
    training = [module for module in model.modules() if module.training]
    try:
        model.eval()
        loaded = _loaded(model, adapter or _found(model, arguments), device)
        return run_loaded(settings, loaded, meters, progress=progress, workload=_workload(arguments, tensors[0]))
    finally:
        for module in training:
            module.training = True


def _named(model: nn.Module, inputs: Any) -> Any:
    """Return the inputs by name: a tensor alone is what the forward takes first."""
    names = list(inspect.signature(model.forward).parameters.values())
    by_name = bool(names) and names[0].kind in {names[0].POSITIONAL_OR_KEYWORD, names[0].KEYWORD_ONLY}
    return {names[0].name: inputs} if isinstance(inputs, torch.Tensor) and by_name else inputs


def _device_of(model: nn.Module) -> torch.device:
    devices = sorted({str(item.device) for item in (*model.parameters(), *model.buffers())})
    if len(devices) != 1:
        where = " and ".join(devices) or "no device: it has no weights"
        raise DeviceError(f"{type(model).__name__} lies on {where}: put all of it on one device")
    return torch.device(devices[0])


def _found(model: nn.Module, inputs: Mapping[str, Any]) -> Adapter:
    from energyscope.auto.mapping import live_map

    return live_map(model, inputs).adapter


def _loaded(model: nn.Module, adapter: Adapter, device: torch.device) -> LoadedModel:
    dtype = next((weight.dtype for weight in model.parameters() if weight.is_floating_point()), torch.float32)
    return LoadedModel(
        name=type(model).__name__,
        model=model,
        adapter=adapter,
        tokenizer=None,
        tokenizer_reason=reason("not-asked-for"),
        precision=_PRECISIONS.get(dtype, str(dtype).removeprefix("torch.")),
        device=device,
        weights="given",
        source="in memory",
        seconds=0.0,
    )


def _workload(inputs: Mapping[str, Any], first: torch.Tensor) -> Workload:
    """Describe the inputs: whole numbers of two dimensions are taken for tokens."""
    tokens = first.shape[1] if first.dim() == 2 and not first.is_floating_point() else 0
    return Workload(dict(inputs), "data", batch_size=len(first), sequence_length=tokens)

"""Where the model runs, which GPUs are measured, and by which meters.

CUDA and NVML number GPUs differently, so a GPU that is named in NVML's way is looked for among CUDA's by UUID::

    --gpu-id 1 -> NVML: GPU-1a9f... -> CUDA: cuda:0 -> the model runs there, and its meter reads GPU-1a9f...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from energyscope.errors import DeviceError, UsageError
from energyscope.loading.devices import cuda_uuid, pick_device, visible_gpus, why_no_gpu
from energyscope.metering.choice import open_meter
from energyscope.metering.group import MeterGroup
from energyscope.metering.nvml.devices import Gpu, bare, list_gpus, resolve_gpus
from energyscope.stages.settings import RunSettings


@dataclass(frozen=True)
class Targets:
    """The device that the model runs on, and the UUIDs of the GPUs that are measured, the model's first.

    ``gpus`` is empty where the model runs on the CPU.
    """

    device: torch.device
    gpus: tuple[str, ...]


def find_targets(settings: RunSettings) -> Targets:
    """Return what the settings' ``device`` and ``gpu_id`` mean on this machine.

    Raises:
        UsageError: a GPU is unknown, the two name different devices, or the CPU cannot do what was asked for.
        DeviceError: CUDA does not see the GPU.
        MeterError: GPUs were named, and NVML cannot be used.

    """
    device = pick_device(settings.device)
    if settings.gpu_id:
        return _named(settings, device)
    if device.type == "cuda":
        return Targets(device, (cuda_uuid(device),))
    if settings.whole_gpu:
        raise UsageError("--whole-gpu measures a GPU, and the model runs on the CPU: leave it out")
    if settings.execution == "cuda-graph":
        raise UsageError("--execution cuda-graph needs an NVIDIA GPU, and the model runs on the CPU")
    return Targets(device, ())


def _named(settings: RunSettings, by_device: torch.device) -> Targets:
    if not torch.cuda.is_available():
        raise UsageError(f"--gpu-id measures GPUs, and the model runs on the CPU ({why_no_gpu()}): leave it out")
    gpus = resolve_gpus(settings.gpu_id)
    device = _cuda_device(gpus[0])
    if settings.device not in {"auto", "cuda"} and device != by_device:
        raise UsageError(
            f"--gpu-id {settings.gpu_id[0]} is {device} in this process, and --device {by_device} another GPU: "
            "give one of them"
        )
    return Targets(device, tuple(gpu.uuid for gpu in gpus))


def _cuda_device(gpu: Gpu) -> torch.device:
    """Return CUDA's device for a GPU of NVML's; of a GPU in MIG mode, the slice of it that CUDA sees."""
    slices = [one.uuid for one in list_gpus() if one.parent_uuid == gpu.uuid]
    names = {bare(uuid) for uuid in (gpu.uuid, gpu.parent_uuid, *slices) if uuid is not None}
    seen = visible_gpus()
    for uuid, device in seen.items():
        if bare(uuid) in names:
            return device
    listed = ", ".join(f"{device} = {uuid}" for uuid, device in seen.items())
    raise DeviceError(
        f"CUDA does not see {gpu.uuid} ({gpu.name}) in this process, only {listed}: name one of these first, or "
        "change CUDA_VISIBLE_DEVICES"
    )


def open_meters(settings: RunSettings, gpus: Sequence[str]) -> MeterGroup:
    """Return the meters of the GPUs, not started; without GPUs that of the CPU. See `open_meter` for its errors.

    Raises:
        UsageError: two of the GPUs are slices of one whose energy would count twice, or the meter has no counter
            and is to be read at moments.

    """
    meters = [
        open_meter(
            settings.meter,
            gpu_uuid=gpu,
            watts=settings.watts,
            interval_s=settings.sample_interval_s,
            whole_gpu=settings.whole_gpu,
        )
        for gpu in gpus or (None,)
    ]
    devices = [meter.device for meter in meters]
    twice = [device for number, device in enumerate(devices) if device in devices[:number]]
    if twice:
        raise UsageError(f"--gpu-id names {twice[0]} twice, by its slices: its joules would count twice")
    group = MeterGroup(meters)
    if settings.sampling == "triggered":
        group.read()
    return group

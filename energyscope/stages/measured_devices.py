"""Where the model runs, which GPUs are measured, and by which meters.

CUDA and NVML number GPUs differently, so a GPU that is named in NVML's way is looked for among CUDA's by UUID:

    --gpu-id 1 -> NVML: GPU-1a9f... -> CUDA: cuda:0 -> the model runs there, and its meter reads GPU-1a9f...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from energyscope.errors import DeviceError, UsageError
from energyscope.loading.devices import cuda_uuid, pick_device, visible_gpus, why_no_gpu
from energyscope.loading.sharding.device_maps import map_devices, uses_host
from energyscope.metering.choice import open_meter
from energyscope.metering.group import MeterGroup
from energyscope.metering.host import NO_HOST, open_host
from energyscope.metering.meter import CPU
from energyscope.metering.nvml.devices import Gpu, bare, list_gpus, resolve_gpus
from energyscope.settings.run import RunSettings


@dataclass(frozen=True)
class MeasuredDevices:
    """The device that a model's inputs go to, and the UUIDs of the GPUs that are measured, the model's first.

    ``gpus`` is empty where the model runs on the CPU. ``devices`` are those that the model may take, the first
    that of its inputs: with a device map in the order of ``gpus``, without one that device alone.
    """

    device: torch.device
    gpus: tuple[str, ...]
    devices: tuple[torch.device, ...] = ()

    def __post_init__(self) -> None:
        """Without a device map, the model's device is all of them."""
        if not self.devices:
            object.__setattr__(self, "devices", (self.device,))


def find_devices(settings: RunSettings) -> MeasuredDevices:
    """Return what the settings' ``device``, ``gpu_id`` and ``device_map`` mean on this machine.

    Raises:
        UsageError: a GPU is unknown, two of these contradict each other, or the devices cannot do what was asked.
        DeviceError: CUDA does not see the GPU.
        MeterError: GPUs were named, and NVML cannot be used.

    """
    device_map = settings.device_map
    devices = _of_map(settings, device_map) if device_map else _of_device(settings)
    if devices.device.type != "cuda":
        _refuse_without_gpu(settings)
    return devices


def _of_device(settings: RunSettings) -> MeasuredDevices:
    device = pick_device(settings.device)
    if settings.gpu_id:
        return _named(settings, device)
    return MeasuredDevices(device, (cuda_uuid(device),) if device.type == "cuda" else ())


def _refuse_without_gpu(settings: RunSettings) -> None:
    if settings.whole_gpu:
        raise UsageError("--whole-gpu measures a GPU, and the model runs on the CPU: leave it out")
    if "cuda-graph" in settings.executions:
        raise UsageError(
            f"--execution {settings.execution} needs an NVIDIA GPU, and the model runs on the CPU: use eager"
        )


def _of_map(settings: RunSettings, device_map: str) -> MeasuredDevices:
    """Return all GPUs that a model may be spread over, in the order in which the map takes them."""
    if settings.gpu_id:
        named = _named(settings, pick_device(settings.device))
        uuids = dict(zip(map(_cuda_device, resolve_gpus(settings.gpu_id)), named.gpus, strict=True))
    else:
        uuids = {}
    devices = map_devices(device_map, settings.device, tuple(uuids))
    gpus = tuple(uuids.get(device) or cuda_uuid(device) for device in devices if device.type == "cuda")
    if "cuda-graph" in settings.executions and (len(gpus) > 1 or (gpus and uses_host(device_map))):
        where = f"{len(gpus)} GPUs" if len(gpus) > 1 else "host memory beside the GPU"
        raise UsageError(
            f"--execution {settings.execution} captures what one device does by itself, and --device-map "
            f"{device_map} may use {where}: use --execution eager"
        )
    return MeasuredDevices(devices[0], gpus, devices)


def _named(settings: RunSettings, by_device: torch.device) -> MeasuredDevices:
    if not torch.cuda.is_available():
        raise UsageError(f"--gpu-id measures GPUs, and the model runs on the CPU ({why_no_gpu()}): leave it out")
    if torch.version.hip is not None:
        raise UsageError("--gpu-id names NVIDIA's GPUs: with ROCm use --device cuda:N, or HIP_VISIBLE_DEVICES")
    gpus = resolve_gpus(settings.gpu_id)
    device = _cuda_device(gpus[0])
    if settings.device not in {"auto", "cuda"} and device != by_device:
        raise UsageError(
            f"--gpu-id {settings.gpu_id[0]} is {device} in this process, and --device {by_device} another GPU: "
            "give one of them"
        )
    return MeasuredDevices(device, tuple(gpu.uuid for gpu in gpus))


def _cuda_device(gpu: Gpu) -> torch.device:
    """Return CUDA's device for a GPU of NVML's; of a GPU in MIG mode, the slice of it that CUDA sees."""
    slices = [mig_slice.uuid for mig_slice in list_gpus() if mig_slice.parent_uuid == gpu.uuid]
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

    Beside GPUs whose joules are measured stands the counter of their host, where there is one to read.

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
    measured = any(meter.device != CPU and not meter.modelled for meter in meters)
    group = MeterGroup(meters, open_host() if measured else NO_HOST)
    if settings.sampling == "triggered":
        group.read()
    return group


def of_devices(group: MeterGroup, where: MeasuredDevices, devices: Sequence[torch.device]) -> MeterGroup:
    """Return the meters of the devices that a model was spread over, in their order; those of no map as they are.

    A map may leave a GPU empty that it could have used: its joules are not the model's.
    """
    if len(where.devices) < 2:
        return group
    by_device = dict(zip(where.devices, group.meters, strict=False))
    return MeterGroup([by_device[device] for device in devices if device in by_device], group.host)

"""GPUs and MIG slices by index, UUID or MIG id, and from CUDA to NVML: by UUID, since their numbers differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.errors import MeterError, UsageError
from energyscope.metering.nvml.binding import load_nvml
from energyscope.reasons import Reason, reason


@dataclass(frozen=True)
class Gpu:
    """A GPU or a MIG slice of one. ``index`` is NVML's, of the GPU; ``parent_uuid`` is None for a whole GPU.

    ``split`` says that a whole GPU is in MIG mode.
    """

    uuid: str
    index: int
    name: str
    mig: bool = False
    parent_uuid: str | None = None
    split: bool = False


def list_gpus() -> list[Gpu]:
    """Return all GPUs that this user may open, each followed by its MIG slices.

    Raises:
        MeterError: NVML cannot be used.

    """
    nvml = load_nvml()
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        raise MeterError(f"NVML cannot count the GPUs: {error}") from error
    return [gpu for index in range(count) for gpu in _at_index(nvml, index)]


def _at_index(nvml: Any, index: int) -> Iterator[Gpu]:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
    except nvml.NVMLError:
        return  # lost, or another container's: it cannot be measured, so it is not offered
    slices = list(_slices(nvml, handle))
    yield Gpu(uuid, index, name, split=bool(slices) or _in_mig_mode(nvml, handle))
    for slice_uuid, slice_name in slices:
        yield Gpu(slice_uuid, index, slice_name, mig=True, parent_uuid=uuid)


def _in_mig_mode(nvml: Any, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:
        return False  # boards that cannot be split do not know the question


def _slices(nvml: Any, handle: Any) -> Iterator[tuple[str, str]]:
    try:
        limit = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except nvml.NVMLError:
        return
    for number in range(limit):
        try:
            slice_handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            uuid, name = nvml.nvmlDeviceGetUUID(slice_handle), nvml.nvmlDeviceGetName(slice_handle)
        except nvml.NVMLError:
            continue  # no slice has this number
        yield uuid, name


def resolve_gpus(ids: Sequence[str]) -> list[Gpu]:
    """Return the devices that were asked for, in that order.

    Each id is NVML's index (``0``), a UUID or the beginning of one (``GPU-1a2b``, ``1a2b``), or a MIG id.

    Raises:
        UsageError: an id fits none or several, or two ids mean the same device.
        MeterError: NVML cannot be used.

    """
    gpus = list_gpus()
    chosen = [_resolve(name.strip(), gpus) for name in ids]
    repeated = [gpu.uuid for number, gpu in enumerate(chosen) if gpu in chosen[:number]]
    if repeated:
        raise UsageError(f"{repeated[0]} is named twice: its joules would count twice")
    return chosen


def _resolve(name: str, gpus: Sequence[Gpu]) -> Gpu:
    matches = [gpu for gpu in gpus if not gpu.mig and str(gpu.index) == name]
    matches = matches or [gpu for gpu in gpus if _begins(name.lower(), gpu)]
    if len(matches) > 1:
        matches = [gpu for gpu in matches if name.lower() in (gpu.uuid.lower(), bare(gpu.uuid))] or matches
    if len(matches) == 1:
        return matches[0]
    problem = f"{len(matches)} devices are called" if matches else "no GPU is called"
    raise UsageError(f"{problem} {name!r}; there are: {_listed(gpus)}")


def _begins(name: str, gpu: Gpu) -> bool:
    """Tell whether a name in lower case is the beginning of a UUID, with or without its ``GPU-`` or ``MIG-``."""
    if name.startswith(("gpu-", "mig-")):
        return len(name) > 4 and gpu.uuid.lower().startswith(name)
    return bool(name) and bare(gpu.uuid).startswith(name)


def bare(uuid: str) -> str:
    """Return a UUID in lower case without its ``GPU-`` or ``MIG-``."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


def _listed(gpus: Sequence[Gpu]) -> str:
    names = [f"{'' if gpu.mig else f'{gpu.index} = '}{gpu.uuid} ({gpu.name})" for gpu in gpus]
    return ", ".join(names) or "none"


def find_gpu(cuda_uuid: str) -> Gpu:
    """Return the device that CUDA knows by a UUID, with or without ``GPU-`` or ``MIG-`` before it.

    CUDA leaves the prefix out, so its UUID does not say whether it is that of a MIG slice.

    Raises:
        MeterError: NVML does not know it, or cannot be used.

    """
    gpus = list_gpus()
    for gpu in gpus:
        if bare(gpu.uuid) == bare(cuda_uuid):
            return gpu
    raise MeterError(f"NVML does not know the GPU that CUDA calls {cuda_uuid}; it knows: {_listed(gpus)}")


def measured_gpu(gpu: Gpu, *, whole_gpu: bool = False) -> tuple[str, Reason | None]:
    """Return the UUID of the GPU whose energy can be read, and a note on it, if one is due.

    Raises:
        MeterError: the energy of a MIG slice cannot be read, and the whole GPU was not asked for.

    """
    if not gpu.mig and not gpu.split:
        return gpu.uuid, None
    if not whole_gpu:
        what = "a MIG slice" if gpu.mig else "a GPU in MIG mode"
        raise MeterError(
            f"{gpu.uuid} is {what}: energy can only be read for the whole GPU with all of its slices; "
            "--whole-gpu measures that and labels it, or turn MIG off (nvidia-smi -mig 0)"
        )
    return gpu.parent_uuid or gpu.uuid, reason("whole-gpu-of-slice" if gpu.mig else "whole-gpu")

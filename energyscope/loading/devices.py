"""The device that a model goes to, and whether it has room."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.errors import DeviceError, UsageError
from energyscope.metering.amd.board import PREFIX

if TYPE_CHECKING:
    import torch

_CGROUP = Path("/sys/fs/cgroup")
_SMALL_PARAMETERS = 10_000_000  # below, threads wait for each other longer than they work


def pick_device(name: str) -> torch.device:
    """Return the device that ``auto``, ``cpu``, ``cuda`` or ``cuda:N`` means.

    Raises:
        UsageError: the name is none of these.
        DeviceError: there is no such GPU.

    """
    import torch

    kind, _, index = name.partition(":")
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if name != "auto" and (kind != "cuda" or (":" in name and not index.isdigit())):
        raise UsageError(f"{name!r} is not a device: use auto, cpu, cuda or cuda:N")
    if not torch.cuda.is_available():
        raise DeviceError(f"--device {name} needs an NVIDIA GPU, and {why_no_gpu()}: use --device cpu")
    number = int(index) if index else torch.cuda.current_device()
    if number >= torch.cuda.device_count():
        raise DeviceError(f"there is no {name}: this machine has {gpu_names()}")
    return torch.device("cuda", number)


@contextmanager
def fitting_threads(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Run a small model on one thread of the CPU, unless the environment says how many (``OMP_NUM_THREADS``)."""
    import torch

    before = torch.get_num_threads()
    small = sum(parameter.numel() for parameter in model.parameters()) < _SMALL_PARAMETERS
    if device.type == "cpu" and small and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def gpu_names() -> str:
    """Return the names of the GPUs that this process sees, for a message."""
    import torch

    return ", ".join(f"cuda:{number}" for number in range(torch.cuda.device_count()))


def why_no_gpu() -> str:
    """Return which of the three usual causes it is, for a message."""
    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        return "this torch was built without CUDA"
    if os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"}:
        return "CUDA_VISIBLE_DEVICES hides every GPU"
    return "torch finds none (does nvidia-smi see one?)"


def cuda_uuid(device: torch.device) -> str:
    """Return the UUID by which CUDA knows a GPU, without the ``GPU-`` or ``MIG-`` that NVML puts before it.

    CUDA and NVML may number GPUs differently, and CUDA_VISIBLE_DEVICES changes only CUDA's numbers. With ROCm it
    is ``AMD-`` and the UUID as ROCm writes it, or else the PCI address.
    """
    import torch

    properties = torch.cuda.get_device_properties(device)
    return str(properties.uuid) if torch.version.hip is None else PREFIX + _of_hip(properties)


def _of_hip(properties: Any) -> str:
    """Return the UUID of HIP's device, whose 16 bytes are its hexadecimal digits, else its PCI address.

    Boards without a number of their own have no such UUID, and older versions of torch tell no PCI address.
    """
    uuid = str(properties.uuid)
    digits = bytes.fromhex(uuid.replace("-", "")).decode("ascii", errors="replace").lower()
    if re.fullmatch(r"[0-9a-f]{16}", digits):
        return digits
    address = [getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    return uuid if None in address else ":".join(f"{number:02x}" for number in address).zfill(10)


def visible_gpus() -> dict[str, torch.device]:
    """Return the GPUs that this process may use, by their UUIDs (see `cuda_uuid`); none without CUDA."""
    import torch

    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return {cuda_uuid(device): device for device in devices}


def free_bytes(device: torch.device) -> int | None:
    """Return the memory that is free on the device, in bytes; None if the machine does not say."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else _free_host_bytes()


def usable_bytes(device: torch.device) -> int | None:
    """Return what this process could still use on the device (bytes): free, or held by PyTorch and not in use."""
    import torch

    free = free_bytes(device)
    if device.type != "cuda" or free is None:
        return free
    return free + int(torch.cuda.memory_reserved(device)) - int(torch.cuda.memory_allocated(device))


def _free_host_bytes() -> int | None:
    """Return the free memory of the machine or of the container around this process: whichever has less."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    try:
        limit = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        statistics = (_CGROUP / "memory.stat").read_text(encoding="ascii").split()
        if limit != "max":
            used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
            cached = int(statistics[statistics.index("inactive_file") + 1])  # given back under pressure
            return min(free, int(limit) - used + cached)
    except (OSError, ValueError):
        pass  # no container limit to respect
    return free


def require_room(needed: int, device: torch.device, name: str) -> None:
    """Refuse weights that cannot fit, before the machine starts to swap or the kernel kills the process.

    ``needed`` is in bytes; ``name`` is that of the weights in the message.

    Raises:
        DeviceError: less than ``needed`` is free.

    """
    free = free_bytes(device)
    if free is not None and needed > free:
        raise DeviceError(
            f"{name} needs about {gigabytes(needed)} of memory and {device} has {gigabytes(free)} free: "
            "use a smaller --precision or model, or another --device"
        )


def gigabytes(amount: int) -> str:
    """Return a number of bytes as text, in GB."""
    return f"{amount / 1e9:.1f} GB"

"""The NVML binding: loaded once, checked for the package that shadows it, its errors explained."""

from __future__ import annotations

from typing import Any

from energyscope.errors import MeterError
from energyscope.reasons import Reason, reason

NEEDED = ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetFieldValues", "nvmlDeviceGetMigMode")

# What to do about each of NVML's errors, by the name of its class in the binding.
ADVICE = {
    "NVMLError_DriverNotLoaded": "no NVIDIA driver is loaded: install one, or load it by running nvidia-smi",
    "NVMLError_LibraryNotFound": "is an NVIDIA driver installed? a container needs its `utility` capability",
    "NVMLError_LibRmVersionMismatch": "the driver was updated while the old one still runs: reboot",
    "NVMLError_NoPermission": "this user or container may not ask: have an administrator permit it",
    "NVMLError_NotSupported": "this GPU does not offer it",
    "NVMLError_FunctionNotFound": "the driver is too old for it: update the driver",
    "NVMLError_NotFound": "no such device is visible here",
    "NVMLError_GpuIsLost": "the GPU fell off the bus: see the kernel's log, reset the GPU or reboot",
    "NVMLError_ResetRequired": "the GPU must be reset before it can be used again",
}
LOST = ("NVMLError_GpuIsLost", "NVMLError_ResetRequired")


class LostGpuError(MeterError):
    """The GPU is gone: asking again is of no use."""


def load_nvml() -> Any:
    """Import and initialise NVML, and return the binding's module.

    Raises:
        MeterError: the binding, the library or the driver is missing or too old.

    """
    try:
        import pynvml
    except ImportError as error:
        raise MeterError(reason("nvml-missing").words) from error
    missing = [name for name in NEEDED if not hasattr(pynvml, name)]
    if missing:
        shadow = shadowed(pynvml)
        outdated = f"the NVML binding lacks {missing[0]}: pip install -U nvidia-ml-py"
        raise MeterError(shadow.words if shadow else outdated)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise explained("NVML cannot be used", error) from error
    return pynvml


def shadowed(binding: Any) -> Reason | None:
    """Return the problem if the module is the deprecated package instead of nvidia-ml-py; None if all is well.

    nvidia-ml-py installs a single file, ``pynvml.py``; the old package is a folder, which Python prefers.
    """
    return reason("nvml-shadowed") if hasattr(binding, "__path__") else None


def binding_problem() -> Reason | None:
    """Return what is wrong with the installed binding (missing or shadowed), None if nothing is."""
    try:
        import pynvml
    except ImportError:
        return reason("nvml-missing")
    return shadowed(pynvml)


def explained(what: str, error: Exception) -> MeterError:
    """Return one of NVML's errors as a MeterError: what failed, what to do, and NVML's name for it."""
    name = type(error).__name__
    kind = LostGpuError if name in LOST else MeterError
    return kind(f"{what} ({name}): {ADVICE.get(name, str(error))}")

"""One AMD GPU as AMD SMI shows it, found by the UUID or the PCI address that HIP has for it.

HIP, AMD SMI and ``HIP_VISIBLE_DEVICES`` number GPUs differently, so a number is never used.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

from energyscope.errors import MeterError
from energyscope.metering.counter.source import Counter, DeniedError
from energyscope.metering.nvml.neighbours import Usage

PREFIX = "AMD-"  # of ids; an NVIDIA GPU's are GPU-... and MIG-...
NOT_SUPPORTED, NO_PERMISSION = 2, 10  # AMDSMI_STATUS_...
ACCUMULATORS = ("energy_accumulator", "power")  # the second before AMD SMI 6.3
UUID_DIGITS = 16


def is_amd(gpu: str) -> bool:
    """Tell whether a GPU's id, as of `energyscope.loading.devices.cuda_uuid`, is of one of AMD's."""
    return gpu.startswith(PREFIX)


def load_amdsmi() -> Any:
    """Import and initialise AMD SMI, and return the binding's module.

    Raises:
        MeterError: the binding, its library or the driver is missing.

    """
    missing = MeterError(
        "the package amdsmi is missing: pip install 'energyscope-llm[amd]', or the one that ROCm brings "
        "(pip install /opt/rocm/share/amd_smi)"
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # where it prints that the library is missing
            import amdsmi
    except ImportError as error:
        raise missing from error
    except (KeyError, OSError, AttributeError) as error:  # what it raises without the library, or with another one
        raise MeterError(
            "the package amdsmi finds no libamd_smi.so that fits it: install ROCm's amd-smi-lib, and amdsmi "
            "in its version (ROCM_PATH names another folder than /opt/rocm)"
        ) from error
    _asked("AMD SMI cannot be used", amdsmi, amdsmi.amdsmi_init)
    return amdsmi


def _asked(what: str, amdsmi: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what AMD SMI answers.

    Raises:
        MeterError: it refuses, which is ``what`` in the message.

    """
    try:
        return call(*arguments)
    except amdsmi.AmdSmiException as error:
        code = getattr(error, "err_code", None)
        words = " ".join(str(getattr(error, "err_info", None) or error).split())
        if code == NO_PERMISSION:
            raise DeniedError(
                f"{what} ({words}): this user may not ask; add it to the groups render and video, "
                "or give the container /dev/kfd and /dev/dri"
            ) from error
        advice = ": this GPU does not offer it" if code == NOT_SUPPORTED else ""
        raise MeterError(f"{what} ({words}){advice}") from error


class AmdBoard(Counter):
    """The energy counter of one GPU, of whatever runs on it, and who uses it.

    ``place`` is the GPU's id: ``AMD-`` and its UUID (16 hexadecimal digits) or its PCI address.

    Raises:
        MeterError: AMD SMI cannot be used, does not know the GPU, or cannot tell its energy.

    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.domains = [place]
        self._amdsmi = load_amdsmi()
        self._handle = self._found(place.removeprefix(PREFIX))

    def _found(self, name: str) -> Any:
        handles = _asked("AMD SMI cannot list GPUs", self._amdsmi, self._amdsmi.amdsmi_get_processor_handles)
        known = [(handle, self._names(handle)) for handle in handles]
        address = next((names[:1] for _, names in known if name in names), None)
        there = [handle for handle, names in known if names[:1] == address]
        if len(there) == 1:
            return there[0]
        if there:
            raise MeterError(
                f"{name} is one of {len(there)} partitions of a GPU, and energy can only be read for all of them: "
                "end them (amd-smi set --gpu all --compute-partition SPX)"
            )
        listed = ", ".join(" = ".join(names) for _, names in known) or "none"
        raise MeterError(f"AMD SMI does not know the GPU that HIP calls {name}; it knows: {listed}")

    def _names(self, handle: Any) -> list[str]:
        """Return the PCI address of a GPU without its function, which HIP does not tell, and its UUIDs."""
        smi = self._amdsmi
        address = self._or_none(smi.amdsmi_get_gpu_device_bdf, handle)
        serial = (self._or_none(smi.amdsmi_get_gpu_asic_info, handle) or {}).get("asic_serial", "")
        numbering = getattr(smi, "amdsmi_get_gpu_enumeration_info", None)  # not before AMD SMI 6.4
        uuid = ((numbering and self._or_none(numbering, handle)) or {}).get("hip_uuid", "")
        names = [str(address).lower().rpartition(".")[0], uuid.lower().removeprefix("gpu-"), _digits(serial)]
        return list(dict.fromkeys(filter(None, names)))

    def _or_none(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self._amdsmi.AmdSmiException:
            return None

    def energy_mj(self) -> float:
        what = "the energy counter of this GPU cannot be read"
        shown = _asked(what, self._amdsmi, self._amdsmi.amdsmi_get_energy_count, self._handle)
        steps = next(shown[name] for name in ACCUMULATORS if name in shown)
        return float(steps * shown["counter_resolution"] / 1e3)  # a step is so many uJ

    def usage(self) -> Usage:
        """Return who uses the GPU; None where AMD SMI does not say."""
        smi = self._amdsmi
        processes = self._or_none(smi.amdsmi_get_gpu_process_list, self._handle)
        busy = (self._or_none(smi.amdsmi_get_gpu_activity, self._handle) or {}).get("gfx_activity")
        return Usage(
            processes=None if processes is None else [int(process["pid"]) for process in processes],
            utilisation=busy / 100 if isinstance(busy, int) else None,
            memory_used_bytes=self._or_none(
                smi.amdsmi_get_gpu_memory_usage, self._handle, smi.AmdSmiMemoryType.VRAM
            ),
        )


def _digits(serial: str) -> str:
    """Return a serial number as HIP's UUID has it, "" where it is unknown."""
    digits = serial.lower().removeprefix("0x").zfill(UUID_DIGITS)
    return "" if digits == "f" * UUID_DIGITS or not set(digits) <= set("0123456789abcdef") else digits

"""The meter that integrates the power that the nvidia-smi command prints in a loop."""

from __future__ import annotations

import sys
from typing import Any

from energyscope.errors import MeterError, UsageError
from energyscope.metering.nvml.neighbours import Neighbours, Usage
from energyscope.metering.power_meter import PowerMeter
from energyscope.metering.smi.query import ask, known_fields, mig_mode, number
from energyscope.reasons import Reason, reason

INTERVAL_S = 0.1
INSTANT_FIELD = "power.draw.instant"
NOT_ASKED = reason("activity-unknown", why="only the NVML meters read the GPU's counters")


class NvidiaSmiMeter(PowerMeter):
    """The power of one GPU as nvidia-smi samples it every ``interval_s`` (s), stamped on arrival, integrated.

    ``note`` is a note on the device; without one, this looks for MIG mode, which ``whole_gpu`` accepts.

    Raises:
        UsageError: the interval is not above 0.
        MeterError: the command is missing or reports no power, or the GPU is in MIG mode.

    """

    name = "nvidia-smi"

    def __init__(
        self, gpu_uuid: str, *, interval_s: float = INTERVAL_S, whole_gpu: bool = False, note: Reason | None = None
    ) -> None:
        if not interval_s >= 0.001:
            raise UsageError(f"nvidia-smi samples every millisecond at most, not every {interval_s:g} s")
        fields = known_fields(gpu_uuid)
        if note is None and mig_mode(gpu_uuid):
            if not whole_gpu:
                raise MeterError(f"{gpu_uuid} is in MIG mode: --whole-gpu measures and labels all of its slices")
            note = reason("whole-gpu")
        field = fields["reading_w"]
        self.interval_s = interval_s
        pairs = ",".join(f"{key}={field}" for key, field in fields.items())
        super().__init__(
            gpu_uuid,
            [sys.executable, "-m", "energyscope.metering.smi.sampler", gpu_uuid, str(interval_s), pairs],
            Neighbours(lambda: gpu_usage(gpu_uuid)),
            [reason("sampled-by-nvidia-smi", field=field, interval_s=interval_s), NOT_ASKED, note],
            field=f"{field} of nvidia-smi",
            averaged=field != INSTANT_FIELD,
            interval_s=interval_s,
        )

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "interval_s": self.interval_s}


def gpu_usage(uuid: str) -> Usage:
    """Return who uses a GPU, as nvidia-smi reports it; what it does not answer is None."""
    try:
        (answer,) = ask(uuid, ["utilization.gpu", "memory.used"])
        percent, used_mib = map(number, answer)
        pids = [number(row[0]) for row in ask(uuid, ["pid"], of="compute-apps")]
    except (MeterError, ValueError):
        return Usage(None, None, None)
    return Usage(
        processes=[int(pid) for pid in pids if pid is not None],
        utilisation=None if percent is None else percent / 100,
        memory_used_bytes=None if used_mib is None else int(used_mib * 2**20),
    )

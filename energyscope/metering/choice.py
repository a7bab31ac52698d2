"""The choice of a meter by its name on the command line."""

from __future__ import annotations

from energyscope.errors import UsageError
from energyscope.metering.meter import Meter

METERS = ("auto", "nvml", "modelled", "recorded")
DEFAULT_WATTS = 65.0


def open_meter(name: str, *, gpu_uuid: str | None, watts: float = DEFAULT_WATTS) -> Meter:
    """Return the meter of a name; ``auto`` takes NVML where the model runs on a GPU, else the modelled one.

    Raises:
        UsageError: there is no such meter, or it needs a GPU and the model runs on the CPU.
        MeterError: NVML cannot be used; it is never replaced silently.

    """
    if name not in METERS:
        raise UsageError(f"no meter is called {name!r} (known: {', '.join(METERS)})")
    if name == "recorded":
        raise UsageError("the recorded meter plays a trace back in tests: use energyscope.metering.recorded")
    if name == "auto":
        name = "nvml" if gpu_uuid else "modelled"
    if name == "modelled":
        from energyscope.metering.modelled import ModelledMeter

        return ModelledMeter(watts)
    if gpu_uuid is None:
        raise UsageError("the nvml meter measures GPUs, and the model runs on the CPU: use --meter modelled")
    from energyscope.metering.nvml import NvmlMeter

    return NvmlMeter(gpu_uuid)

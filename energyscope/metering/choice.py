"""The choice of a meter by its name on the command line, tried by calling and never by the GPU's generation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from energyscope.errors import MeterError, UsageError
from energyscope.reasons import Reason, join, reason

if TYPE_CHECKING:
    from energyscope.metering.meter import Meter
    from energyscope.metering.process_meter import WatchedMeter

METERS = ("auto", "nvml", "nvml-power", "nvidia-smi", "rapl", "modelled", "recorded")
ON_CPU = ("rapl",)
GPU_METERS = tuple(name for name in METERS if name not in ON_CPU)
MEASURING = ("nvml", "nvml-power", "nvidia-smi")  # in the order in which auto tries them
DEFAULT_WATTS = 65.0
DEFAULT_INTERVAL_S = 0.1


def open_meter(
    name: str,
    *,
    gpu_uuid: str | None,
    watts: float = DEFAULT_WATTS,
    interval_s: float = DEFAULT_INTERVAL_S,
    whole_gpu: bool = False,
) -> Meter:
    """Return the meter of a name; ``auto`` takes the best that answers, and on a CPU else the modelled one.

    Args:
        name: one of METERS.
        gpu_uuid: the GPU that is measured, by CUDA's UUID or NVML's; None where the model runs on the CPU.
        watts: what the modelled meter takes for the power (W).
        interval_s: how often nvidia-smi samples (s).
        whole_gpu: measure the whole GPU where the model runs on a slice of it (MIG).

    Raises:
        UsageError: there is no such meter, or it needs a GPU and the model runs on the CPU.
        MeterError: the meter cannot be used; none is ever replaced by the modelled one silently.

    """
    if name not in METERS:
        raise UsageError(f"no meter is called {name!r} (known: {', '.join(METERS)})")
    if name == "recorded":
        raise UsageError("the recorded meter plays a trace back: use energyscope.metering.recorded.RecordedMeter")
    if name == "modelled":
        from energyscope.metering.modelled import ModelledMeter

        return ModelledMeter(watts)
    if name in ON_CPU and gpu_uuid is not None:
        raise UsageError(f"the {name} meter measures the processor, and the model runs on a GPU: use --meter auto")
    if gpu_uuid is None:
        return _of_cpu(name, watts)
    uuid, note = _target(gpu_uuid, name, whole_gpu)
    opener = partial(_open, uuid=uuid, note=note, interval_s=interval_s, whole_gpu=whole_gpu)
    return _best(opener) if name == "auto" else opener(name)


def would_model(name: str, *, on_gpu: bool, watts: float = DEFAULT_WATTS) -> bool:
    """Return whether the meter of a name would model its joules.

    Raises:
        EnergyscopeError: on a CPU, as `open_meter`; of a GPU nothing is opened.

    """
    return name == "modelled" if on_gpu else open_meter(name, gpu_uuid=None, watts=watts).modelled


def _of_cpu(name: str, watts: float) -> Meter:
    from energyscope.metering.modelled import ModelledMeter
    from energyscope.metering.rapl.meter import RaplMeter

    if name == "rapl":
        return RaplMeter()
    if name != "auto":
        raise UsageError(
            f"the {name} meter measures GPUs, and the model runs on the CPU: use --meter rapl or --meter modelled"
        )
    try:
        meter = RaplMeter()
    except MeterError as error:
        why = reason("meter-unusable", error=error)
        return ModelledMeter(watts, choice=join([reason("cpu-not-metered"), why]))
    meter.choice = meter.prove()
    return meter


def _target(gpu_uuid: str, name: str, whole_gpu: bool) -> tuple[str, Reason | None]:
    """Return the UUID of the GPU to read, and a note on it.

    Where Python cannot reach NVML, nvidia-smi may still work; it looks for MIG by itself.
    """
    from energyscope.metering.nvml.binding import load_nvml
    from energyscope.metering.nvml.devices import find_gpu, measured_gpu

    try:
        load_nvml()
    except MeterError:
        if name not in ("auto", "nvidia-smi"):
            raise
        return gpu_uuid, None
    return measured_gpu(find_gpu(gpu_uuid), whole_gpu=whole_gpu)


def _open(name: str, uuid: str, note: Reason | None, interval_s: float, whole_gpu: bool) -> WatchedMeter:
    if name == "nvidia-smi":
        from energyscope.metering.smi.meter import NvidiaSmiMeter

        return NvidiaSmiMeter(uuid, interval_s=interval_s, whole_gpu=whole_gpu, note=note)
    from energyscope.metering.nvml.meter import NvmlMeter, NvmlPowerMeter

    return NvmlMeter(uuid, note=note) if name == "nvml" else NvmlPowerMeter(uuid, note=note)


def _best(opener: Callable[[str], WatchedMeter]) -> WatchedMeter:
    """Return the first meter that opens and proves that it works; its ``choice`` says why not an earlier one."""
    failures: list[str] = []
    for name in MEASURING:
        try:
            meter = opener(name)
            proof = meter.prove()
        except MeterError as error:
            failures.append(str(error))
        else:
            meter.choice = join([proof, *(reason("meter-unusable", error=error) for error in failures)])
            return meter
    raise MeterError(f"no meter can read this GPU ({'; '.join(failures)}): --meter modelled goes on without one")

"""The choice of a meter by its name on the command line, tried by calling and never by the GPU's generation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from energyscope.errors import MeterError, UsageError
from energyscope.metering.amd.board import is_amd
from energyscope.metering.counter.source import DeniedError
from energyscope.reasons import Reason, join, reason

if TYPE_CHECKING:
    from energyscope.metering.meter import Meter
    from energyscope.metering.process_meter import WatchedMeter

METERS = ("auto", "nvml", "nvml-power", "nvidia-smi", "amd", "rapl", "apple", "modelled", "recorded")
# in the order in which auto tries them
OF_NVIDIA = ("nvml", "nvml-power", "nvidia-smi")
OF_AMD = ("amd",)
OF_CPU = ("rapl", "apple")
OF_POWER = ("nvml-power", "nvidia-smi")  # without a counter
SERVER_METERS = tuple(name for name in METERS if name not in OF_CPU + OF_AMD)  # NVML finds a server's GPUs
DEFAULT_WATTS = 65.0
DEFAULT_INTERVAL_S = 0.1

Opener = Callable[[str], "WatchedMeter"]


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
        gpu_uuid: the GPU that is measured, as `energyscope.loading.devices.cuda_uuid` or NVML names it; None where
            the model runs on the CPU.
        watts: what the modelled meter takes for the power (W).
        interval_s: how often nvidia-smi samples (s).
        whole_gpu: measure the whole GPU where the model runs on a slice of it (MIG).

    Raises:
        UsageError: there is no such meter, or it is one of other devices.
        MeterError: the meter cannot be used; none is ever replaced by the modelled one silently.

    """
    if name not in METERS:
        raise UsageError(f"no meter is called {name!r} (known: {', '.join(METERS)})")
    if name == "recorded":
        raise UsageError("the recorded meter plays a trace back: use energyscope.metering.recorded.RecordedMeter")
    if name == "modelled":
        from energyscope.metering.modelled import ModelledMeter

        return ModelledMeter(watts)
    if gpu_uuid is None:
        return _of_cpu(name, watts)
    if name in OF_CPU:
        raise UsageError(f"the {name} meter measures the processor, and the model runs on a GPU: use --meter auto")
    if is_amd(gpu_uuid):
        return _of_amd(name, gpu_uuid)
    if name in OF_AMD:
        raise UsageError(f"the {name} meter measures AMD's GPUs, and this is one of NVIDIA: use --meter auto")
    uuid, note = _target(gpu_uuid, name, whole_gpu)
    opener = partial(_open, uuid=uuid, note=note, interval_s=interval_s, whole_gpu=whole_gpu)
    return _best_of_gpu(OF_NVIDIA, opener) if name == "auto" else opener(name)


def would_model(name: str, *, on_gpu: bool, watts: float = DEFAULT_WATTS) -> bool:
    """Return whether the meter of a name would model its joules.

    Raises:
        EnergyscopeError: on a CPU, as `open_meter`; of a GPU nothing is opened.

    """
    return name == "modelled" if on_gpu else open_meter(name, gpu_uuid=None, watts=watts).modelled


def _of_cpu(name: str, watts: float) -> Meter:
    from energyscope.metering.modelled import ModelledMeter

    if name in OF_CPU:
        return _open_processor(name)
    if name != "auto":
        raise UsageError(
            f"the {name} meter measures GPUs, and the model runs on the CPU: use --meter rapl or --meter modelled"
        )
    try:
        return processor_meter()
    except MeterError as error:
        why = reason("meter-unusable", error=error)
        return ModelledMeter(watts, choice=join([reason("cpu-not-metered"), why]))


def processor_meter() -> WatchedMeter:
    """Return the best meter of this machine's processor.

    Raises:
        MeterError: none can be used (`DeniedError`: there is one, and this user may not read it).

    """
    names = OF_CPU if sys.platform == "darwin" else OF_CPU[:1]
    meter, failures = _best(names, _open_processor)
    if meter is None:
        kind = DeniedError if any(isinstance(error, DeniedError) for error in failures) else MeterError
        raise kind("; ".join(map(str, failures)))
    return meter


def _open_processor(name: str) -> WatchedMeter:
    if name == "rapl":
        from energyscope.metering.rapl.meter import RaplMeter

        return RaplMeter()
    from energyscope.metering.apple import AppleMeter

    return AppleMeter()


def _of_amd(name: str, gpu: str) -> WatchedMeter:
    from energyscope.metering.amd.meter import AmdMeter

    if name == "amd":
        return AmdMeter(gpu)
    if name != "auto":
        raise UsageError(f"the {name} meter measures NVIDIA's GPUs, and this is one of AMD: use --meter auto")
    return _best_of_gpu(OF_AMD, lambda _: AmdMeter(gpu))


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


def _best(names: Sequence[str], opener: Opener) -> tuple[WatchedMeter | None, list[MeterError]]:
    """Return the first meter that opens and proves that it works, and why not those before."""
    failures: list[MeterError] = []
    for name in names:
        try:
            meter = opener(name)
            proof = meter.prove()
        except MeterError as error:
            failures.append(error)
        else:
            meter.choice = join([proof, *(reason("meter-unusable", error=error) for error in failures)])
            return meter, failures
    return None, failures


def _best_of_gpu(names: Sequence[str], opener: Opener) -> WatchedMeter:
    meter, failures = _best(names, opener)
    if meter is None:
        why = "; ".join(map(str, failures))
        raise MeterError(f"no meter can read this GPU ({why}): --meter modelled goes on without one")
    return meter

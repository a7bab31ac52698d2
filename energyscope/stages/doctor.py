"""Doctor: what can be measured on this machine, and what stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from energyscope.diagnostics.advice import advice
from energyscope.diagnostics.polling import effect_of_polling
from energyscope.diagnostics.sensor import load_test, processor_load, steady_load, step_test
from energyscope.errors import MeterError
from energyscope.loading.devices import pick_device
from energyscope.metering.amd.board import is_amd
from energyscope.metering.choice import OF_POWER, open_meter, processor_meter
from energyscope.metering.counter.source import DeniedError
from energyscope.metering.group import MeterGroup
from energyscope.metering.nvml.binding import binding_problem
from energyscope.metering.nvml.devices import list_gpus
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, join, reason
from energyscope.replay.calls import Call
from energyscope.replay.replayer import Replayer
from energyscope.stages.facts import device_facts, gpu_uuid
from energyscope.stages.reference import STAGE as REFERENCE
from energyscope.stages.reference import TAKES_S, kept_reference, measure_reference, outdated
from energyscope.stages.sampling_interval import SAMPLING_TAKES_S, sampling_interval

STAGE = "sensor"
AGREEMENT_S = 5.0  # of load, over which counter and power are compared
COUNTER_S = 5.0
POLLING_S = 10.0  # of load, in each way of polling


@dataclass(frozen=True)
class Measurement:
    """Something that is measured of a sensor, and about how long that takes (s)."""

    label: str
    seconds: float
    measure: Callable[[], dict[str, Any]]


def examine(
    device: str,
    *,
    thorough: bool = False,
    seconds: float = POLLING_S,
    reference: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Look at the device; of a GPU, its sensor as well, with a load of some seconds.

    ``thorough`` measures also whether counter and power agree, and what polling changes, for which the load runs
    ``seconds`` in each of three ways of polling; ``reference``, the reference workload. What is wrong becomes
    advice, never an error.

    Returns:
        ``device`` and ``sensor`` facts; ``advice`` and the ``verdict`` as reasons; the board's ``reference``
        (`energyscope.stages.reference.record_of`), an earlier one with the names of conditions that it is
        ``outdated`` in; None where there is none.

    Raises:
        DeviceError: the device that was asked for does not exist.

    """
    target = pick_device(device)
    facts = device_facts(target)
    uuid = gpu_uuid(target)
    found = (
        _of_processor(target, _unused_gpus(device), progress)
        if uuid is None
        else _of_gpu(uuid, target, facts, seconds if thorough else None, progress)
    )
    kept = (
        _measured_reference(target, facts, found, progress) if reference else _kept_reference(target, facts, found)
    )
    return {"device": facts, **found, "reference": kept}


def _of_gpu(
    uuid: str, target: torch.device, facts: dict[str, Any], polling_s: float | None, progress: Progress
) -> dict[str, Any]:
    """Look at a GPU's sensor, thoroughly where it is given how long each way of polling lasts (s)."""
    problem = None if is_amd(uuid) else binding_problem()
    sensor, verdict = {}, None
    try:
        sensor = _sensor(uuid, target, polling_s, progress)
    except MeterError as error:
        verdict = reason("energy-not-measurable", error=error)
    changes = [*([problem] if problem else []), *advice(facts, sensor)]
    return {"sensor": sensor, "advice": changes, "verdict": verdict or _verdict(sensor, changes)}


def _measured_reference(
    target: torch.device, facts: dict[str, Any], found: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    """Measure the reference workload by the sensor that was found; without one, say why it cannot be."""
    if found["sensor"].get("meter", "modelled") == "modelled":
        return {"energy_mj": None, "reason": found["verdict"]}
    try:
        with MeterGroup([open_meter("auto", gpu_uuid=gpu_uuid(target))]) as meter:
            progress(REFERENCE, f"the reference workload (about {TAKES_S:.0f} s)", 0, 1)
            return measure_reference(meter, target, facts, progress=progress)
    except MeterError as error:
        return {"energy_mj": None, "reason": reason("energy-not-measurable", error=error)}


def _kept_reference(target: torch.device, facts: dict[str, Any], found: dict[str, Any]) -> dict[str, Any] | None:
    kept, meter = kept_reference(facts), str(found["sensor"].get("meter"))
    return None if kept is None else {**kept, "outdated": outdated(kept, facts, meter, target)}


def _of_processor(target: torch.device, changes: list[Reason], progress: Progress) -> dict[str, Any]:
    """Look at the processor's energy counters; where they cannot be read, joules are modelled."""
    try:
        meter = processor_meter()
        progress(STAGE, f"the processor's counters (about {COUNTER_S:.0f} s)", 0, 1)
        sensor = load_test(meter, Replayer(target), processor_load())
    except MeterError as error:
        unusable = [reason("meter-unusable", error=error)]
        changes += unusable if isinstance(error, DeniedError) else []
        verdict = reason("energy-only-modelled")
        return {"sensor": {"meter": "modelled", "choice": join(unusable)}, "advice": changes, "verdict": verdict}
    changes += advice({}, sensor)
    return {"sensor": sensor, "advice": changes, "verdict": reason("processor-measurable")}


def _sensor(uuid: str, target: torch.device, polling_s: float | None, progress: Progress) -> dict[str, Any]:
    """Measure the sensor; thoroughly, where it is given how long each way of polling lasts (s)."""
    sensor: dict[str, Any] = {}
    replayer, load = Replayer(target), steady_load(target)
    if is_amd(uuid):
        progress(STAGE, f"the counter at rest and under load (about {COUNTER_S:.0f} s)", 0, 1)
        return load_test(open_meter("auto", gpu_uuid=uuid), replayer, load)
    measurements = _measurements(uuid, replayer, load, polling_s)
    for done, measurement in enumerate(measurements):
        progress(STAGE, f"{measurement.label} (about {measurement.seconds:.0f} s)", done, len(measurements))
        sensor |= measurement.measure()
    return sensor


def _measurements(
    uuid: str, replayer: Replayer, load: Sequence[Call], polling_s: float | None
) -> list[Measurement]:
    """Return what is measured of a sensor, in order.

    Without ``polling_s``, what fits into a verdict within 15 s, of which importing torch takes five.
    """
    test = partial(step_test, uuid, replayer, load)
    if polling_s is None:
        return [Measurement("a step of power", 8.0, test)]
    polling = partial(_polling, uuid, replayer, load, polling_s)
    return [
        Measurement("a step of power", 7.0 + AGREEMENT_S, partial(test, agreement_s=AGREEMENT_S)),
        Measurement("the effect of polling", 20.0 + 3 * polling_s, polling),
        Measurement("the interval of the sensor's samples", SAMPLING_TAKES_S, partial(_sampling, uuid, replayer)),
    ]


def _polling(uuid: str, replayer: Replayer, load: Sequence[Call], seconds: float) -> dict[str, Any]:
    return {"polling": effect_of_polling(uuid, replayer, load, seconds=seconds)}


def _sampling(uuid: str, replayer: Replayer) -> dict[str, Any]:
    """Find the interval (s) of the sensor's samples, again where it was known; None where it does not show."""
    with MeterGroup([open_meter("auto", gpu_uuid=uuid)]) as meter:
        return {"sampling_s": sampling_interval(meter, replayer.device, again=True)}


def _unused_gpus(device: str) -> list[Reason]:
    """Return advice where there is a GPU that torch cannot use; none for a CPU that was asked for."""
    if device == "cpu":
        return []
    try:
        names = [gpu.name for gpu in list_gpus()]
    except MeterError:
        return []  # neither torch nor NVML knows a GPU: there is none
    return [reason("gpu-unused-by-torch", gpus=len(names), first=names[0])] if names else []


def _verdict(sensor: dict[str, Any], changes: list[Reason]) -> Reason:
    if sensor["meter"] in OF_POWER:
        return reason("energy-from-power", meter=sensor["meter"])
    return reason("energy-measurable-with-advice" if changes else "energy-measurable")

"""Doctor: what can be measured on this machine, and what stands in the way."""

from __future__ import annotations

from typing import Any

import torch

from energyscope.diagnostics.advice import advice
from energyscope.diagnostics.sensor import STAGE, STEPS, characterise, idle_facts, steady_load
from energyscope.errors import MeterError
from energyscope.loading.devices import pick_device
from energyscope.metering.choice import open_meter
from energyscope.metering.nvml.binding import binding_problem
from energyscope.metering.nvml.devices import list_gpus
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, reason
from energyscope.replay.replayer import Replayer
from energyscope.stages.facts import device_facts, gpu_uuid

IDLE_S = 2.0


def examine(
    device: str, seconds: float = 10.0, *, quick: bool = False, progress: Progress = silent
) -> dict[str, Any]:
    """Look at the device and its sensor; on a GPU, with a load of its own unless ``quick``.

    ``seconds`` is how long the load runs in each way of polling. What is wrong becomes advice, never an error.

    Returns:
        ``device`` and ``sensor`` facts; ``advice`` and the ``verdict`` as reasons.

    Raises:
        DeviceError: the device that was asked for does not exist.

    """
    target = pick_device(device)
    facts = device_facts(target)
    uuid = gpu_uuid(target)
    if uuid is None:
        return {
            "device": facts,
            "sensor": {"meter": "modelled"},
            "advice": _unused_gpus(device),
            "verdict": reason("energy-only-modelled"),
        }
    problem = binding_problem()
    sensor, verdict = {}, None
    try:
        sensor = _sensor(uuid, target, seconds, quick=quick, progress=progress)
    except MeterError as error:
        verdict = reason("energy-not-measurable", error=error)
    changes = [*([problem] if problem else []), *advice(facts, sensor)]
    return {"device": facts, "sensor": sensor, "advice": changes, "verdict": verdict or _verdict(sensor, changes)}


def _sensor(uuid: str, target: torch.device, seconds: float, *, quick: bool, progress: Progress) -> dict[str, Any]:
    progress(STAGE, "idle", 0, 1 if quick else STEPS)
    with open_meter("auto", gpu_uuid=uuid) as meter:
        sensor = {**idle_facts(meter, IDLE_S), "bystanders": meter.bystanders(torch.cuda.memory_reserved(target))}
    if quick:
        return sensor
    return {
        **sensor,
        **characterise(uuid, Replayer(target), steady_load(target), seconds=seconds, progress=progress),
    }


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
    if sensor["meter"] != "nvml":
        return reason("energy-from-power", meter=sensor["meter"])
    return reason("energy-measurable-with-advice" if changes else "energy-measurable")

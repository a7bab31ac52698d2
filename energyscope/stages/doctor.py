"""Doctor: what can be measured on this machine, and what stands in the way."""

from __future__ import annotations

from typing import Any

import torch

from energyscope.errors import MeterError
from energyscope.loading.devices import pick_device
from energyscope.metering.choice import open_meter
from energyscope.metering.nvml.binding import binding_problem
from energyscope.metering.nvml.devices import list_gpus
from energyscope.progress import Progress, silent
from energyscope.replay.replayer import Replayer
from energyscope.sensing.advice import advice
from energyscope.sensing.sensor import STAGE, STEPS, characterise, idle_facts, steady_load
from energyscope.stages.facts import device_facts, gpu_uuid

IDLE_S = 2.0


def examine(
    device: str, seconds: float = 10.0, *, quick: bool = False, progress: Progress = silent
) -> dict[str, Any]:
    """Look at the device and its sensor; on a GPU, with a load of its own unless ``quick``.

    ``seconds`` is how long the load runs in each way of polling. What is wrong becomes advice, never an error,
    since saying what is wrong is what this is for.

    Returns:
        ``device`` and ``sensor`` facts, ``advice`` (a sentence each) and the ``verdict``.

    Raises:
        DeviceError: the device that was asked for does not exist.

    """
    target = pick_device(device)
    found: dict[str, Any] = {"device": device_facts(target), "sensor": {}, "advice": [], "verdict": ""}
    uuid = gpu_uuid(target)
    if uuid is None:
        found["sensor"] = {"meter": "modelled"}
        found["advice"] = _unused_gpus(device)
        found["verdict"] = "No GPU: joules would be MODELLED as time x stated watts, which says no more than time."
        return found
    problem = binding_problem()
    said = [problem] if problem else []
    try:
        found["sensor"] = _sensor(uuid, target, seconds, quick=quick, progress=progress)
    except MeterError as error:
        found["verdict"] = f"Energy cannot be measured here: {error}"
    found["advice"] = [*said, *advice(found["device"], found["sensor"])]
    found["verdict"] = found["verdict"] or _verdict(found["sensor"], found["advice"])
    return found


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


def _unused_gpus(device: str) -> list[str]:
    """Say so where there is a GPU and torch cannot use it; a CPU that was asked for needs no such word."""
    if device == "cpu":
        return []
    try:
        names = [gpu.name for gpu in list_gpus()]
    except MeterError:
        return []  # neither torch nor NVML knows a GPU: there is none
    if not names:
        return []
    sees = f"NVML sees {len(names)} GPU(s) ({names[0]}) and torch can use none"
    return [f"{sees}: install torch with CUDA, and see that CUDA_VISIBLE_DEVICES is not empty"]


def _verdict(sensor: dict[str, Any], said: list[str]) -> str:
    trouble = "with the reservations above" if said else "nothing stands in the way"
    how = "" if sensor["meter"] == "nvml" else f", from sampled power alone ({sensor['meter']})"
    return f"Energy can be measured here{how}: {trouble}."

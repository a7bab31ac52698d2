"""Doctor: what can be measured on this machine, and what stands in the way."""

from __future__ import annotations

import time
from typing import Any

from energyscope.errors import MeterError
from energyscope.loading.devices import pick_device
from energyscope.metering.choice import open_meter
from energyscope.metering.ticks import mean_power
from energyscope.stages.facts import device_facts, gpu_uuid


def examine(device: str, seconds: float) -> dict[str, Any]:
    """Look at the device and watch its energy counter for some seconds while nothing of ours runs.

    Returns:
        ``device`` and ``sensor`` facts, ``advice`` (a sentence each) and the ``verdict``.

    """
    target = pick_device(device)
    found: dict[str, Any] = {"device": device_facts(target), "sensor": {}, "advice": [], "verdict": ""}
    uuid = gpu_uuid(target)
    if uuid is None:
        found["sensor"] = {"meter": "modelled"}
        found["verdict"] = "No GPU: joules would be MODELLED as time x stated watts, which says no more than time."
        return found
    try:
        found["sensor"], found["advice"] = _watch(uuid, seconds)
    except MeterError as error:
        found["verdict"] = f"The energy counter cannot be used: {error}"
        return found
    if found["device"].get("mig"):
        found["advice"].append("MIG is on: the counter covers the whole GPU, not a slice; other slices count too")
    trouble = "with the reservations above" if found["advice"] else "nothing stands in the way"
    found["verdict"] = f"Energy can be measured here: {trouble}."
    return found


def _watch(uuid: str, seconds: float) -> tuple[dict[str, Any], list[str]]:
    with open_meter("nvml", gpu_uuid=uuid) as meter:
        begin = time.monotonic()
        time.sleep(seconds)
        end = time.monotonic()
        ticks = meter.ticks(begin, end)
        sensor = {**meter.describe(), "idle_w": mean_power(ticks, begin, end)}
        advice = meter.bystanders()
    period = sensor.get("tick_period_s")
    if period is not None and period > 0.25:
        advice.append(f"the counter ticks only every {period:.2f} s: use a longer --window")
    return sensor, advice

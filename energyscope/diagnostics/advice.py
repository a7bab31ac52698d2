"""What makes a GPU's numbers less reliable, and what to change. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from energyscope.metering.choice import OF_POWER
from energyscope.reasons import Reason, reason

SLOW_TICK_S = 0.25
DISAGREEMENT = 0.05  # of counter and power: boards are calibrated to about this
SLOWED = 0.01  # by polling
MISCOUNTED = 0.02  # by polling

Facts = Mapping[str, Any]


def advice(device: Facts, sensor: Facts) -> list[Reason]:
    """Return what to change, from the facts of a device and of its sensor.

    A fact that is None or missing is unknown, and gives no advice.
    """
    return [*_on_the_board(device), *_on_the_sensor(sensor), *_on_polling(sensor.get("polling") or {})]


def _on_the_board(device: Facts) -> Iterator[Reason]:
    if device.get("mig"):
        yield reason("mig-on")
    if device.get("persistence") in (0, False):
        yield reason("persistence-off")
    limit, default = device.get("power_limit_w"), device.get("default_power_limit_w")
    if limit is not None and default is not None and limit < default:
        yield reason("power-limit-lowered", limit_w=limit, default_w=default)


def _on_the_sensor(sensor: Facts) -> Iterator[Reason]:
    for other in sensor.get("bystanders") or ():
        yield reason("gpu-used-by-others", who=other)
    period = sensor.get("tick_period_s")
    if period is not None and period > SLOW_TICK_S:
        yield reason("slow-ticks", period_s=period, window_s=6 * period)
    if sensor.get("meter") in OF_POWER:
        yield reason("counter-unused", why=sensor.get("choice"))
    agreement = sensor.get("counter_power") or {}
    ratio = agreement.get("ratio")
    if ratio is not None and abs(ratio - 1) > DISAGREEMENT:
        yield reason("counter-disagrees", share=ratio, field=agreement["field"])


def _on_polling(polling: Facts) -> Iterator[Reason]:
    for poller, changes in polling.items():
        own = poller == "sampler"
        time, energy = changes.get("time"), changes.get("energy")
        if own and time is not None and _exceeds(time, SLOWED):
            yield reason("polling-changes-time", change=time["change"])
        if energy is not None and _exceeds(energy, MISCOUNTED):
            code = "polling-changes-energy" if own else "polling-alone-changes-energy"
            yield reason(code, change=energy["change"])


def _exceeds(change: Facts, limit: float) -> bool:
    """Tell whether a relative change is beyond a limit in either direction, and not by chance."""
    low, high = change.get("low"), change.get("high")
    significant = low is None or high is None or low > 0 or high < 0
    return bool(significant and abs(change["change"]) > limit)

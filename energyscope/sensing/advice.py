"""What stands in the way of a trustworthy number, and what to change: one sentence each. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SLOW_TICK_S = 0.25
DISAGREEMENT = 0.05  # of counter and power: boards are calibrated to about this
SLOWED = 0.01  # by polling
MISCOUNTED = 0.02  # by polling

Facts = Mapping[str, Any]


def advice(device: Facts, sensor: Facts) -> list[str]:
    """Return what to change, a sentence each, from the facts of a device and of its sensor.

    A fact that is None or missing is unknown, and says nothing.
    """
    return [*_on_the_board(device), *_on_the_sensor(sensor), *_on_polling(sensor.get("polling") or {})]


def _on_the_board(device: Facts) -> Iterator[str]:
    if device.get("mig"):
        yield (
            "MIG is on: energy is read for the whole GPU and counts all slices; "
            "use --whole-gpu for that, or turn MIG off (nvidia-smi -mig 0)"
        )
    if device.get("persistence") in (0, False):
        yield (
            "persistence mode is off: the driver may unload between programs, and idle power jumps when it does; "
            "turn it on as root (nvidia-smi -pm 1)"
        )
    limit, default = device.get("power_limit_w"), device.get("default_power_limit_w")
    if limit is not None and default is not None and limit < default:
        yield (
            f"the power limit is {limit:.0f} W, below this board's default of {default:.0f} W: heavy components "
            f"run at lower clocks than elsewhere; set it back as root (nvidia-smi -pl {default:.0f}), or say so"
        )


def _on_the_sensor(sensor: Facts) -> Iterator[str]:
    for one in sensor.get("bystanders") or ():
        yield f"{one}: its joules would count as yours; end it, or wait until it is done"
    period = sensor.get("tick_period_s")
    if period is not None and period > SLOW_TICK_S:
        yield f"the sensor ticks only every {period:.2f} s: give components time with --window {6 * period:.1f}"
    if sensor.get("meter") not in (None, "nvml"):
        yield f"the energy counter is not used ({sensor.get('choice')}): intervals will be wider"
    compared = sensor.get("counter_power") or {}
    ratio = compared.get("ratio")
    if ratio is not None and abs(ratio - 1) > DISAGREEMENT:
        yield (
            f"the counter shows {ratio:.0%} of the integrated {compared['field']} power: one of them is wrong or "
            "covers something else (memory, a module); compare --meter nvml with --meter nvml-power"
        )


def _on_polling(polling: Facts) -> Iterator[str]:
    for way, found in polling.items():
        sampler = way == "sampler"
        slowed, counted = found.get("time"), found.get("energy")
        if sampler and slowed is not None and _beyond(slowed, SLOWED):
            yield (
                f"watching the sensor changes the time of calls by {slowed['change']:+.1%}: "
                "look for a busy host; leave it two free cores"
            )
        if counted is not None and _beyond(counted, MISCOUNTED):
            how = "as energyscope does it" if sampler else "without a pause, as some tools do,"
            remedy = "use --meter nvml-power" if sampler else "run no other monitor beside energyscope"
            yield f"reading the counter {how} changes what it counts by {counted['change']:+.1%}: {remedy}"


def _beyond(change: Facts, limit: float) -> bool:
    low, high = change.get("low"), change.get("high")
    certain = low is None or high is None or low > 0 or high < 0
    return bool(certain and abs(change["change"]) > limit)

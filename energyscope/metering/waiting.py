"""What a stage waits for at its meters: power that has settled to idle, and a window's last tick."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from energyscope.metering.group import MeterGroup
from energyscope.metering.ticks import Calls
from energyscope.metering.window import Window

SETTLE_S = 0.8  # power falls to idle within this after a load
IDLE_S = 1.0
LAST_TICK_S = 0.008  # the sampler prints a tick a read later


class Clock(Protocol):
    """A monotonic clock (s), that of the meter's ticks and of the calls."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class HostClock:
    """The host's own."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


HOST = HostClock()


def let_settle(meter: MeterGroup, clock: Clock = HOST) -> None:
    """Wait until power has fallen to idle after a load; a modelled meter's follows the load at once."""
    if not meter.modelled:
        clock.sleep(SETTLE_S)


def measure_idle(
    meter: MeterGroup, own_bytes: Callable[[], Sequence[int | None]], clock: Clock = HOST
) -> dict[str, Any] | None:
    """Measure the idle power (W) once power has settled, and look for others while nothing of ours runs.

    The devices must have done all that was queued. ``own_bytes`` returns what this process holds on each.

    Returns:
        ``idle_w`` and ``bystanders``, a reason each, and ``host_idle_w`` where that is known; None on a modelled
        meter, which knows neither.

    """
    if meter.modelled:
        return None
    let_settle(meter, clock)
    begin, before = clock.now(), meter.host.read()
    clock.sleep(IDLE_S)
    host_w = meter.host.since(before).power_w
    power = meter.idle_w(begin, clock.now())
    host = {} if host_w is None else {"host_idle_w": host_w}
    return {"idle_w": power, **host, "bystanders": meter.bystanders(own_bytes())}


def read_windows(meter: MeterGroup, calls: Calls, clock: Clock = HOST, *, lead_s: float = 0.0) -> list[Window]:
    """Return each device's window of one replay (see `MeterGroup.windows`), once its last tick is printed."""
    if not meter.modelled:
        clock.sleep(max(0.0, float(calls.time_s[-1]) + LAST_TICK_S - clock.now()))
    return meter.windows(calls, lead_s)

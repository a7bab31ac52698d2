"""The processors of a GPU's machine: their counter, read at both ends of what the GPU's meter watches.

    host   read |------------ replay ------------| read     some microseconds each, by no process of its own
    GPU       |      |      |      |      |      |     ticks

It counts the packages and DRAM of the whole machine, whatever runs there. Its joules stand beside those of
components and are never added to them.
"""

from __future__ import annotations

from typing import Any

from energyscope.errors import MeterError
from energyscope.metering.meter import Reading
from energyscope.metering.rapl.meter import RaplMeter
from energyscope.metering.ticks import MAXIMUM_W
from energyscope.reasons import Reason, reason

UNKNOWN = Reading(None, None)


class HostCounter:
    """What the host draws between two reads. ``reason`` says why that is not known (any more); see `open_host`."""

    def __init__(self, meter: RaplMeter | None = None, why: Reason | None = None) -> None:
        self.reason = why
        self.domains = list(meter.counter.domains) if meter else []
        self._meter = meter

    def read(self) -> Reading:
        """Read the counter now; what is not known is None. A counter that fails once is read no more."""
        if self._meter is None:
            return UNKNOWN
        try:
            return self._meter.read()
        except MeterError as error:
            self._meter, self.reason = None, reason("meter-unusable", error=error)
            return UNKNOWN

    def since(self, before: Reading) -> Reading:
        """Return the energy (mJ) and the mean power (W) since a reading; None where they are not known."""
        now = self.read()
        if self._meter is None or None in (before.energy_mj, before.at_s, now.energy_mj, now.at_s):
            return UNKNOWN
        rise_mj = now.energy_mj - before.energy_mj  # type: ignore[operator]
        seconds = now.at_s - before.at_s  # type: ignore[operator]
        watts = rise_mj / 1e3 / max(seconds, 1e-9)
        if seconds > self._meter.counter.most_gap_s or watts > MAXIMUM_W:
            self.reason = reason("host-counter-began-again", seconds=seconds)
            return UNKNOWN
        return Reading(rise_mj, watts)

    def at_rest(self, before: Reading) -> dict[str, Any]:
        """Return `describe` with ``host_idle_w``, the mean power (W) since a reading, while nothing ran."""
        idle_w = self.since(before).power_w
        known = self.describe()
        return {**known, "host_idle_w": idle_w} if known else {}

    def describe(self) -> dict[str, Any]:
        """Return what is read and why not, for run.json; nothing where the host was not asked for."""
        asked = self._meter is not None or self.reason is not None
        return {"host_domains": self.domains, "host_reason": self.reason} if asked else {}


NO_HOST = HostCounter()  # not asked for


def open_host() -> HostCounter:
    """Return the counter of this machine's processors; where none can be read, it says why and knows nothing."""
    try:
        return HostCounter(RaplMeter())
    except MeterError as error:
        return HostCounter(why=reason("meter-unusable", error=error))

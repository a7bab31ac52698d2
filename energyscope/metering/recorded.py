"""A meter that plays a trace of ticks back through the real interface, so that tests need no GPU."""

from __future__ import annotations

from typing import Any

from energyscope.metering.meter import WithoutProcess
from energyscope.metering.ticks import Ticks


class RecordedMeter(WithoutProcess):
    """Hands out ticks that were recorded before; times are those of the trace (monotonic clock, s)."""

    name = "recorded"
    modelled = False

    def __init__(self, trace: Ticks, window_s: float = 0.4) -> None:
        self.trace = trace
        self.window_s = window_s

    def ticks(self, begin_s: float, end_s: float) -> Ticks:
        return self.trace.between(begin_s, end_s)

    def describe(self) -> dict[str, Any]:
        notes = ["played back from a recorded trace"]
        return {"meter": self.name, "modelled": False, "watts": None, "notes": notes}

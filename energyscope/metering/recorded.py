"""A meter that plays a trace of ticks back through the real interface, so that tests need no GPU."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from energyscope.metering.estimate import Ticks


class RecordedMeter:
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

    def states(self, begin_s: float, end_s: float) -> list[dict[str, Any]]:  # noqa: ARG002 - the contract's
        return []

    def bystanders(self) -> list[str]:
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

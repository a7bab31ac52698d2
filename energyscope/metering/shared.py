"""Meters that stay started over several runs: their sensor is characterised once, and their samplers go on."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from energyscope.metering.group import MeterGroup


class SharedGroup(MeterGroup):
    """Started meters as one run sees them: entering and leaving starts and stops nothing.

    What the meters saw before the run began is not the run's.
    """

    def __init__(self, started: MeterGroup) -> None:
        super().__init__(started.meters)
        self._since_s = 0.0

    def __enter__(self) -> Self:
        self._since_s = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the meters running for the next run."""

    def states(self, begin_s: float, end_s: float) -> list[dict[str, Any]]:
        """Return every device's state at its ticks since the run began."""
        return super().states(max(begin_s, self._since_s), end_s)

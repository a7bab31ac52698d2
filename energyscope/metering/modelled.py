"""A meter for machines without a readable GPU: time x stated watts. Every joule of it is MODELLED."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from energyscope.errors import UsageError
from energyscope.metering.meter import Reading, WithoutProcess
from energyscope.metering.ticks import Ticks
from energyscope.reasons import reason

PERIOD_S = 0.005


class ModelledMeter(WithoutProcess):
    """Ticks on an exact grid, with energy proportional to time by construction.

    It goes through the same estimator as a measured counter, so that everything behind it is exercised, but
    its joules say nothing that its microseconds do not.
    """

    name = "modelled"
    modelled = True
    window_s = 0.15  # of a shared host's noise, this much averages out

    def __init__(self, watts: float, *, choice: str | None = None) -> None:
        if not watts > 0:
            raise UsageError(f"--watts must be above 0, not {watts:g}")
        self.watts = watts
        self.choice = choice or reason("asked-for")

    def ticks(self, begin_s: float, end_s: float) -> Ticks:
        grid = np.arange(np.ceil(begin_s / PERIOD_S), np.floor(end_s / PERIOD_S) + 1) * PERIOD_S
        return Ticks(grid, grid, grid * self.watts * 1e3)

    def read(self) -> Reading:
        now = time.monotonic()
        return Reading(now * self.watts * 1e3, self.watts, now)

    def describe(self) -> dict[str, Any]:
        return {
            "meter": self.name,
            "modelled": True,
            "watts": self.watts,
            "choice": self.choice,
            "notes": [reason("modelled-joules", watts=self.watts)],
        }

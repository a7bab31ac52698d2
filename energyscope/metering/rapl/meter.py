"""The meter of a machine's processors: RAPL's counters of packages and DRAM, watched by a process of its own."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from energyscope.errors import MeterError
from energyscope.metering.meter import CPU, Reading
from energyscope.metering.process_meter import FIRST_TICKS_TIMEOUT_S, WatchedMeter
from energyscope.metering.rapl.load import OtherLoad
from energyscope.metering.rapl.powercap import Powercap, update_period_s
from energyscope.reasons import Reason, reason

CHANGES, STILL_S = 20, 1.0


class RaplMeter(WatchedMeter):
    """The energy of all processors of this machine and of their DRAM, whatever runs on them.

    ``root`` is the powercap tree (None: that of the environment, or the system's). The window holds a dozen ticks.

    Raises:
        MeterError: there are no counters, this user may not read them, or they stand still.

    """

    name = "rapl"
    window_s = 0.3
    silence = "the processor's energy counter has not changed"

    def __init__(self, root: Path | None = None) -> None:
        self.counters = Powercap(root)
        self.update_period_s = update_period_s(self.counters, changes=CHANGES, most_s=STILL_S)
        lacks_dram = not any(name.startswith("dram") for name in self.counters.names)
        super().__init__(
            CPU,
            [sys.executable, "-m", "energyscope.metering.rapl.sampler", str(self.counters.root)],
            OtherLoad(),
            [
                reason("processor-counters", domains=self.counters.names),
                reason("no-dram-counter") if lacks_dram else None,
            ],
        )

    def prove(self) -> Reason:
        return reason("counter-ticks", period_s=self.update_period_s)

    def read(self) -> Reading:
        begin_s = time.monotonic()
        energy_mj = self.counters.energy_mj()
        return Reading(energy_mj, None, (begin_s + time.monotonic()) / 2)

    def describe(self) -> dict[str, Any]:
        # the steps are far below the millijoules in which a tick's rise could show them
        return {**super().describe(), "energy_quantum_mj": None, "update_period_s": self.update_period_s}

    def _check_first_ticks(self) -> None:
        if not self.records:
            raise MeterError(f"the processor's energy counter did not change in {FIRST_TICKS_TIMEOUT_S:g} s")

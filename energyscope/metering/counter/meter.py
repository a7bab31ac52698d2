"""The meter of an energy counter that is read by a call: of a processor, or of a GPU."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from energyscope.errors import MeterError
from energyscope.metering.counter.sampler import REST_S
from energyscope.metering.counter.source import Counter, update_period_s
from energyscope.metering.load import OtherLoad
from energyscope.metering.meter import CPU, Reading
from energyscope.metering.process_meter import FIRST_TICKS_TIMEOUT_S, Others, WatchedMeter
from energyscope.reasons import Reason, reason

CHANGES, STILL_S = 20, 1.0


class CounterMeter(WatchedMeter):
    """The energy of all domains of a counter, which a process of its own watches.

    A window of 0.3 s holds a dozen ticks of a counter that changes every millisecond; of a slower one it is
    longer, for at least two full ticks.

    Raises:
        MeterError: the counter cannot be read, or it stands still.

    """

    silence = "the energy counter has not changed"

    def __init__(
        self, device: str, counter: Counter, neighbours: Others, notes: Sequence[Reason | None] = ()
    ) -> None:
        self.counter = counter
        self.update_period_s = update_period_s(counter, changes=CHANGES, most_s=STILL_S)
        self.window_s = max(0.3, 4.2 * (self.update_period_s + REST_S))
        kind = type(counter)
        sampler = [sys.executable, "-m", "energyscope.metering.counter.sampler"]
        super().__init__(
            device, [*sampler, f"{kind.__module__}:{kind.__name__}", counter.place], neighbours, notes
        )

    def prove(self) -> Reason:
        return reason("counter-ticks", period_s=self.update_period_s)

    def read(self) -> Reading:
        begin_s = time.monotonic()
        energy_mj = self.counter.energy_mj()
        return Reading(energy_mj, None, (begin_s + time.monotonic()) / 2)

    def describe(self) -> dict[str, Any]:
        # the steps are below the millijoules in which a tick's rise could show them
        return {**super().describe(), "energy_quantum_mj": None, "update_period_s": self.update_period_s}

    def _check_first_ticks(self) -> None:
        if not self.records:
            raise MeterError(f"the energy counter of {self.device} did not change in {FIRST_TICKS_TIMEOUT_S:g} s")


class ProcessorMeter(CounterMeter):
    """The energy of this machine's processor, whatever runs on it; ``note`` says whose counters these are."""

    def __init__(self, counter: Counter, note: Reason) -> None:
        lacks_dram = not any(name.startswith("dram") for name in counter.domains)
        super().__init__(CPU, counter, OtherLoad(), [note, reason("no-dram-counter") if lacks_dram else None])

"""The meter of a machine's processors: RAPL's counters of packages and DRAM."""

from __future__ import annotations

from pathlib import Path

from energyscope.metering.counter.meter import ProcessorMeter
from energyscope.metering.rapl.powercap import Powercap
from energyscope.reasons import reason


class RaplMeter(ProcessorMeter):
    """The energy of all processors of this machine and of their DRAM, whatever runs on them.

    ``root`` is the powercap tree (None: that of the environment, or the system's).

    Raises:
        MeterError: there are no counters, this user may not read them, or they stand still.

    """

    name = "rapl"

    def __init__(self, root: Path | None = None) -> None:
        counter = Powercap(root)
        super().__init__(counter, reason("processor-counters", domains=counter.domains))

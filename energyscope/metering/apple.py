"""The energy counters of Apple silicon, which macOS keeps for CPU, GPU and DRAM (package zeus-apple-silicon)."""

from __future__ import annotations

from typing import Any

from energyscope.errors import MeterError
from energyscope.metering.counter.meter import ProcessorMeter
from energyscope.metering.counter.source import Counter
from energyscope.reasons import reason

COUNTED = {"cpu": "cpu_total_mj", "gpu": "gpu_mj", "dram": "dram_mj"}  # fields of AppleEnergyMetrics


class AppleCounter(Counter):
    """The energies of CPU, GPU and DRAM of the chip as one counter; ``domains`` are those that it has.

    Raises:
        MeterError: the package is missing, or the chip shows no energy of its CPU.

    """

    def __init__(self, place: str = "") -> None:
        self.place = place  # a machine has one chip
        try:
            from zeus_apple_silicon import AppleEnergyMonitor
        except ImportError as error:
            raise MeterError(
                "the apple meter needs macOS on Apple silicon, and there the package zeus-apple-silicon: "
                "pip install 'energyscope-llm[apple]'"
            ) from error
        try:
            self._monitor = AppleEnergyMonitor()
        except RuntimeError as error:
            raise MeterError(f"macOS refuses the energy counters of this chip: {error}") from error
        shown = self._energies()
        self.domains = [domain for domain, field in COUNTED.items() if getattr(shown, field) is not None]
        if "cpu" not in self.domains:
            raise MeterError("macOS shows no energy counter of this chip's CPU: use --meter modelled")

    def _energies(self) -> Any:
        try:
            return self._monitor.get_cumulative_energy()
        except (RuntimeError, ValueError) as error:
            raise MeterError(f"the energy counters of this chip cannot be read: {error}") from error

    def energy_mj(self) -> float:
        shown = self._energies()
        return float(sum(getattr(shown, COUNTED[domain]) for domain in self.domains))

    def shown(self) -> float:
        return float(self._energies().cpu_total_mj)


class AppleMeter(ProcessorMeter):
    """The energy of this machine's chip, whatever runs on it.

    Raises:
        MeterError: as `AppleCounter`, or the counters stand still.

    """

    name = "apple"

    def __init__(self) -> None:
        counter = AppleCounter()
        super().__init__(counter, reason("apple-counters", domains=counter.domains))

"""What the meters have in common that integrate readings of power."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from energyscope.errors import MeterError
from energyscope.metering.nvml.neighbours import Neighbours
from energyscope.metering.nvml.sampler import REFRESH_S
from energyscope.metering.power import PowerIntegral
from energyscope.metering.watched import FIRST_TICKS_TIMEOUT_S, Record, WatchedMeter
from energyscope.reasons import Reason, reason

INSTANT_S = 0.1  # a reading of the instant power stands for at most one refresh
AVERAGE_S = 1.0  # measured: the averaged fields are moving averages over one second
GAP_S = 1.0


class PowerMeter(WatchedMeter):
    """Integrates power to cumulative energy (mJ), with the sensor's averaging window taken back.

    ``field`` is the name of what is read; ``averaged`` says that it is a moving average over a second;
    ``interval_s`` is the time between two readings. ``window_s`` is counted from ``settle_s`` on, when the
    readings have forgotten the load before; it holds a whole averaging window between the ticks that are used.
    """

    def __init__(
        self,
        device: str,
        command: Sequence[str],
        neighbours: Neighbours,
        notes: Sequence[str],
        *,
        field: str,
        averaged: bool,
        interval_s: float = REFRESH_S,
    ) -> None:
        averaging = [reason("averaged-power", seconds=AVERAGE_S)] if averaged else []
        super().__init__(device, command, neighbours, [*notes, *averaging])
        self.field = field
        self.averaging_s = AVERAGE_S if averaged else INSTANT_S
        step = max(interval_s, REFRESH_S)
        self.settle_s = self.averaging_s + step
        self.window_s = max(4.2 * step, self.averaging_s + 3 * step)
        self.gap_s = max(GAP_S, 5 * interval_s)
        self._integral = PowerIntegral(self.averaging_s)

    def prove(self) -> Reason:
        return reason("power-answers", field=self.field)  # it was asked for when this meter was made

    def _check_first_ticks(self) -> None:
        if not self.records:
            raise MeterError(f"no reading of power came in {FIRST_TICKS_TIMEOUT_S:g} s: try another --meter")

    def _completed(self, record: Record) -> Record:
        """Add the energy. Its time is exact by construction: the integral runs to that very moment.

        A gap between readings is marked like a reset: what was drawn in it is not known.
        """
        at_s = (record["before_s"] + record["after_s"]) / 2
        gap = bool(self.records) and at_s - self.records[-1]["after_s"] > self.gap_s
        energy_mj = self._integral.add(at_s, record["reading_w"])
        return {**record, "before_s": at_s, "after_s": at_s, "energy_mj": energy_mj, "reset": gap}

    def describe(self) -> dict[str, Any]:
        facts = {"energy_quantum_mj": None, "averaging_s": self.averaging_s, "power_field": self.field}
        return {**super().describe(), **facts}

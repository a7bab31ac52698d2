"""Meters that integrate readings of power to cumulative energy, with the sensor's averaging taken back.

A reading at t is the mean of the power over the W seconds before it: P(t) = (E(t) - E(t - W)) / W. So

    E(t) = E(t - W) + W P(t)

which is the running sum that undoes a moving average. E(t - W) is interpolated between the readings around it;
the power before the first reading is taken to be what that reading says. Where readings are further apart than
W, the one before stands for the time between that no reading covers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from energyscope.errors import MeterError
from energyscope.metering.nvml.neighbours import Neighbours
from energyscope.metering.nvml.sampler import REFRESH_S
from energyscope.metering.process_meter import FIRST_TICKS_TIMEOUT_S, SILENT_S, Record, WatchedMeter
from energyscope.reasons import Reason, reason

INSTANT_S = 0.1  # a reading of the instant power stands for at most one refresh
AVERAGE_S = 1.0  # measured: the averaged fields are moving averages over one second
GAP_S = 1.0
STUCK_S = 10.0  # of one and the same reading: the least load, and the noise of any sensor, change it sooner


class PowerIntegral:
    """The integral of power readings, one by one; ``averaging_s`` is W above.

    Exact at the readings for any load that was steady for one window before the first of them, where the window
    is a multiple of the time between readings. Otherwise a step of D watts between readings R apart is off by at
    most D R / 4.
    """

    def __init__(self, averaging_s: float) -> None:
        if not averaging_s >= 0:
            raise ValueError(f"an averaging window cannot be {averaging_s} s")
        self.averaging_s = averaging_s
        self._time_s: list[float] = []
        self._energy_mj: list[float] = []
        self._first_mw = self._last_mw = 0.0

    def add(self, time_s: float, power_w: float) -> float:
        """Add the reading at a time and return the energy (mJ) since the first one.

        Raises:
            ValueError: times go backwards.

        """
        energy = self._energy_at(time_s, power_w * 1e3)
        self._last_mw = power_w * 1e3
        self._time_s.append(time_s)
        self._energy_mj.append(energy)
        return energy

    def _energy_at(self, time_s: float, milliwatts: float) -> float:
        if not self._time_s:
            self._first_mw = milliwatts
            return 0.0
        last_s, last_mj = self._time_s[-1], self._energy_mj[-1]
        if time_s < last_s:
            raise ValueError("readings must be in the order of time")
        uncovered_s = time_s - self.averaging_s - last_s
        if uncovered_s >= 0:
            return last_mj + uncovered_s * self._last_mw + self.averaging_s * milliwatts
        corrected = self._known(time_s - self.averaging_s) + self.averaging_s * milliwatts
        return max(corrected, last_mj)  # noise and a wrong window must not make energy run backwards

    def _known(self, time_s: float) -> float:
        """Return the energy (mJ) at a time before the last reading."""
        if time_s <= self._time_s[0]:
            return (time_s - self._time_s[0]) * self._first_mw
        right = bisect_left(self._time_s, time_s)
        left_s, right_s = self._time_s[right - 1], self._time_s[right]
        share = (time_s - left_s) / (right_s - left_s)
        return self._energy_mj[right - 1] + share * (self._energy_mj[right] - self._energy_mj[right - 1])


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
        notes: Sequence[Reason | None],
        *,
        field: str,
        averaged: bool,
        interval_s: float = REFRESH_S,
    ) -> None:
        averaging = reason("averaged-power", seconds=AVERAGE_S) if averaged else None
        super().__init__(device, command, neighbours, [*notes, averaging])
        self.field = field
        self.averaging_s = AVERAGE_S if averaged else INSTANT_S
        step = max(interval_s, REFRESH_S)
        self.settle_s = self.averaging_s + step
        self.window_s = max(4.2 * step, self.averaging_s + 3 * step)
        self.gap_s = max(GAP_S, 5 * interval_s)
        self.silent_s = max(SILENT_S, 5 * interval_s)
        self.stuck_s = max(STUCK_S, 20 * interval_s)
        self._integral = PowerIntegral(self.averaging_s)
        self._same_since_s = 0.0

    def prove(self) -> Reason:
        return reason("power-answers", field=self.field)  # it was asked for when this meter was made

    def _check_first_ticks(self) -> None:
        if not self.records:
            raise MeterError(f"no reading of power came in {FIRST_TICKS_TIMEOUT_S:g} s: try another --meter")

    def _completed(self, record: Record) -> Record:
        """Add the energy. Its time is exact by construction: the integral runs to that very moment.

        A gap between readings is marked like a reset, and so is a reading that does not change: the energy drawn
        meanwhile is unknown.
        """
        at_s = (record["before_s"] + record["after_s"]) / 2
        gap = bool(self.records) and at_s - self.records[-1]["after_s"] > self.gap_s
        if not self.records or gap or record["reading_w"] != self.records[-1]["reading_w"]:
            self._same_since_s = at_s
        stuck = at_s - self._same_since_s > self.stuck_s
        energy_mj = self._integral.add(at_s, record["reading_w"])
        return {**record, "before_s": at_s, "after_s": at_s, "energy_mj": energy_mj, "reset": gap or stuck}

    def _require_readings(self) -> None:
        """Raise a MeterError as well where readings do not change: at rest and under load a sensor's differ."""
        super()._require_readings()
        if self.records and self.records[-1]["after_s"] - self._same_since_s > 3 * self.stuck_s:
            watts = self.records[-1]["reading_w"]
            raise MeterError(
                f"{self.field} has shown {watts:g} W for over {3 * self.stuck_s:.0f} s, at rest and under load: "
                "it is stuck; another --meter may work"
            )

    def describe(self) -> dict[str, Any]:
        facts = {"energy_quantum_mj": None, "averaging_s": self.averaging_s, "power_field": self.field}
        return {**super().describe(), **facts}

"""From readings of power to cumulative energy, with the sensor's averaging taken back. Pure.

A reading at t is the mean of the power over the W seconds before it: P(t) = (E(t) - E(t - W)) / W. So

    E(t) = E(t - W) + W P(t)

which is the running sum that undoes a moving average. E(t - W) is interpolated between the readings around it;
the power before the first reading is taken to be what that reading says. Where readings are further apart than
W, the one before stands for the time between that no reading covers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from energyscope.metering.ticks import Array


class PowerIntegral:
    """The integral of power readings, one by one; ``averaging_s`` is W above."""

    def __init__(self, averaging_s: float) -> None:
        if not averaging_s >= 0:
            raise ValueError(f"an averaging window cannot be {averaging_s} s")
        self.averaging_s = averaging_s
        self._time_s: list[float] = []
        self._energy_mj: list[float] = []
        self._first_mw = self._last_mw = 0.0

    def add(self, time_s: float, power_w: float) -> float:
        """Take the reading at a time and return the energy (mJ) since the first one.

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
        """Return the energy (mJ) at a time that lies before the last reading."""
        if time_s <= self._time_s[0]:
            return (time_s - self._time_s[0]) * self._first_mw
        right = bisect_left(self._time_s, time_s)
        left_s, right_s = self._time_s[right - 1], self._time_s[right]
        share = (time_s - left_s) / (right_s - left_s)
        return self._energy_mj[right - 1] + share * (self._energy_mj[right] - self._energy_mj[right - 1])


def integrate_power(
    time_s: Sequence[float] | Array, power_w: Sequence[float] | Array, averaging_s: float
) -> Array:
    """Return the energy (mJ, from 0) at each of the readings.

    Args:
        time_s: when each reading was taken, in order; shape (readings,).
        power_w: the readings, each the mean over the last ``averaging_s``; shape (readings,).
        averaging_s: the sensor's averaging window (s).

    Exact at the readings for any load that was steady for one window before the first of them, where the window
    is a multiple of the time between readings. Otherwise a step of D watts between readings R apart is off by at
    most D R / 4.

    """
    integral = PowerIntegral(averaging_s)
    return np.array([integral.add(float(t), float(w)) for t, w in zip(time_s, power_w, strict=True)], dtype=float)

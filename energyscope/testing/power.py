"""The power of a simulated board over time, and the joules that follow from it exactly."""

from __future__ import annotations

import numpy as np

from energyscope.metering.ticks import Array

AVERAGING_STEPS = 64


class PowerTrace:
    """Piecewise constant power (W) on a time line (s) that grows at its end; beyond it, the nearest power holds.

    The truth of every simulation: ``energy_j`` is exact, whatever a sensor makes of it.
    """

    def __init__(self, begin_s: float) -> None:
        self.times_s = [begin_s]
        self.watts: list[float] = []

    @property
    def end_s(self) -> float:
        return self.times_s[-1]

    def extend(self, seconds: float, watts: float) -> None:
        """Draw some power for some more seconds."""
        if seconds <= 0:
            return
        if self.watts and self.watts[-1] == watts:
            self.times_s[-1] += seconds
        else:
            self.times_s.append(self.end_s + seconds)
            self.watts.append(watts)

    def energy_j(self, time_s: Array) -> Array:
        """Return the joules drawn since the begin at given times, shape (times,); negative before it."""
        knots, watts = np.array(self.times_s), np.array(self.watts)
        joules = np.concatenate([[0.0], np.cumsum(watts * np.diff(knots))])
        segment = np.clip(np.searchsorted(knots, time_s, side="right") - 1, 0, len(watts) - 1)
        energy: Array = joules[segment] + watts[segment] * (time_s - knots[segment])
        return energy

    def averaged_j(self, time_s: Array, averaging_s: float) -> Array:
        """Return the joules that a moving average of the power over ``averaging_s`` integrates to.

        It is the mean of the energy over the last ``averaging_s``: swapping the order of the two integrals.
        """
        if averaging_s <= 0:
            return self.energy_j(time_s)
        steps = (np.arange(AVERAGING_STEPS) + 0.5) / AVERAGING_STEPS * averaging_s
        sampled = self.energy_j((time_s[:, None] - steps).ravel())
        mean: Array = sampled.reshape(len(time_s), AVERAGING_STEPS).mean(axis=1)
        return mean

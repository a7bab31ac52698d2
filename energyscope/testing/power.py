"""The power of a simulated board over time, and the joules that follow from it exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from energyscope.metering.ticks import Array

AVERAGING_STEPS = 64
Energy = Callable[[Array], Array]  # times (s) -> joules drawn since some begin
Pattern = Sequence[tuple[float, float]]  # seconds and watts, one after the other


class PowerTrace:
    """Piecewise constant power (W) on a time line (s) that grows at its end; beyond it, the nearest power holds.

    The truth of every simulation: ``energy_j`` is exact, whatever a sensor makes of it. A pattern that repeats
    is one stretch of its mean power here, and its knots are kept beside it.
    """

    def __init__(self, begin_s: float) -> None:
        self.times_s = [begin_s]
        self.watts: list[float] = []
        self._patterns: dict[int, tuple[Array, Array]] = {}  # by stretch: knots (s) and joules of one period

    @property
    def end_s(self) -> float:
        return self.times_s[-1]

    def extend(self, seconds: float, watts: float) -> None:
        """Draw some power for some more seconds."""
        if seconds <= 0:
            return
        if self.watts and self.watts[-1] == watts and len(self.watts) - 1 not in self._patterns:
            self.times_s[-1] += seconds
        else:
            self.times_s.append(self.end_s + seconds)
            self.watts.append(watts)

    def repeat(self, pattern: Pattern, times: float) -> None:
        """Draw a pattern of power over and over, so many times; a part of it may be the last."""
        seconds, watts = np.array(pattern, dtype=float).T
        knots, joules = (
            np.concatenate([[0.0], seconds.cumsum()]),
            np.concatenate([[0.0], (seconds * watts).cumsum()]),
        )
        whole = np.floor(times)
        for periods, length in ((whole, whole * knots[-1]), (times - whole, (times - whole) * knots[-1])):
            if length <= 0:
                continue
            drawn = joules[-1] / knots[-1] if periods >= 1 else np.interp(length, knots, joules) / length
            self.times_s.append(self.end_s + float(length))
            self.watts.append(float(drawn))
            if len(set(watts)) > 1:
                self._patterns[len(self.watts) - 1] = (knots, joules)

    def energy_j(self, time_s: Array) -> Array:
        """Return the joules drawn since the begin at given times, shape (times,); negative before it."""
        knots, watts = np.array(self.times_s), np.array(self.watts)
        joules = np.concatenate([[0.0], np.cumsum(watts * np.diff(knots))])
        segment = np.clip(np.searchsorted(knots, time_s, side="right") - 1, 0, len(watts) - 1)
        energy: Array = joules[segment] + watts[segment] * (time_s - knots[segment])
        for index, (inner_s, inner_j) in self._patterns.items():
            here = (segment == index) & (time_s < knots[index + 1])
            if here.any():
                periods, phase = np.divmod(time_s[here] - knots[index], inner_s[-1])
                energy[here] = joules[index] + periods * inner_j[-1] + np.interp(phase, inner_s, inner_j)
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


class Sampled:
    """The joules that a board adds up from samples of its power; of ever later times, as a sensor asks for them.

    Each sample is the mean power over ``aperture_s`` before it (0: a hundredth of the interval), and stands for
    the whole ``interval_s`` since the sample before.
    """

    def __init__(self, energy_j: Energy, begin_s: float, interval_s: float, aperture_s: float = 0.0) -> None:
        self._energy_j = energy_j
        self._next_s = begin_s
        self._interval_s = interval_s
        self._aperture_s = aperture_s or 0.01 * interval_s
        self._times = np.zeros(0)
        self._joules = np.zeros(0)

    def __call__(self, time_s: Array) -> Array:
        """Return the joules that were added up by given times (s), shape (times,)."""
        if len(time_s) and float(time_s.max()) >= self._next_s:
            times = np.arange(self._next_s, float(time_s.max()) + 0.5 * self._interval_s, self._interval_s)
            drawn = self._energy_j(times) - self._energy_j(times - self._aperture_s)
            before = self._joules[-1] if len(self._joules) else float(self._energy_j(times[:1])[0])
            added = np.cumsum(drawn / self._aperture_s * self._interval_s)
            self._times = np.concatenate([self._times, times])
            self._joules = np.concatenate([self._joules, before + added])
            self._next_s = float(times[-1]) + self._interval_s
        position = np.searchsorted(self._times, time_s, side="right") - 1
        return np.where(position >= 0, self._joules[np.maximum(position, 0)], self._joules[:1])

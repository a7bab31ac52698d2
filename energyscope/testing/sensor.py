"""A simulated energy counter: what a sampler process sees of joules that are known."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from energyscope.metering.ticks import Array, Calls, Ticks
from energyscope.testing.power import Energy, PowerTrace, Sampled

LONGEST_FAILURE = 1.5  # periods for which reads may fail at once
SHORTEST_PERIOD = 0.1  # of a period: however much the ticks scatter, they keep their order


@dataclass(frozen=True)
class SimulatedSensor:
    """How an energy counter shows the energy of a board, and how it is read.

    It is renewed every ``period_s`` at a random phase (or at multiples of the period after ``phase_s``), each
    time with an independent error of ``jitter_s`` (standard deviation) and an error of ``wander_s`` that adds
    up; ``period_drift`` is the relative change of the period per minute. It shows the energy as it was ``lag_s``
    ago, of power averaged over ``averaging_s``, in steps of ``quantum_mj``; each tick's rise is off by ``noise``
    (relative standard deviation). With ``sampling_s`` the board adds up samples of its power that it takes at this
    interval, each over ``aperture_s``, and not the power itself.

    Each tick is seen within ``read_s`` (the width of its bracket). ``failed_reads`` is the share of ticks around
    which reading fails, for up to 1.5 periods. The counter begins at ``start_mj``, wraps at ``wrap_mj``,
    restarts from zero at ``reset_at_s``, and shows ``glitch_mj`` too much in the first tick after ``glitch_at_s``.
    """

    period_s: float = 0.1
    phase_s: float | None = None
    jitter_s: float = 0.0
    wander_s: float = 0.0
    period_drift: float = 0.0
    quantum_mj: float = 1.0
    lag_s: float = 0.0
    averaging_s: float = 0.0
    sampling_s: float = 0.0
    aperture_s: float = 0.0
    noise: float = 0.0
    read_s: float = 0.0045
    failed_reads: float = 0.0
    start_mj: float = 1e6
    wrap_mj: float | None = None
    reset_at_s: float | None = None
    glitch_at_s: float | None = None
    glitch_mj: float = 162e6
    seed: int = 0

    @property
    def settle_s(self) -> float:
        """How long after a step of power the counter still shows the power before (s)."""
        return self.lag_s + self.averaging_s

    def counted(self, energy_j: Energy, begin_s: float) -> Energy:
        """Return the joules that the board counts, from ``begin_s`` on, of those that it draws."""
        if not self.sampling_s:
            return energy_j
        phase_s = random.Random(self.seed).uniform(0, self.sampling_s)
        return Sampled(energy_j, begin_s - self.sampling_s + phase_s, self.sampling_s, self.aperture_s)


class Watch:
    """One sensor, watched from a time on as the sampler does: its ticks grow with time and never change."""

    def __init__(self, sensor: SimulatedSensor, begin_s: float, energy_j: Energy) -> None:
        self.sensor = sensor
        self._random = random.Random(sensor.seed)
        phase = self._random.uniform(0, sensor.period_s) if sensor.phase_s is None else sensor.phase_s
        self._begin_s = begin_s
        self._grid_s = begin_s + phase
        self._next_s = self._grid_s + self._scatter(sensor.jitter_s)
        self._last_j = float(energy_j(np.array([begin_s - sensor.lag_s]))[0])
        self._total_mj = sensor.start_mj
        self._restarted = self._glitched = False
        self._blind: tuple[float, float] | None = None
        self._value_mj = self._seen_mj = sensor.start_mj
        self._records: list[tuple[float, float, float, bool]] = []  # since the last call
        self._seen = np.zeros((0, 4))

    def until(self, end_s: float, energy_j: Energy) -> Ticks:
        """Return all ticks that were seen by a time (s) of a board that drew ``energy_j`` until then."""
        times = self._renewals(end_s)
        shown_j = energy_j(np.array(times) - self.sensor.lag_s).tolist()
        for time_s, joules in zip(times, shown_j, strict=True):
            self._see_again(time_s)
            self._renew(time_s, joules)
            self._look(time_s)
        self._see_again(end_s)
        self._seen = np.concatenate([self._seen, np.array(self._records, dtype=float).reshape(-1, 4)])
        self._records.clear()
        before, after, energy, reset = self._seen[self._seen[:, 1] <= end_s].T
        return Ticks(before_s=before, after_s=after, energy_mj=energy, reset=reset.astype(bool))

    def shown_mj(self, time_s: float, energy_j: Energy) -> float:
        """Return what the counter shows at a time (s), that of the last call of ``until`` or a later one."""
        self.until(time_s, energy_j)
        return self._value_mj

    def _renewals(self, end_s: float) -> list[float]:
        """Return when the counter was renewed since the last call, up to a time (s)."""
        sensor, times = self.sensor, []
        while self._next_s <= end_s:
            times.append(self._next_s)
            minutes = (self._grid_s - self._begin_s) / 60
            self._grid_s += sensor.period_s * (1 + sensor.period_drift * minutes)
            self._grid_s += self._scatter(sensor.wander_s)
            due = self._grid_s + self._scatter(sensor.jitter_s)
            self._next_s = max(due, times[-1] + SHORTEST_PERIOD * sensor.period_s)
        return times

    def _scatter(self, deviation: float) -> float:
        return self._random.gauss(0.0, deviation) if deviation else 0.0

    def _renew(self, time_s: float, joules: float) -> None:
        """Let the counter show the board's joules; what it shows besides is the sensor's fault."""
        sensor = self.sensor
        rise = (joules - self._last_j) * 1e3 * (1 + self._scatter(sensor.noise))
        self._last_j = joules
        self._total_mj += rise
        if sensor.reset_at_s is not None and not self._restarted and time_s >= sensor.reset_at_s:
            self._restarted, self._total_mj = True, rise
        self._value_mj = round(self._total_mj / sensor.quantum_mj) * sensor.quantum_mj
        if sensor.wrap_mj is not None:
            self._value_mj %= sensor.wrap_mj
        if sensor.glitch_at_s is not None and not self._glitched and time_s >= sensor.glitch_at_s:
            self._glitched = True
            self._value_mj += sensor.glitch_mj

    def _look(self, time_s: float) -> None:
        """See the tick, or begin to fail reading just before it."""
        late = self._random.uniform(0, self.sensor.read_s)
        if self._blind is None and self._random.random() < self.sensor.failed_reads:
            seconds = late + self._random.uniform(0, LONGEST_FAILURE) * self.sensor.period_s
            self._blind = (time_s + late - self.sensor.read_s, time_s + seconds)
        elif self._blind is None:
            self._record(time_s + late - self.sensor.read_s, time_s + late)

    def _see_again(self, time_s: float) -> None:
        """If reads answer again by now, the counter's present value is the next that is seen."""
        if self._blind is not None and self._blind[1] <= time_s:
            self._record(*self._blind)
            self._blind = None

    def _record(self, before_s: float, after_s: float) -> None:
        if self._value_mj != self._seen_mj:
            self._records.append((before_s, after_s, self._value_mj, self._value_mj < self._seen_mj))
            self._seen_mj = self._value_mj


@dataclass(frozen=True)
class SimulatedCounter(SimulatedSensor):
    """A sensor on a board that draws ``idle_w`` outside of one load, and ``load_w`` in it.

    ``transient`` is the relative excess of power during the first period of the load.
    """

    load_w: float = 300.0
    idle_w: float = 100.0
    transient: float = 0.0

    def ticks(self, begin_s: float, end_s: float, load: tuple[float, float]) -> Ticks:
        """Return the ticks seen in an interval while a load ran from ``load[0]`` to ``load[1]`` (s)."""
        trace = PowerTrace(begin_s)
        trace.extend(max(load[0] - begin_s, 0.0), self.idle_w)
        surge = min(self.period_s, load[1] - load[0]) if self.transient else 0.0
        trace.extend(surge, self.load_w * (1 + self.transient))
        trace.extend(load[1] - max(trace.end_s, load[0]), self.load_w)
        trace.extend(end_s - trace.end_s, self.idle_w)

        def energy_j(times: Array) -> Array:
            return trace.averaged_j(times, self.averaging_s)

        return Watch(self, begin_s, energy_j).until(end_s, energy_j)

    def true_energy_mj(self, call_s: float) -> float:
        """Return the true energy of one call (mJ) that lasts ``call_s``, back to back with others."""
        return self.load_w * call_s * 1e3


def steady_calls(begin_s: float, end_s: float, call_s: float, chunk: int = 10) -> Calls:
    """Return the record of calls of equal length that were time-stamped in chunks."""
    count = np.arange(0, int((end_s - begin_s) / call_s) + 1, chunk, dtype=float)
    return Calls(begin_s + count * call_s, count)

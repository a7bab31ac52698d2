"""Public doubles: a sensor whose true joules are known, for tests of whatever reads one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from energyscope.metering.ticks import Array, Calls, Ticks


@dataclass(frozen=True)
class SimulatedCounter:
    """An energy counter that ticks on a grid, as a sampler process sees it.

    The board draws ``idle_w`` outside of the load and ``load_w`` in it. The counter is renewed every
    ``period_s`` with a random phase; each tick is seen only to within a read of ``read_s``. ``noise`` is the
    relative standard deviation of the power between ticks; ``transient`` the excess of the first full tick.
    """

    load_w: float = 300.0
    idle_w: float = 100.0
    period_s: float = 0.1
    read_s: float = 0.0045
    noise: float = 0.0
    transient: float = 0.0
    seed: int = 0

    def ticks(self, begin_s: float, end_s: float, load: tuple[float, float]) -> Ticks:
        """Return the ticks seen in an interval while a load ran from ``load[0]`` to ``load[1]`` (s)."""
        generator = np.random.default_rng(self.seed)
        grid = np.arange(begin_s + generator.uniform(0, self.period_s), end_s, self.period_s)
        energy = self._energy_j(grid, load)
        rises = np.diff(energy, prepend=energy[0]) * (1 + self.noise * generator.standard_normal(len(grid)))
        full = np.flatnonzero(grid - self.period_s >= load[0])
        if len(full):
            rises[full[0]] *= 1 + self.transient
        late = generator.uniform(0, self.read_s, len(grid))
        return Ticks(
            before_s=grid + late - self.read_s,
            after_s=grid + late,
            energy_mj=np.round(1e6 + np.cumsum(rises) * 1e3),
            reset=np.zeros(len(grid), dtype=bool),
        )

    def _energy_j(self, time_s: Array, load: tuple[float, float]) -> Array:
        under_load = np.clip(time_s, *load) - load[0]
        joules: Array = self.idle_w * (time_s - time_s[0]) + (self.load_w - self.idle_w) * under_load
        return joules

    def true_energy_mj(self, call_s: float) -> float:
        """Return the true energy of one call (mJ) that lasts ``call_s``, back to back with others."""
        return self.load_w * call_s * 1e3


def steady_calls(begin_s: float, end_s: float, call_s: float, chunk: int = 10) -> Calls:
    """Return the record of calls of equal length that were time-stamped in chunks."""
    count = np.arange(0, int((end_s - begin_s) / call_s) + 1, chunk, dtype=float)
    return Calls(begin_s + count * call_s, count)

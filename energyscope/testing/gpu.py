"""A simulated GPU on virtual time, so that whole measuring loops run in a test without waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np

from energyscope.metering.ticks import Array, Calls, Ticks, sensor_facts
from energyscope.testing.power import PowerTrace
from energyscope.testing.sensor import SimulatedSensor, Watch

BEGIN_S = 1000.0  # virtual time does not begin at zero, as the monotonic clock does not
CHUNK_S = 0.004  # calls are time-stamped in chunks of about this long, as the replayer does
PERIODS_A_WINDOW = 4.2  # up to one until the first tick, one dropped, at least two used
SHORTEST_WINDOW_S = 0.3
EVEN = 1e-9  # relative: chunks whose power differs by rounding only are one stretch of the trace


@dataclass(frozen=True)
class SimulatedCall:
    """A call whose energy (mJ) and time (us) are known; calling it does nothing."""

    energy_mj: float
    time_us: float

    def __call__(self) -> None:
        return None


@dataclass(frozen=True)
class SimulatedBoard:
    """How a board behaves; relative standard deviations and changes throughout.

    Each window's power is off by ``window_noise`` and its calls' time by ``time_noise``; power changes by
    ``drift`` per minute; for its first ``transient_s`` a load after idling draws ``transient`` more.
    ``warm_up_s`` of load precede each window, as in the replayer.
    """

    idle_w: float = 100.0
    window_noise: float = 0.0
    time_noise: float = 0.0
    drift: float = 0.0
    transient: float = 0.0
    transient_s: float = 0.1
    warm_up_s: float = 0.02
    sm_clock_mhz: float = 1980.0
    temperature_c: float = 50.0
    throttle: int = 0
    power_limit_w: float = 700.0
    seed: int = 0


class SimulatedGpu:
    """A meter, a replayer and a clock in one: what it replays takes virtual time and draws known joules.

    ``window_s`` None takes what the NVML meter would. ``others`` is what ``bystanders`` returns; tests fill it.
    """

    name = "simulated"
    device = "simulated"
    modelled = False

    def __init__(
        self,
        sensor: SimulatedSensor | None = None,
        board: SimulatedBoard | None = None,
        *,
        window_s: float | None = None,
        begin_s: float = BEGIN_S,
    ) -> None:
        self.sensor = sensor or SimulatedSensor()
        self.board = board or SimulatedBoard()
        self.settle_s = self.sensor.settle_s
        self.window_s = window_s or max(SHORTEST_WINDOW_S, PERIODS_A_WINDOW * self.sensor.period_s)
        self.others: list[str] = []
        self.trace = PowerTrace(begin_s)
        self._begin_s = begin_s
        self._random = np.random.default_rng(self.board.seed)
        self._surge_s = 0.0  # how much longer a load draws the transient
        self.sleep(PERIODS_A_WINDOW * self.sensor.period_s)
        self._watch = Watch(self.sensor, begin_s, self._energy_j)

    def now(self) -> float:
        """Return the virtual time (s)."""
        return self.trace.end_s

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass, idle."""
        self.trace.extend(seconds, self.board.idle_w)
        if seconds > 0:
            self._surge_s = self.board.transient_s if self.board.transient else 0.0

    def synchronize(self) -> None:
        """Nothing is ever queued."""

    def own_bytes(self) -> int | None:
        """Return the device memory that this process holds: unknown, there is none."""

    def run(self, round_: Sequence[SimulatedCall], seconds: float) -> Calls:
        """Run the calls of a round in turn, over and over, for at least some seconds and one whole call.

        Returns:
            Completed calls over virtual time, after a warm-up that is not among them.

        """
        power = 1 + self.board.window_noise * self._random.standard_normal()
        power *= 1 + self.board.drift * (self.now() - self._begin_s) / 60
        pace = 1 + self.board.time_noise * self._random.standard_normal()
        count, ends, joules = _chunks(round_, seconds / pace)
        ends, joules = ends * pace, joules * power * pace
        watts = np.diff(joules) / np.diff(ends)
        self._draw(self.board.warm_up_s, float(watts[0]))
        begin = self.now()
        if np.ptp(watts) < EVEN * watts[0]:
            self._draw(float(ends[-1]), float(watts[0]))
        else:
            for length, one in zip(np.diff(ends), watts, strict=True):
                self._draw(float(length), float(one))
        return Calls(begin + ends, count)

    def _draw(self, seconds: float, watts: float) -> None:
        surge = min(self._surge_s, seconds)
        self._surge_s -= surge
        self.trace.extend(surge, watts * (1 + self.board.transient))
        self.trace.extend(seconds - surge, watts)

    def _energy_j(self, times: Array) -> Array:
        return self.trace.averaged_j(times, self.sensor.averaging_s)

    def ticks(self, begin_s: float, end_s: float) -> Ticks:
        return self._watch.until(self.now(), self._energy_j).between(begin_s, end_s)

    def states(self, begin_s: float, end_s: float) -> list[dict[str, Any]]:
        board = self.board
        state = {
            "sm_clock_mhz": board.sm_clock_mhz,
            "temperature_c": board.temperature_c,
            "throttle": board.throttle,
            "power_limit_w": board.power_limit_w,
        }
        seen = self.ticks(begin_s, end_s)
        return [
            {"after_s": float(after), "energy_mj": float(energy), "power_w": self._power_w(float(after)), **state}
            for after, energy in zip(seen.after_s, seen.energy_mj, strict=True)
        ]

    def _power_w(self, time_s: float) -> float:
        """Return the mean power (W) over the period before a time."""
        period = self.sensor.period_s
        before, after = self.trace.energy_j(np.array([time_s - period, time_s]))
        return float(after - before) / period

    def describe(self) -> dict[str, Any]:
        ticks = self.ticks(-np.inf, np.inf)
        notes = ["simulated: its true joules are known"]
        return {"meter": self.name, "modelled": False, "watts": None, **sensor_facts(ticks),
                "simulation": {**asdict(self.sensor), **asdict(self.board)}, "notes": notes}  # fmt: skip

    def bystanders(self, own_bytes: int | None = None) -> list[str]:  # noqa: ARG002 - the contract's
        return list(self.others)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def _chunks(round_: Sequence[SimulatedCall], seconds: float) -> tuple[Array, Array, Array]:
    """Return the completed calls, the seconds and the joules after each chunk, from zero on."""
    times = np.array([call.time_us for call in round_]) / 1e6
    energies = np.array([call.energy_mj for call in round_]) / 1e3
    chunk = max(1, round(CHUNK_S / float(times.mean())))
    most = int(seconds / float(times.min())) + len(round_) + chunk
    turn = np.arange(most + chunk) % len(round_)
    time_s = np.concatenate([[0.0], np.cumsum(times[turn])])
    joules = np.concatenate([[0.0], np.cumsum(energies[turn])])
    at = np.arange(0, len(time_s), chunk)
    at = at[: max(2, int(np.searchsorted(time_s[at], seconds)) + 1)]
    return at.astype(float), time_s[at], joules[at]

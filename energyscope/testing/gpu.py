"""A simulated GPU on virtual time, so that whole measuring loops run in a test without waiting."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from energyscope.metering.activity import SHARES
from energyscope.metering.meter import Reading
from energyscope.metering.ticks import Array, Calls, Ticks, sensor_facts
from energyscope.reasons import reason
from energyscope.testing.power import Pattern, PowerTrace
from energyscope.testing.sensor import SimulatedSensor, Watch

BEGIN_S = 1000.0  # virtual time does not begin at zero, as the monotonic clock does not
CHUNK_S = 0.004  # calls are time-stamped in chunks of about this long, as the replayer does
PERIODS_A_WINDOW = 4.2  # up to one until the first tick, one dropped, at least two used
SHORTEST_WINDOW_S = 0.3
EVEN_POWER = ((1.0, 1.0),)
POWER_CAP = 0x04  # NVML's bit for clocks that are held down by the power limit


@dataclass(frozen=True)
class SimulatedCall:
    """A call whose energy (mJ) and time (us) are known, at full clocks; calling it does nothing.

    One that takes no time launches no work at all. ``shape`` are its stretches of even power, as shares of its
    time and of its energy.
    ``activity`` holds the shares (0 to 1) of `Activity` during the call; those that are not in it are 0.
    """

    energy_mj: float
    time_us: float
    shape: tuple[tuple[float, float], ...] = EVEN_POWER
    activity: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __call__(self) -> None:
        return None

    def stretches(self, power: float = 1.0, pace: float = 1.0) -> list[tuple[float, float]]:
        """Return its stretches (seconds, watts), with more power and at a slower pace than it has by itself."""
        watts = power * self.energy_mj * 1e3 / self.time_us if self.time_us else 0.0
        seconds = pace * self.time_us / 1e6
        return [(time * seconds, energy / time * watts) for time, energy in self.shape if seconds]

    def then(self, other: SimulatedCall) -> SimulatedCall:
        """Return both calls, one after the other, as one."""
        energy_mj, time_us = self.energy_mj + other.energy_mj, self.time_us + other.time_us
        shape = tuple(
            (time * call.time_us / time_us, energy * call.energy_mj / energy_mj)
            for call in (self, other)
            for time, energy in call.shape
        )
        busy: dict[str, float] = {}
        for call in (self, other):
            for key, share in call.activity.items():
                busy[key] = busy.get(key, 0.0) + share * call.time_us / time_us
        return SimulatedCall(energy_mj, time_us, shape, busy)


@dataclass(frozen=True)
class SimulatedBoard:
    """How a board behaves; relative standard deviations and changes throughout.

    With ``wander`` the host's launches make calls longer by twice as much, and wander by it; after ``wander_s``
    the pace is another one. The device idles meanwhile, and the calls' work stays the same.

    Each window's power is off by ``window_noise`` and its calls' time by ``time_noise``; power changes by
    ``drift`` per minute; for its first ``transient_s`` a load after idling draws ``transient`` more.
    ``warm_up_s`` of load precede each window, as in the replayer. In a share of ``stalls`` of all windows the
    host stalls: the calls take ``stall`` longer, idle meanwhile.

    A load whose mean power would be above ``power_limit_w`` runs at lower clocks, at which it draws just that:
    power above idle goes with the cube of the clock. A pause between calls draws ``pause_w``. ``gpm`` says
    that it has counters of what it is busy with.
    """

    idle_w: float = 100.0
    window_noise: float = 0.0
    time_noise: float = 0.0
    drift: float = 0.0
    transient: float = 0.0
    transient_s: float = 0.1
    warm_up_s: float = 0.02
    wander: float = 0.0
    wander_s: float = 3.0
    stalls: float = 0.0
    stall: float = 0.6
    pause_w: float = 110.0
    sm_clock_mhz: float = 1980.0
    temperature_c: float = 50.0
    throttle: int = 0
    power_limit_w: float = 700.0
    gpm: bool = False
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
        self._paced = float(self._random.standard_normal()) if self.board.wander else 0.0
        self._paced_s = begin_s
        self._surge_s = 0.0  # how much longer a load draws the transient
        self._clocks: list[tuple[float, float]] = [(begin_s, 1.0)]  # from when on (s), share of the full clock
        self._busy = {key: PowerTrace(begin_s) for key in SHARES}  # shares, where a power trace has watts
        self.sleep(PERIODS_A_WINDOW * self.sensor.period_s)
        self._counted = self.sensor.counted(self._energy_j, begin_s)
        self._watch = Watch(self.sensor, begin_s, self._counted)

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

    def run(self, round_: Sequence[SimulatedCall], seconds: float, *, rest_s: float | None = None) -> Calls | None:
        """Run the calls of a round in turn, over and over, for at least some seconds and one whole call.

        With ``rest_s`` every call is followed by a pause of that length; a round without calls only pauses.

        Returns:
            Completed calls over virtual time, after a warm-up that is not among them; None where the calls take
            no time, since they launch no work then.

        """
        work = list(round_) if rest_s is None else self._with_pauses(round_, rest_s)
        if sum(call.time_us for call in work) == 0:
            return None
        work, clock = self._capped(work)
        power = 1 + self.board.window_noise * self._random.standard_normal()
        power *= 1 + self.board.drift * (self.now() - self._begin_s) / 60
        pace = 1 + self.board.time_noise * self._random.standard_normal()
        waits = self._stall() + self._launching()
        pattern: list[tuple[float, float]] = []
        for call in work:
            pattern += call.stretches(power, pace)
            pattern += [(waits * pace * call.time_us / 1e6, self.board.idle_w)] if waits else []
        self._clocks.append((self.now(), clock))
        begin = self._idle_until_now()
        calls = self._play(pattern, *_chunks(work, seconds, pace * (1 + waits)))
        self._clocks.append((self.now(), 1.0))
        total_us = sum(call.time_us for call in work)
        for key, trace in self._busy.items():
            mean = sum(call.activity.get(key, 0.0) * call.time_us for call in work) / total_us
            trace.extend(self.now() - begin, mean / (1 + waits))
        return calls

    def _idle_until_now(self) -> float:
        """Note that nothing was busy since the last load; return the time."""
        for trace in self._busy.values():
            trace.extend(self.now() - trace.end_s, 0.0)
        return self.now()

    def pace(self, round_: Sequence[SimulatedCall], seconds: float) -> float:
        """Return the seconds of one call of a round, over about some seconds and one whole call."""
        calls = self.run(round_, seconds)
        return 0.0 if calls is None else calls.seconds / float(calls.count[-1])

    def _with_pauses(self, round_: Sequence[SimulatedCall], rest_s: float) -> list[SimulatedCall]:
        energy_mj, time_us = self.board.pause_w * rest_s * 1e3, rest_s * 1e6
        pause = SimulatedCall(energy_mj, time_us)
        return [call.then(pause) for call in round_] or [pause]

    def _capped(self, work: Sequence[SimulatedCall]) -> tuple[list[SimulatedCall], float]:
        """Return the calls as the power limit lets them run, and their share of the full clock."""
        idle_w = self.board.idle_w
        watts = 1e3 * sum(call.energy_mj for call in work) / sum(call.time_us for call in work)
        if watts <= self.board.power_limit_w:
            return list(work), 1.0
        clock = float(((self.board.power_limit_w - idle_w) / (watts - idle_w)) ** (1 / 3))
        slower = []
        for call in work:
            idle_mj = idle_w * call.time_us / 1e3
            energy_mj = (idle_mj + (call.energy_mj - idle_mj) * clock**3) / clock
            slower.append(SimulatedCall(energy_mj, call.time_us / clock, call.shape, call.activity))
        return slower, clock

    def _launching(self) -> float:
        """Return how much longer (relative) launching makes calls now; it wanders about twice ``wander``."""
        if not self.board.wander:
            return 0.0
        kept = math.exp(-(self.now() - self._paced_s) / self.board.wander_s)
        self._paced = kept * self._paced + math.sqrt(1 - kept**2) * self._random.standard_normal()
        self._paced_s = self.now()
        return float(max(0.0, self.board.wander * (2 + self._paced)))

    def _stall(self) -> float:
        """Return by how much (relative) the host holds a window's calls up."""
        stalled = self.board.stalls and self._random.random() < self.board.stalls
        return self.board.stall if stalled else 0.0

    def _play(self, pattern: Pattern, count: Array, ends: Array) -> Calls:
        """Draw a pattern of power for the calls that are done by ``ends`` (s), after a warm-up."""
        self._draw(pattern, self.board.warm_up_s)
        begin = self.now()
        self._draw(pattern, float(ends[-1]))
        waited_s = 0.0 if self.board.wander else None  # a host that sets the pace does not wait
        return Calls(begin + ends, count, waited_s)

    def _draw(self, pattern: Pattern, seconds: float) -> None:
        period = sum(time for time, _ in pattern)
        surge = min(self._surge_s, seconds)
        self._surge_s -= surge
        higher = [(time, watts * (1 + self.board.transient)) for time, watts in pattern]
        for stretch, length in ((higher, surge), (pattern, seconds - surge)):
            self.trace.repeat(stretch, length / period)

    def read(self) -> Reading:
        """Return what the counter shows now; looking takes no time."""
        now = self.now()
        return Reading(self._watch.shown_mj(now, self._counted), self._power_w(now), now)

    def _energy_j(self, times: Array) -> Array:
        return self.trace.averaged_j(times, self.sensor.averaging_s)

    def ticks(self, begin_s: float, end_s: float) -> Ticks:
        return self._watch.until(self.now(), self._counted).between(begin_s, end_s)

    def states(self, begin_s: float, end_s: float) -> list[dict[str, Any]]:
        ticks = self.ticks(begin_s, end_s)
        states = [
            {"before_s": before, "after_s": after, "energy_mj": energy, **self._state(before)}
            for before, after, energy in np.column_stack([ticks.before_s, ticks.after_s, ticks.energy_mj]).tolist()
        ]
        if self.board.gpm:
            self._idle_until_now()
            for before, state in itertools.pairwise(states):
                state["activity"] = self._activity(before["after_s"], state["after_s"])
        return states

    def _activity(self, begin_s: float, end_s: float) -> dict[str, float]:
        means = {
            key: float(np.diff(trace.energy_j(np.array([begin_s, end_s])))[0]) / (end_s - begin_s)
            for key, trace in self._busy.items()
        }
        return {"begin_s": begin_s, "end_s": end_s, **means}

    def _state(self, time_s: float) -> dict[str, Any]:
        board = self.board
        clock = self._clocks[max(bisect_right(self._clocks, (time_s, 1.0)) - 1, 0)][1]
        return {
            "power_w": self._power_w(time_s),
            "sm_clock_mhz": board.sm_clock_mhz * clock,
            "temperature_c": board.temperature_c,
            "throttle": board.throttle | (POWER_CAP if clock < 1 else 0),
            "power_limit_w": board.power_limit_w,
        }

    def _power_w(self, time_s: float) -> float:
        """Return the mean power (W) over the period before a time."""
        period = self.sensor.period_s
        before, after = self.trace.energy_j(np.array([time_s - period, time_s]))
        return float(after - before) / period

    def describe(self) -> dict[str, Any]:
        ticks = self.ticks(-np.inf, np.inf)
        notes = [reason("simulated-meter")]
        return {"meter": self.name, "modelled": False, "watts": None, **sensor_facts(ticks),
                "simulation": {**asdict(self.sensor), **asdict(self.board)}, "notes": notes}  # fmt: skip

    def bystanders(self, own_bytes: int | None = None) -> list[str]:  # noqa: ARG002 - the contract's
        return list(self.others)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def _chunks(round_: Sequence[SimulatedCall], seconds: float, pace: float) -> tuple[Array, Array]:
    """Return the completed calls and the seconds after each chunk, from zero on."""
    times = np.array([call.time_us for call in round_]) / 1e6 * pace
    chunk = max(1, round(CHUNK_S / float(times.mean())))
    most = int(seconds / float(times.mean())) + 2 * len(round_) + chunk
    turn = np.arange(most + chunk) % len(round_)
    time_s = np.concatenate([[0.0], np.cumsum(times[turn])])
    at = np.arange(0, len(time_s), chunk)
    at = at[: max(2, int(np.searchsorted(time_s[at], seconds)) + 1)]
    return at.astype(float), time_s[at]

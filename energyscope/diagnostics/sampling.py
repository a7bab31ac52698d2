"""At which interval a board samples its power: bursts of work whose period is swept, and where they beat.

    period of the bursts   0.79 ms  ............ 0.82 ms ............  0.85 ms
    energy of a tick       as its bursts say     up to 60 % off        as its bursts say

A tick of the counter is explained by the bursts and pauses in it, except near the board's own interval, where all
bursts of a tick meet its samples in one phase (see `energyscope.metering.beats`). How fast that phase turns, while
the period is swept, says what the interval is. Each harmonic of the bursts turns by as many times that phase, so
that a few of them explain nearly all of the ticks' scatter together, where one alone may explain half.

The search begins, twice, where boards sample that are known, and looks over all periods where nothing shows there.
Work beats as well at simple fractions of the interval, so that multiples of what was found are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from energyscope.metering.meter import Meter
from energyscope.metering.ticks import Array, Calls, Ticks, fit_grid
from energyscope.metering.waiting import HOST, LAST_TICK_S, Clock
from energyscope.replay.calls import Call, RoundReplay

TYPICAL_S = 0.815e-3  # of H100s and H200s: 0.80 to 0.83 ms
SHORTEST_S, LONGEST_S = 0.35e-3, 3.3e-3  # periods that are swept
TRIES = 2  # near the typical interval
SWEEP_RATE = 0.45  # relative change of the period in a second: 5 s for the whole
NEAR, NEAR_RATE = 0.04, 0.02  # relative width to either side: 4 s about a period that may beat
CLOSE, CLOSE_RATE = 0.005, 0.0033  # 3 s about one that does: its beat is slower than the ticks, in all of them
UNSETTLED = 2  # ticks at the begin of a load
LEAST_TICKS = 20  # a beat has six numbers, which explain half of the scatter of 30 ticks without any
HARMONICS = (1, 2, 3)  # of a beat, which explain a tick together
FRACTIONS = (1, 2, 3)  # the first harmonic of the bursts that meets the samples, where they last longer than these
MULTIPLES = (2, 3)  # of an interval that was found, which may be the board's
OUTLIER = 3.0  # deviations from the other ticks: a reason to look closer
LEAST_BEAT = 0.02  # of the power: what is smaller does no harm
CANDIDATES = 3  # of which the first that holds is taken
EXPLAINED = 0.8  # of the ticks' scatter, by one beat
BESIDE = 0.5  # of the scatter that is left, by a beat beside that of a part of its interval
FINEST = 2e-5  # relative step of the intervals that are tried, the last one
FINER = 5.0  # each step than the one before
FEWEST_COPIED, MOST_COPIED = 2**18, 2**28  # values of four bytes
LONGEST_BURST_S = 0.25e-3
TIMED_CALLS = 50
SLEPT_CYCLES = 1_000_000
TRIAL_PAUSE_S = 0.6e-3
ONCE = 0.97  # of the planned time of a sweep: it must not begin anew


Beat = tuple[float, int]  # a sampling interval (s), and the first harmonic of the bursts that meets it


@dataclass(frozen=True)
class Bursts:
    """Bursts of power: the seconds of one, and how it is made with a pause (s) after it."""

    seconds: float
    with_pause: Callable[[float], Call]


def bursts_on(device: torch.device) -> Bursts:
    """Return bursts of one copy in the device's memory, the longest that takes no longer than a burst may.

    Copies stay far below the power limit. Where samples meet bursts of large products of matrices only, the board
    takes its power to be at the limit and lowers its clocks, so that the bursts lose the phase that is looked for.
    """
    with torch.cuda.device(device):  # events and pauses are the current device's
        return _bursts(device)


def _bursts(device: torch.device) -> Bursts:
    values, seconds = FEWEST_COPIED, 0.0
    while seconds <= LONGEST_BURST_S / 2 and values < MOST_COPIED:
        values *= 2
        source = torch.randn(values, device=device)  # equal values would take less power
        copy = partial(torch.empty_like(source).copy_, source)
        seconds = _seconds(copy)
    cycles_a_second = SLEPT_CYCLES / _seconds(partial(torch.cuda._sleep, SLEPT_CYCLES))  # noqa: SLF001 - no other

    def with_pause(pause_s: float) -> Call:
        cycles = max(1, round(pause_s * cycles_a_second))

        def step() -> None:
            copy()
            torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]  # noqa: SLF001

        return step

    # with pauses the board keeps higher clocks than back to back
    return Bursts(_seconds(with_pause(TRIAL_PAUSE_S)) - TRIAL_PAUSE_S, with_pause)


def _seconds(call: Call) -> float:
    """Return the seconds of a call on the device, after others that bring it to its clocks."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    for event in (begin, end):
        for _ in range(TIMED_CALLS):
            call()
        event.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / TIMED_CALLS


@dataclass(frozen=True)
class Sweep:
    """The ticks in a sweep, shape (ticks,) each: power (W), bursts a second, begin and end (s); and the bursts."""

    power_w: Array
    rate_hz: Array
    begin_s: Array
    end_s: Array
    calls: Calls

    def unexplained(self) -> Array:
        """Return the share of each tick's power that bursts and pauses do not explain.

        It is the distance from a line through most ticks: least squares, repeated without those far off.
        """
        design = np.column_stack([np.ones_like(self.rate_hz), self.rate_hz])
        kept = np.ones(len(self.power_w), dtype=bool)
        residuals = np.zeros_like(self.power_w)
        for _ in range(8):
            line, *_ = np.linalg.lstsq(design[kept], self.power_w[kept], rcond=None)
            residuals = self.power_w - design @ line
            kept = np.abs(residuals) <= np.quantile(np.abs(residuals), 0.75)
        return residuals / self.power_w

    def explained(self, *beats: Beat) -> float:
        """Return which share of the ticks' squared scatter beats explain together: 0 to 1."""
        plain = np.column_stack([np.ones_like(self.rate_hz), self.rate_hz])
        columns = [column for beat in beats for column in self._columns(*beat)]
        return 1 - _squares(np.column_stack([plain, *columns]), self.power_w) / _squares(plain, self.power_w)

    def _columns(self, interval_s: float, first: int) -> list[Array]:
        """Return the means in each tick of cosine and sine of the beat's phase, and of its multiples."""
        times = np.arange(self.begin_s[0], self.end_s[-1] + 2 * interval_s, interval_s)  # the phase turns slowly
        phase = np.exp(2j * np.pi * (first * self.calls.at(times) - (times - times[0]) / interval_s))
        begin, end = np.searchsorted(times, self.begin_s), np.searchsorted(times, self.end_s)
        columns: list[Array] = []
        for harmonic in HARMONICS:
            summed = np.cumsum(phase**harmonic)
            beat = (summed[end] - summed[begin]) / (end - begin)
            columns += [beat.real, beat.imag]
        return columns


def find_sampling(meter: Meter, replayer: RoundReplay, bursts: Bursts, *, clock: Clock = HOST) -> float | None:
    """Find at which interval (s) a board samples its power; takes about 15 s, and 35 s on a board of another kind.

    Returns:
        The interval; None where none between 0.35 and 3.3 ms shows, or the sensor ticks too seldom.

    """

    def sweep(low_s: float, high_s: float, rate: float) -> Sweep | None:
        return _sweep(meter, replayer, bursts, (low_s, high_s), rate, clock)

    def close(period_s: float) -> Sweep | None:
        return sweep(period_s * (1 - CLOSE), period_s * (1 + CLOSE), CLOSE_RATE)

    def near(period_s: float) -> float | None:
        """Return the interval that bursts near a period beat with."""
        found = _explanation(sweep(period_s * (1 - NEAR), period_s * (1 + NEAR), NEAR_RATE), period_s, NEAR)
        if found is not None:
            centre_s = found[0] * found[1]
            found = _explanation(close(centre_s), centre_s, CLOSE)
        return None if found is None else found[0]

    tries = map(near, [TYPICAL_S] * TRIES)
    interval_s = next((interval for interval in tries if interval is not None), None)
    if interval_s is None:
        whole = sweep(SHORTEST_S, LONGEST_S, SWEEP_RATE)
        found = map(near, _off(whole)[:CANDIDATES] if whole else ())
        interval_s = next((interval for interval in found if interval is not None), None)
    while interval_s is not None:
        within = [n for n in MULTIPLES if n * interval_s < LONGEST_S]
        held = (n for n in within if _beats_itself(close(n * interval_s), interval_s, n))
        if (multiple := next(held, None)) is None:
            break
        interval_s *= multiple
    return interval_s


def _sweep(
    meter: Meter,
    replayer: RoundReplay,
    bursts: Bursts,
    periods_s: tuple[float, float],
    rate: float,
    clock: Clock,
) -> Sweep | None:
    """Run bursts of ever longer periods, each a little longer than the one before; None for too few ticks."""
    periods = [max(periods_s[0], bursts.seconds)]
    while periods[-1] < periods_s[1]:
        periods.append(periods[-1] * (1 + rate * periods[-1]))
    calls = replayer.run([bursts.with_pause(period - bursts.seconds) for period in periods], ONCE * sum(periods))
    if calls is None:
        return None
    clock.sleep(LAST_TICK_S)
    return _sweep_of(meter.ticks(float(calls.time_s[0]), float(calls.time_s[-1])), calls)


def _sweep_of(ticks: Ticks, calls: Calls) -> Sweep | None:
    if len(ticks) < LEAST_TICKS + UNSETTLED:
        return None
    times = fit_grid(ticks).time_s[UNSETTLED:]
    seconds = np.diff(times)
    power_w = np.diff(ticks.energy_mj[UNSETTLED:]) / 1e3 / seconds
    return Sweep(power_w, np.diff(calls.at(times)) / seconds, times[:-1], times[1:], calls)


def _off(sweep: Sweep) -> list[float]:
    """Return the periods (s) of bursts in ticks that they explain least, none near another, the worst first."""
    off = np.abs(sweep.unexplained())
    limit = max(OUTLIER * 1.4826 * float(np.median(off)), LEAST_BEAT)
    periods: list[float] = []
    for tick in np.argsort(-off):
        period_s = 1 / float(sweep.rate_hz[tick])
        if off[tick] >= limit and all(abs(period_s / other - 1) > 2 * CLOSE for other in periods):
            periods.append(period_s)
    return periods


def _explanation(sweep: Sweep | None, period_s: float, width: float) -> Beat | None:
    """Return the beat that explains a slow sweep about a period best; None where none does."""
    if sweep is None or float(sweep.unexplained().std()) < LEAST_BEAT:
        return None
    share, interval_s, first = max((*_best(sweep, period_s / first, first, width), first) for first in FRACTIONS)
    return (interval_s, first) if share >= EXPLAINED else None


def _best(sweep: Sweep, about_s: float, first: int, width: float) -> tuple[float, float]:
    """Return the share of the scatter that a beat explains at most, and with which interval (s)."""
    best, step = (0.0, about_s), FINEST * FINER**2
    while step >= FINEST:
        tried = np.arange(1 - width, 1 + width + step / 2, step) * best[1]
        best = max((sweep.explained((float(interval), first)), float(interval)) for interval in tried)
        width, step = step, step / FINER
    return best


def _beats_itself(sweep: Sweep | None, interval_s: float, multiple: int) -> bool:
    """Return whether bursts of a multiple of an interval beat with that, and not only with the interval."""
    if sweep is None or float(sweep.unexplained().std()) < LEAST_BEAT:
        return False
    part, whole = (interval_s, multiple), (multiple * interval_s, 1)
    alone, both = sweep.explained(part), sweep.explained(part, whole)
    return alone < EXPLAINED <= both and 1 - both < BESIDE * (1 - alone)


def _squares(design: Array, values: Array) -> float:
    fitted, *_ = np.linalg.lstsq(design, values, rcond=None)
    return float(((values - design @ fitted) ** 2).sum())

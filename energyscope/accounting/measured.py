"""From the windows of one target to its figures per call, with intervals. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from energyscope.accounting.records import HOST_BOUND, Entry, IdlePower, any_bits, at_power_limit, windows
from energyscope.metering.activity import Activity, mean_activity
from energyscope.metering.interval import Estimate, combine, spread, student_t, two_values
from energyscope.reasons import reason
from energyscope.unknown import mean, minus

IDLE_SIGN = {"static": 1.0, "dynamic": -1.0}
NO_CORRELATIONS: Mapping[str, float] = {}
LEAST_PASSES = 3  # of which a sum is known, for its scatter to count
NOTHING = Estimate(0.0, 0.0, 0.0, 0)
UNKNOWN = Estimate(None, None, None, 0)


@dataclass
class Measured:
    """One target's figures per call, over its windows: energies in mJ, time in us.

    ``power_w``, ``clock_mhz`` and ``activity`` are means. ``empty`` says that it launches no work on the device.
    ``guard`` holds what disturbed a window, ``reasons`` what else a reader should know. ``by_pass`` has each
    quantity's windows by pass, ``beside_model`` the time of a call over that of the model's pass, in turn with it;
    ``host`` is what the whole host drew for a call (mJ), by a counter of its own.
    The intervals do not contain the error of the idle power (``idle_half_w``, W; None: unknown), which all targets
    share.
    """

    energy: Estimate = UNKNOWN
    static: Estimate = UNKNOWN
    dynamic: Estimate = UNKNOWN
    time: Estimate = UNKNOWN
    beside_model: Estimate = UNKNOWN
    host: Estimate = UNKNOWN
    idle_half_w: float | None = 0.0
    by_pass: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    power_w: float | None = None
    naive_mj: float | None = None
    clock_mhz: float | None = None
    throttle: int | None = None
    at_power_limit: bool | None = None
    ticks: int = 0
    passes: int = 0
    spread: float | None = None
    waited_share: float | None = None
    activity: Activity | None = None
    empty: bool = False
    devices_mj: list[float | None] = field(default_factory=list)
    guard: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def interval(self, quantity: str) -> Estimate:
        """Return a quantity (``energy``, ``static``, ``dynamic`` or ``time``) with every error in its interval."""
        estimate: Estimate = getattr(self, quantity)
        if estimate.mean is None or estimate.low is None or estimate.high is None:
            return estimate
        idle = self.idle_error(quantity)
        if idle is None:
            return Estimate(estimate.mean, None, None, estimate.windows)
        half = math.hypot((estimate.high - estimate.low) / 2, idle)
        return Estimate(estimate.mean, estimate.mean - half, estimate.mean + half, estimate.windows)

    def idle_error(self, quantity: str) -> float | None:
        """Return how much (mJ) the half-width of the idle power is in a quantity, with its sign; None: unknown."""
        if quantity not in IDLE_SIGN:
            return 0.0
        if self.idle_half_w is None or self.time.mean is None:
            return None
        return IDLE_SIGN[quantity] * self.idle_half_w * self.time.mean / 1e3

    @property
    def host_bound(self) -> bool | None:
        """Whether launching from the host, and not the device, sets the pace; None where it is not known."""
        return None if self.waited_share is None else self.waited_share < HOST_BOUND


def measure(
    entries: Sequence[Entry],
    idle: IdlePower | None,
    *,
    first: int,
    correlations: Mapping[str, float] = NO_CORRELATIONS,
) -> Measured:
    """Summarise one target's entries; of several windows in a pass, the last one counts.

    Args:
        entries: in the order of the journal.
        idle: the settled idle power; None leaves static and dynamic energy unknown.
        first: the number of windows whose spread decided how many were measured.
        correlations: by how much successive windows of this session resemble each other, of each quantity.

    ``spread`` is that of the windows as they were first taken.

    """
    if any(entry.get("empty") for entry in entries):
        return Measured(NOTHING, NOTHING, NOTHING, NOTHING, empty=True, reasons=[reason("launches-nothing")])
    unavailable = [entry["unavailable"] for entry in entries if "unavailable" in entry][:1]
    taken = list(windows(entries))
    if not taken:
        return Measured(reasons=unavailable)
    by_pass = {entry["pass"]: entry for entry in taken}
    final = [by_pass[number] for number in sorted(by_pass)]
    original = list({entry["pass"]: entry for entry in reversed(taken)}.values())
    columns = quantities(final, idle)
    devices = [entry["devices"] for entry in final if "devices" in entry]
    activities = [entry["window"].get("activity") for entry in final]
    activity = mean_activity([Activity(**shares) if shares else None for shares in activities])
    estimates = _estimates(final, columns, first, correlations)
    return Measured(
        energy=estimates["energy"],
        static=estimates["static"],
        dynamic=estimates["dynamic"],
        time=estimates["time"],
        beside_model=_beside_model(entries, first),
        host=combine([entry.get("host_mj") for entry in final], first=first),
        idle_half_w=idle.half_w if idle else 0.0,
        by_pass={name: _by_pass(final, values) for name, values in columns.items()},
        power_w=mean(_column(final, "power_w")),
        naive_mj=mean(_column(final, "naive_mj")),
        clock_mhz=mean([entry.get("clock_mhz") for entry in final]),
        throttle=any_bits(entry.get("throttle") for entry in final),
        at_power_limit=at_power_limit(final),
        ticks=sum(_column(final, "ticks")),
        passes=len(final),
        spread=spread(_column(original, "energy_mj")),
        waited_share=mean([entry.get("waited_share") for entry in final]),
        activity=activity,
        devices_mj=[mean(device) for device in zip(*devices, strict=True)],
        guard=_sorted_union([_disturbances(final, columns["energy"])]),
        reasons=[*_reasons(taken, final, activity), *unavailable],
    )


def _reasons(taken: Sequence[Entry], final: Sequence[Entry], activity: Activity | None) -> list[str]:
    """Return what a reader should know of windows as they were taken, and of those that count."""
    again = len(taken) - len(final)
    return [
        *_sorted_union([entry["window"]["reason"]] for entry in final),
        *([reason("retaken-windows", windows=again)] if again else []),
        *([reason("replayed-with-pauses")] if "rest_us" in taken[0] else []),
        *([activity.reason] if activity and activity.reason else []),
    ]


def _estimates(
    final: Sequence[Entry],
    columns: Mapping[str, Sequence[float | None]],
    first: int,
    correlations: Mapping[str, float],
) -> dict[str, Estimate]:
    """Return the mean and the interval of each quantity, no narrower than the timing of ticks allows."""
    floor = mean([entry["window"].get("timing_share") for entry in final]) or 0.0
    floors = {"energy": floor, "static": 0.0, "time": 0.0}
    floors["dynamic"] = floor * _times_larger(columns["energy"], columns["dynamic"])
    return {
        name: combine(values, first=first, floor=floors[name], correlation=correlations.get(name, 0.0))
        for name, values in columns.items()
    }


def quantities(final: Sequence[Entry], idle: IdlePower | None) -> dict[str, list[float | None]]:
    """Return energy, time, static and dynamic energy of each window; the latter by the idle power of its pass."""
    energies, times = _column(final, "energy_mj"), _column(final, "time_us")
    idles = [None if idle is None else idle.during(entry["pass"]) for entry in final]
    static = [
        None if idle_w is None or time_us is None else idle_w * time_us / 1e3
        for idle_w, time_us in zip(idles, times, strict=True)
    ]
    dynamic = [minus(energy, idle_mj) for energy, idle_mj in zip(energies, static, strict=True)]
    return {"energy": energies, "time": times, "static": static, "dynamic": dynamic}


def _beside_model(entries: Sequence[Entry], first: int) -> Estimate:
    """Return a call's time over the model's, from blocks of both in turn; the mean of each pass is one value."""
    by_pass = {entry["pass"]: mean(entry["beside_model"]) for entry in entries if "beside_model" in entry}
    return combine(list(by_pass.values()), first=first)


def _by_pass(final: Sequence[Entry], values: Sequence[float | None]) -> dict[int, float]:
    return {entry["pass"]: value for entry, value in zip(final, values, strict=True) if value is not None}


def _disturbances(final: Sequence[Entry], energies: Sequence[float | None]) -> list[str]:
    """Return what disturbed windows; a beat with the sensor counts where half of them have it, or more."""
    disturbances: list[str] = [item for entry in final for item in entry.get("guard") or ()]
    beating = sum(bool(entry.get("beats")) for entry in final)
    if 2 * beating >= len(final):
        disturbances.append(reason("beats-with-sensor", windows=beating))
    if values := two_values(energies):
        disturbances.append(reason("two-values", low_mj=values[0], high_mj=values[1]))
    return disturbances


def _times_larger(whole: Sequence[float | None], part: Sequence[float | None]) -> float:
    """Return whole / part: an error of the ticks' timing is as large, in mJ, in the part as in the whole."""
    whole_mean, part_mean = mean(whole), mean(part)
    return abs(whole_mean / part_mean) if whole_mean and part_mean else 0.0


def _column(entries: Sequence[Entry], name: str) -> list[Any]:
    return [entry["window"][name] for entry in entries]


def _sorted_union(groups: Iterable[Iterable[str | None]]) -> list[str]:
    return sorted({item for group in groups for item in group if item})


@dataclass(frozen=True)
class CallTerm:
    """``calls`` calls of one measured target; a negative number is subtracted."""

    key: str
    calls: float
    measured: Measured | None


@dataclass(frozen=True)
class Total:
    """A sum with the half-width of its 95 % interval.

    ``idle`` is the part of it that the error of the idle power makes, with its sign: it is the same in every sum
    of a session. ``by_pass`` are the sums of those passes in which every term has a window.
    """

    value: float
    half: float | None
    idle: float = 0.0
    by_pass: Mapping[int, float] = field(default_factory=dict)

    @property
    def low(self) -> float | None:
        return None if self.half is None else self.value - self.half

    @property
    def high(self) -> float | None:
        return None if self.half is None else self.value + self.half


def total(terms: Sequence[CallTerm], quantity: str) -> Total | None:
    """Add up a quantity (``energy``, ``static``, ``dynamic`` or ``time``) over terms; None if one is unknown.

    Terms of one target (a kind's mean) are fully correlated: their half-widths add up before they are squared.
    What all windows of a pass have in common (the host's pace, the board's temperature) does not average out in
    a sum; it shows in how the sums of the passes scatter, and the wider of both is taken.
    """
    value = 0.0
    idle: float | None = 0.0
    halves: dict[str, float | None] = {}
    for term in terms:
        estimate: Estimate = UNKNOWN if term.measured is None else getattr(term.measured, quantity)
        if term.measured is None or estimate.mean is None:
            return None
        value += term.calls * estimate.mean
        error = term.measured.idle_error(quantity)
        idle = None if idle is None or error is None else idle + term.calls * error
        half = None if estimate.low is None or estimate.high is None else (estimate.high - estimate.low) / 2
        so_far = halves.get(term.key, 0.0)
        halves[term.key] = None if half is None or so_far is None else so_far + term.calls * half
    known = [half for half in halves.values() if half is not None]
    by_pass = _sums(terms, quantity)
    if len(known) < len(halves) or idle is None:
        return Total(value, None, by_pass=by_pass)
    together = half_of(list(by_pass.values())) if len(halves) > 1 else None
    return Total(value, math.hypot(max(math.hypot(*known), together or 0.0), idle), idle, by_pass)


def _sums(terms: Sequence[CallTerm], quantity: str) -> dict[int, float]:
    columns = [
        (term.calls, term.measured.by_pass.get(quantity, {}))
        for term in terms
        if term.measured and not term.measured.empty
    ]
    if not columns:
        return {}
    passes = set.intersection(*(set(values) for _, values in columns))
    return {number: sum(calls * values[number] for calls, values in columns) for number in sorted(passes)}


def half_of(values: Sequence[float]) -> float | None:
    """Return Student's 95 % half-width of a mean, None for fewer than three values."""
    if len(values) < LEAST_PASSES:
        return None
    return student_t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def quotient(part: Total | None, whole: Total | None) -> Total | None:
    """Return part / whole with its 95 % interval.

    Independent of each other, their half-widths propagate to first order. What both have in common in a pass
    cancels: where the ratios of the passes scatter less than that, their interval is taken. The error of the
    idle power is in both, with its sign.
    """
    if part is None or whole is None or not whole.value:
        return None
    ratio = part.value / whole.value
    if part.half is None or whole.half is None:
        return Total(ratio, None)
    own = math.sqrt(max(part.half**2 - part.idle**2, 0.0)), math.sqrt(max(whole.half**2 - whole.idle**2, 0.0))
    independent = math.hypot(own[0], ratio * own[1]) / abs(whole.value)
    passes = {
        number: part.by_pass[number] / whole.by_pass[number]
        for number in part.by_pass
        if whole.by_pass.get(number)
    }
    in_turn = half_of(list(passes.values()))
    half = independent if in_turn is None else min(independent, in_turn)
    idle = (part.idle - ratio * whole.idle) / abs(whole.value)
    return Total(ratio, math.hypot(half, idle), idle, passes)

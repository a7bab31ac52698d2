"""From the windows of one target to its figures per call, with intervals. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from energyscope.accounting.records import HOST_BOUND, Entry, any_bits, windows
from energyscope.metering.activity import Activity, mean_activity
from energyscope.metering.interval import Estimate, combine, spread
from energyscope.reasons import Reason, reason
from energyscope.unknown import mean, minus

NOTHING = Estimate(0.0, 0.0, 0.0, 0)
UNKNOWN = Estimate(None, None, None, 0)


@dataclass
class Measured:
    """One target's figures per call, over its windows: energies in mJ, time in us.

    ``power_w``, ``clock_mhz`` and ``activity`` are means. ``empty`` says that it launches no work on the device.
    ``guard`` holds what disturbed a window, ``reasons`` what else a reader should know.
    """

    energy: Estimate = UNKNOWN
    static: Estimate = UNKNOWN
    dynamic: Estimate = UNKNOWN
    time: Estimate = UNKNOWN
    power_w: float | None = None
    naive_mj: float | None = None
    clock_mhz: float | None = None
    throttle: int | None = None
    ticks: int = 0
    passes: int = 0
    spread: float | None = None
    waited_share: float | None = None
    activity: Activity | None = None
    empty: bool = False
    devices_mj: list[float | None] = field(default_factory=list)
    guard: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def host_bound(self) -> bool | None:
        """Whether launching from the host, and not the device, sets the pace; None where it is not known."""
        return None if self.waited_share is None else self.waited_share < HOST_BOUND


def measure(entries: Sequence[Entry], idle_w: float | None, *, first: int) -> Measured:
    """Summarise one target's entries; of several windows in a pass, the last one counts.

    Args:
        entries: in the order of the journal.
        idle_w: the settled idle power (W); None leaves static and dynamic energy unknown.
        first: the number of windows whose spread decided how many were measured.

    ``spread`` is that of the windows as they were first taken.

    """
    if any(entry.get("empty") for entry in entries):
        return Measured(NOTHING, NOTHING, NOTHING, NOTHING, empty=True, reasons=[reason("launches-nothing")])
    unavailable = [entry["unavailable"] for entry in entries if "unavailable" in entry][:1]
    taken = list(windows(entries))
    if not taken:
        return Measured(reasons=unavailable)
    paused = "rest_us" in taken[0]
    by_pass = {entry["pass"]: entry for entry in taken}
    final = [by_pass[number] for number in sorted(by_pass)]
    original = list({entry["pass"]: entry for entry in reversed(taken)}.values())
    energies, times = _column(final, "energy_mj"), _column(final, "time_us")
    static = [None if idle_w is None or time_us is None else idle_w * time_us / 1e3 for time_us in times]
    dynamic = [minus(energy, idle) for energy, idle in zip(energies, static, strict=True)]
    floor = mean([entry["window"].get("timing_share") for entry in final]) or 0.0
    devices = [entry["devices"] for entry in final if "devices" in entry]
    activities = [entry["window"].get("activity") for entry in final]
    activity = mean_activity([Activity(**shares) if shares else None for shares in activities])
    return Measured(
        energy=combine(energies, first=first, floor=floor),
        static=combine(static, first=first),
        dynamic=combine(dynamic, first=first, floor=floor * _times_larger(energies, dynamic)),
        time=combine(times, first=first),
        power_w=mean(_column(final, "power_w")),
        naive_mj=mean(_column(final, "naive_mj")),
        clock_mhz=mean([entry.get("clock_mhz") for entry in final]),
        throttle=any_bits(entry.get("throttle") for entry in final),
        ticks=sum(_column(final, "ticks")),
        passes=len(final),
        spread=spread(_column(original, "energy_mj")),
        waited_share=mean([entry.get("waited_share") for entry in final]),
        activity=activity,
        devices_mj=[mean(device) for device in zip(*devices, strict=True)],
        guard=_sorted_union([*(entry.get("guard") or ()), *_beating(final)] for entry in final),
        reasons=[
            *_sorted_union([entry["window"]["reason"]] for entry in final),
            *([reason("retaken-windows", windows=again)] if (again := len(taken) - len(final)) else []),
            *([reason("replayed-with-pauses")] if paused else []),
            *([activity.reason] if activity and activity.reason else []),
            *unavailable,
        ],
    )


def _beating(entries: Sequence[Entry]) -> list[Reason]:
    """Return that a target beats with the sensor, where it does in half of its windows or more."""
    beating = sum(bool(entry.get("beats")) for entry in entries)
    return [reason("beats-with-sensor", windows=beating)] if 2 * beating >= len(entries) else []


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
    """A sum with the half-width of its 95 % interval."""

    value: float
    half: float | None

    @property
    def low(self) -> float | None:
        return None if self.half is None else self.value - self.half

    @property
    def high(self) -> float | None:
        return None if self.half is None else self.value + self.half


def total(terms: Sequence[CallTerm], quantity: str) -> Total | None:
    """Add up a quantity (``energy``, ``static``, ``dynamic`` or ``time``) over terms; None if one is unknown.

    Terms of one target (a kind's mean) are fully correlated: their half-widths add up before they are squared.
    """
    value = 0.0
    halves: dict[str, float | None] = {}
    for term in terms:
        estimate: Estimate = UNKNOWN if term.measured is None else getattr(term.measured, quantity)
        if estimate.mean is None:
            return None
        value += term.calls * estimate.mean
        half = None if estimate.low is None or estimate.high is None else (estimate.high - estimate.low) / 2
        so_far = halves.get(term.key, 0.0)
        halves[term.key] = None if half is None or so_far is None else so_far + term.calls * half
    known = [half for half in halves.values() if half is not None]
    return Total(value, math.hypot(*known) if len(known) == len(halves) else None)

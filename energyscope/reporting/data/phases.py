"""The phases of a generation, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.data.given import given, whole
from energyscope.reporting.data.scenes import DECODE, PREFILL
from energyscope.runs.intervals import Interval, finite, total_of_same

MILLI = 1e3
LOAD, TOTAL = "load", "total"


@dataclass(frozen=True)
class PhaseRow:
    """One phase of a generation (of the whole batch); ``load`` happens once. Energies in mJ.

    ``method`` is ``traced``, ``repeated``, ``regressed``, or None, for which ``reason`` says why.
    """

    phase: str
    method: str | None
    seconds: Interval | None
    energy: Interval | None
    static_mj: float | None
    dynamic_mj: float | None
    power_w: Interval | None
    tokens: int | None
    per_token: Interval | None
    devices_mj: list[float]
    reason: str


def phase_row(entry: Mapping[str, Any]) -> PhaseRow:
    """Read a phase of generation.json."""
    devices = [finite(value) for value in entry.get("devices_j") or []]
    method = entry.get("method")
    return PhaseRow(
        phase=str(entry.get("phase")),
        method=None if method is None else str(method),
        seconds=given(entry.get("seconds")),
        energy=_milli(entry.get("energy_j")),
        static_mj=_scaled(entry.get("static_j")),
        dynamic_mj=_scaled(entry.get("dynamic_j")),
        power_w=given(entry.get("power_w")),
        tokens=whole(entry.get("tokens")),
        per_token=_milli(entry.get("joules_per_token")),
        devices_mj=[value * MILLI for value in devices if value is not None],
        reason=str(entry.get("reason") or ""),
    )


def _milli(entry: object) -> Interval | None:
    joules = given(entry)
    return joules.scaled(MILLI) if joules else None


def _scaled(value: object) -> float | None:
    number = finite(value)
    return None if number is None else number * MILLI


def total_row(phases: Sequence[PhaseRow]) -> PhaseRow | None:
    """Add up what a generation takes, the load left out; None unless prefill and decode are known.

    Widths of intervals add: phases that one regression told apart do not err independently of each other.
    """
    of = [row for row in phases if row.phase != LOAD]
    known = [row for row in of if row.energy is not None]
    if not {PREFILL, DECODE} <= {row.phase for row in known}:
        return None
    missing = [row.phase for row in of if row.energy is None]
    times = [row.seconds for row in known if row.seconds is not None]
    seconds = total_of_same(times) if len(times) == len(known) else None
    energy = total_of_same(row.energy for row in known if row.energy is not None)
    watts = energy.value / MILLI / seconds.value if seconds and seconds.value > 0 else None
    return PhaseRow(
        phase=TOTAL,
        method=TOTAL,
        seconds=seconds,
        energy=energy,
        static_mj=_sum([row.static_mj for row in known]),
        dynamic_mj=_sum([row.dynamic_mj for row in known]),
        power_w=None if watts is None else Interval(watts),
        tokens=None,
        per_token=None,
        devices_mj=[],
        reason=f"without {text.listed(missing)}" if missing else "without the load",
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None where one is missing."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None

"""From the journalled windows of all alternatives to alternatives.json. Pure functions over plain data.

Every pass has a window of each alternative and of the run's own setting, so they are compared inside of a pass:
what drifts from pass to pass cancels, but in a window that was taken again at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from energyscope.accounting import records
from energyscope.benchmarking.summary import ratio_by_trial
from energyscope.changes.choice import BASE, Alternative
from energyscope.metering.grades import grade
from energyscope.metering.interval import Estimate, combine
from energyscope.reasons import join
from energyscope.unknown import mean, times

Entry = Mapping[str, Any]
Limited = dict[str, float | None]


@dataclass
class _Windows:
    """The windows of one alternative, the last one of each pass."""

    alternative: Alternative
    entries: list[Entry]
    setup_s: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def floor(self) -> float:
        """The relative deviation of one window that the ticks alone make."""
        return mean([entry["window"].get("timing_share") for entry in self.entries]) or 0.0

    def column(self, name: str) -> list[float | None]:
        return [entry["window"][name] for entry in self.entries]

    def per_token(self) -> list[dict[str, Any]]:
        return [
            {"trial": entry["pass"], "mj": times(entry["window"]["energy_mj"], 1 / self.alternative.tokens)}
            for entry in self.entries
        ]


def document(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return what alternatives.json holds, of this stage's entries; None where no window was finished.

    Energy and static energy are mJ per step (decode) or pass (prefill) of the whole batch, and the ratio is that
    of joules per token. Intervals hold 95 %; limits are None where there is one window. What was set up and failed
    later is among the skipped, and has no row.
    """
    header = next((entry["header"] for entry in entries if "header" in entry), None)
    left_out = [entry["skipped"] for entry in entries if "skipped" in entry]
    windows = _windows(entries, {(skip["phase"], skip["what"], skip["value"]) for skip in left_out})
    if header is None or not windows:
        return None
    idle_w = records.idle_power(entries)
    guards = _disturbed(entries)
    bases = {own.alternative.phase: own for own in windows.values() if own.alternative.what == BASE}
    rows = [
        _row(own, bases.get(own.alternative.phase), idle_w, guards.get(key, ())) for key, own in windows.items()
    ]
    order = {planned["key"]: number for number, planned in enumerate(header["planned"])}
    rows.sort(key=lambda row: order.get(f"{row['phase']}:{row['what']}:{row['value']}", len(order)))
    return {
        "base": header["base"],
        "rows": rows,
        "skipped": left_out,
        "idle_w": idle_w,
        "modelled": header["modelled"],
        "notes": list(dict.fromkeys([*header["notes"], *(entry["note"] for entry in entries if "note" in entry)])),
    }


def _windows(entries: Sequence[Entry], left_out: set[tuple[str, str, str]]) -> dict[str, _Windows]:
    """Return the windows of each alternative by its key, a window taken again in place of the one before."""
    alternatives = {
        planned["key"]: Alternative(**planned["setting"])
        for entry in entries
        if "header" in entry
        for planned in entry["header"]["planned"]
    }
    setups = {entry["setup"]: entry for entry in entries if "setup" in entry}
    windows = {}
    for key, alternative in alternatives.items():
        by_pass = {entry["pass"]: entry for entry in entries if "window" in entry and entry["subject"] == key}
        if by_pass and (alternative.phase, alternative.what, alternative.value) not in left_out:
            setup = setups.get(key, {})
            own = [by_pass[number] for number in sorted(by_pass)]
            windows[key] = _Windows(alternative, own, setup.get("setup_s"), list(setup.get("reasons", ())))
    return windows


def _row(windows: _Windows, base: _Windows | None, idle_w: float | None, guards: Iterable[str]) -> dict[str, Any]:
    energy = combine(windows.column("energy_mj"), floor=windows.floor)
    time_us, power = combine(windows.column("time_us")), combine(windows.column("power_w"), floor=windows.floor)
    raised = {guard for entry in windows.entries for guard in entry.get("guard") or ()} | set(guards)
    quality, reasons = grade(energy.relative_half_width, energy.windows, sorted(raised))
    return {
        **asdict(windows.alternative),
        "energy_mj": _limited(energy),
        "static_mj": None if idle_w is None or time_us.mean is None else idle_w * time_us.mean / 1e3,
        "time_us": _limited(time_us),
        "power_w": _limited(power),
        "joules_per_token": _limited(energy, 1e-3 / windows.alternative.tokens),
        "tokens_per_s": _rate(time_us, windows.alternative.tokens),
        "ratio": _ratio(windows, base),
        "setup_s": windows.setup_s,
        "windows": energy.windows,
        "quality": quality,
        "guards": sorted(raised),
        "reasons": join([*reasons, *windows.notes]),
    }


def _ratio(windows: _Windows, base: _Windows | None) -> Limited | None:
    """Return the joules per token by those of the phase's base, paired by pass; None without a base."""
    if base is None:
        return None
    if base is windows:
        return {"value": 1.0, "low": None, "high": None}
    return ratio_by_trial(windows.per_token(), base.per_token(), "mj", math.hypot(windows.floor, base.floor))


def _limited(estimate: Estimate, factor: float = 1.0) -> Limited | None:
    if estimate.mean is None:
        return None
    return {
        "value": estimate.mean * factor,
        "low": times(estimate.low, factor),
        "high": times(estimate.high, factor),
    }


def _rate(time_us: Estimate, tokens: int) -> Limited | None:
    """Return tokens a second; no upper limit where the time's lower one is not positive."""
    if not time_us.mean:
        return None

    def per_second(time: float | None) -> float | None:
        return tokens * 1e6 / time if time is not None and time > 0 else None

    return {"value": tokens * 1e6 / time_us.mean, "low": per_second(time_us.high), "high": per_second(time_us.low)}


def _disturbed(entries: Sequence[Entry]) -> dict[str, set[str]]:
    """Return what else used the device in the idle times around each alternative's windows."""
    guards: dict[str, set[str]] = {}
    for entry, others in records.beside_bystanders(entries):
        guards.setdefault(entry["subject"], set()).update(others)
    return guards

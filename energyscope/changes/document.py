"""alternatives.json from a journal alone. Pure functions over plain data.

Every pass has a window of each alternative and of the run's own setting, so they are compared inside of a pass:
a drift from pass to pass cancels, except in a window that was taken again at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from energyscope.accounting import records
from energyscope.benchmarking.summary import ratio_by_trial
from energyscope.changes.acceptance import Acceptance
from energyscope.changes.plan import BASE, Alternative
from energyscope.intervals import Interval, interval, serialize
from energyscope.metering.activity import Activity, limited_by, mean_activity
from energyscope.metering.grades import grade
from energyscope.metering.interval import Estimate, combine
from energyscope.reasons import join
from energyscope.unknown import mean, quotient

Entry = Mapping[str, Any]

UNCHANGED = Interval(1.0, 1.0, 1.0)


@dataclass
class _Windows:
    """The windows of one alternative, the last one of each pass."""

    alternative: Alternative
    entries: list[Entry]
    setup: Entry

    @property
    def floor(self) -> float:
        """The relative deviation of one window that the ticks alone make."""
        return mean([entry["window"].get("timing_share") for entry in self.entries]) or 0.0

    @property
    def estimate(self) -> Estimate:
        return combine(self.column("energy_mj"), floor=self.floor)

    @property
    def energy(self) -> Interval | None:
        return _interval(self.estimate)

    @property
    def time_us(self) -> Interval | None:
        return _interval(combine(self.column("time_us")))

    @property
    def acceptance(self) -> Acceptance | None:
        counts = self.setup.get("acceptance")
        return Acceptance(**counts) if counts else None

    def column(self, name: str) -> list[float | None]:
        return [entry["window"][name] for entry in self.entries]

    def per_token(self) -> list[dict[str, Any]]:
        return [
            {"trial": entry["pass"], "mj": quotient(entry["window"]["energy_mj"], self.alternative.tokens)}
            for entry in self.entries
        ]


def document(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return what alternatives.json holds, of this stage's entries; None where no window was finished.

    Energy and static energy are mJ per step (decode) or pass (prefill) of the whole batch, and the ratio is that
    of joules per token. With prompt lookup the step is one that verifies a proposal, and joules per token, tokens
    per second and the ratio are of all steps by the tokens that they make. Intervals hold 95 %; limits are None
    where there is one window. What was set up and failed later is among the skipped, and has no row.
    """
    header = next((entry["header"] for entry in entries if "header" in entry), None)
    skipped = [entry["skipped"] for entry in entries if "skipped" in entry]
    windows = _windows(entries, {f"{skip['phase']}:{skip['what']}:{skip['value']}" for skip in skipped})
    if header is None or not windows:
        return None
    idle_w = records.idle_power(entries)
    guards = _bystanders(entries)
    bases = {own.alternative.phase: own for own in windows.values() if own.alternative.what == BASE}
    rows = [
        _row(own, bases.get(own.alternative.phase), idle_w, guards.get(key, ())) for key, own in windows.items()
    ]
    return {
        "base": header["base"],
        "rows": rows,
        "skipped": skipped,
        "idle_w": idle_w,
        "modelled": header["modelled"],
        "notes": list(dict.fromkeys([*header["notes"], *(entry["note"] for entry in entries if "note" in entry)])),
    }


def _windows(entries: Sequence[Entry], skipped: set[str]) -> dict[str, _Windows]:
    """Return the windows of each alternative by its key, as planned; one taken again replaces the one before."""
    planned = [plan for entry in entries if "header" in entry for plan in entry["header"]["planned"]]
    setups = {entry["setup"]: entry for entry in entries if "setup" in entry}
    by_pass: dict[str, dict[int, Entry]] = {}
    for entry in entries:
        if "window" in entry:
            by_pass.setdefault(entry["subject"], {})[entry["pass"]] = entry
    return {
        key: _Windows(
            Alternative(**plan["setting"]),
            [by_pass[key][number] for number in sorted(by_pass[key])],
            setups.get(key, {}),
        )
        for plan in planned
        if (key := plan["key"]) in by_pass and key not in skipped
    }


def _row(windows: _Windows, base: _Windows | None, idle_w: float | None, guards: Iterable[str]) -> dict[str, Any]:
    alternative, tokens = windows.alternative, windows.alternative.tokens
    estimate, energy, time_us = windows.estimate, windows.energy, windows.time_us
    acceptance = windows.acceptance
    own_energy, own_time = (base.energy, base.time_us) if base else (None, None)
    raised = {guard for entry in windows.entries for guard in entry.get("guard") or ()} | set(guards)
    per_token = _per_token(energy, own_energy, acceptance, 1e-3 / tokens) if tokens else None
    rate = _rate(_per_token(time_us, own_time, acceptance), tokens) if tokens else None
    quality, reasons = grade(estimate.relative_half_width, estimate.windows, sorted(raised))
    return {
        **asdict(alternative),
        "energy_mj": serialize(energy),
        "static_mj": None if idle_w is None or time_us is None else idle_w * time_us.value / 1e3,
        "time_us": serialize(time_us),
        "power_w": serialize(_interval(combine(windows.column("power_w"), floor=windows.floor))),
        "joules_per_token": serialize(per_token),
        "tokens_per_s": serialize(rate),
        "ratio": serialize(_per_token(_ratio(windows, base), UNCHANGED, acceptance)),
        "setup_s": windows.setup.get("setup_s"),
        "windows": estimate.windows,
        "quality": quality,
        "guards": sorted(raised),
        "reasons": join([*reasons, *windows.setup.get("reasons", ())]),
        **_limits(windows),
        "acceptance": acceptance and _accepted(acceptance),
    }


def _per_token(
    step: Interval | None, own: Interval | None, acceptance: Acceptance | None, scale: float = 1.0
) -> Interval | None:
    """Return a step's figure for a token; with prompt lookup, steps without a proposal are the base's ``own``."""
    if step is None or acceptance is None:
        return step and step.scaled(scale)
    return own and acceptance.per_token(step, own).scaled(scale)


def _accepted(acceptance: Acceptance) -> dict[str, Any]:
    """Return what the file says of prompt lookup: tokens a step, and how many texts are those without it."""
    return {
        "tokens_per_step": serialize(acceptance.tokens_per_step),
        "proposed_share": acceptance.proposed_share,
        "texts": acceptance.texts,
        "new_tokens": sum(acceptance.tokens),
        "prompt_tokens": acceptance.prompt_tokens,
        "same": acceptance.same,
        "largest_gap": acceptance.largest_gap,
    }


def _limits(windows: _Windows) -> dict[str, Any]:
    """Return whether the power limit slowed the board, and what limits the step; None where unknown."""
    shares = [entry["window"].get("activity") for entry in windows.entries]
    activity = mean_activity([Activity(**each) if each else None for each in shares])
    return {
        "at_power_limit": records.at_power_limit(windows.entries),
        "limited_by": limited_by(activity),
    }


def _interval(estimate: Estimate) -> Interval | None:
    return interval(estimate.mean, estimate.low, estimate.high)


def _ratio(windows: _Windows, base: _Windows | None) -> Interval | None:
    """Return the joules per token by those of the phase's base, paired by pass; None without a base."""
    if base is None:
        return None
    if base is windows:
        return Interval(1.0)
    return ratio_by_trial(windows.per_token(), base.per_token(), "mj", math.hypot(windows.floor, base.floor))


def _rate(time_us: Interval | None, tokens: int) -> Interval | None:
    """Return tokens a second; no upper limit where the time's lower limit is not positive."""
    if time_us is None or not time_us.value:
        return None
    slowest, fastest = (
        tokens * 1e6 / limit if limit is not None and limit > 0 else None for limit in (time_us.high, time_us.low)
    )
    return Interval(tokens * 1e6 / time_us.value, slowest, fastest)


def _bystanders(entries: Sequence[Entry]) -> dict[str, set[str]]:
    """Return what else used the device in the idle times around each alternative's windows."""
    guards: dict[str, set[str]] = {}
    for entry, others in records.beside_bystanders(entries):
        guards.setdefault(entry["subject"], set()).update(others)
    return guards

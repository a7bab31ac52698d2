"""Close the books: from the windows of every subject to the rows of the energy table. Pure functions.

Everything here follows from a profile's header and its journalled windows, so that an interrupted run, or
one rendered again, gives the same table.
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from energyscope.metering.interval import Estimate, combine, grade, spread
from energyscope.runs.schema import EnergyRow

ROOT = "model"
THERMAL = 0x08 | 0x20 | 0x40 | 0x80  # NVML's hardware slow-down, thermal and power-brake bits
POWER_CAP = 0x04
CLOCKS_APART = 0.01

Entry = Mapping[str, Any]


@dataclass
class Measured:
    """One subject's figures per call, over its windows. ``power_w`` and ``clock_mhz`` are means."""

    energy: Estimate
    time_us: float | None
    power_w: float | None
    naive_mj: float | None
    clock_mhz: float | None
    throttle: int | None
    ticks: int
    passes: int
    spread: float | None
    reasons: list[str] = field(default_factory=list)


@dataclass
class Books:
    """The table and the closure at every level."""

    rows: list[EnergyRow]
    closure: dict[str, Any]


def measure(entries: Sequence[Entry]) -> Measured:
    """Summarise one subject's windows; one that was taken again replaces the one before it of its pass.

    The spread is that of the windows as they were first taken.
    """
    first = {entry["pass"]: entry for entry in reversed(entries)}
    kept = {entry["pass"]: entry for entry in entries}
    again = len(entries) - len(kept)
    entries = list(kept.values())
    windows = [entry["window"] for entry in entries]
    energies = [window["energy_mj"] for window in windows]
    reasons = sorted({window["reason"] for window in windows if window["reason"]})
    if again:
        reasons.append(f"{again} stalled windows taken again" if again > 1 else "1 stalled window taken again")
    return Measured(
        energy=combine(energies),
        time_us=_mean([window["time_us"] for window in windows]),
        power_w=_mean([window["power_w"] for window in windows]),
        naive_mj=_mean([window["naive_mj"] for window in windows]),
        clock_mhz=_mean([entry.get("clock_mhz") for entry in entries]),
        throttle=_any_bits(entry.get("throttle") for entry in entries),
        ticks=sum(window["ticks"] for window in windows),
        passes=len(kept),
        spread=spread([entry["window"]["energy_mj"] for entry in first.values()]),
        reasons=reasons,
    )


def close_books(header: Entry, entries: Sequence[Entry], idle_w: float | None) -> Books:
    """Build the rows and the closure.

    Args:
        header: the profile's settings, its ``tree`` (components as dicts) and its ``subjects``.
        entries: one dict a window, with ``subject``, ``pass`` and ``window``.
        idle_w: the settled idle power (W); None leaves static and dynamic energy unknown.

    """
    measured = {key: measure(group) for key, group in _by_subject(entries).items()}
    rows = [_row(component, header, measured, idle_w) for component in header["tree"]]
    _relate(rows)
    return Books(rows, closures(rows, _shared(header)))


def _shared(header: Entry) -> dict[str, str]:
    """Return the measurement that each component's value comes from: several may share a kind's mean."""
    measuring = [subject for subject in header["subjects"] if subject["what"] != "glue"]
    return {name: subject["key"] for subject in measuring for name in subject["members"]}


def _by_subject(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[entry["subject"]].append(entry)
    return groups


def _subject_of(header: Entry, name: str, *kinds: str) -> Entry | None:
    for subject in header["subjects"]:
        if subject["what"] in kinds and name in subject["members"]:
            return dict(subject)
    return None


def _row(component: Entry, header: Entry, measured: Mapping[str, Measured], idle_w: float | None) -> EnergyRow:
    name = component["name"]
    subject = _subject_of(header, name, "node", "group")
    found = measured.get(subject["key"]) if subject else None
    calls = component["calls"]
    row = EnergyRow(
        component=name,
        kind=component["kind"],
        layer=component["layer"],
        level=component["level"],
        parent=component["parent"],
        **{key: header[key] for key in ("phase", "precision", "execution", "batch_size", "context_length")},
        device=header["device"],
        meter=header["meter"],
        calls=calls,
        **_figures(found, calls, idle_w),
        reused=bool(subject and subject["what"] == "group" and len(subject["members"]) > 1),
        parameters=component["parameters"],
        weight_bytes=component["weight_bytes"],
    )
    row.quality, reasons = _quality(found, measured.get(f"node:{ROOT}"))
    if component.get("varied"):
        row.quality = "invalid"
        reasons.append("its calls have inputs of different shapes, and only the first is replayed")
    if row.reused:
        reasons.append(f"mean of its kind over {len(subject['members']) if subject else 0} layers")
    row.reasons = "; ".join(reasons)
    _add_glue(row, header, measured, idle_w)
    return row


def _figures(found: Measured | None, calls: float, idle_w: float | None) -> dict[str, Any]:
    """Return the measured columns, per forward pass."""
    if found is None:
        empty = ("energy_mj", "energy_ci_low_mj", "energy_ci_high_mj", "static_mj", "dynamic_mj", "time_us")
        return dict.fromkeys((*empty, "power_w", "naive_mj", "ticks", "windows", "passes"))
    energy = _times(found.energy.mean, calls)
    time_us = _times(found.time_us, calls)
    static = None if idle_w is None or time_us is None else idle_w * time_us / 1e3
    return {
        "energy_mj": energy,
        "energy_ci_low_mj": _times(found.energy.low, calls),
        "energy_ci_high_mj": _times(found.energy.high, calls),
        "static_mj": static,
        "dynamic_mj": None if static is None or energy is None else energy - static,
        "time_us": time_us,
        "power_w": found.power_w,
        "naive_mj": _times(found.naive_mj, calls),
        "ticks": found.ticks,
        "windows": found.energy.windows,
        "passes": found.passes,
        "spread_between_passes": found.spread,
    }


def _quality(found: Measured | None, model: Measured | None) -> tuple[str, list[str]]:
    if found is None:
        return "invalid", ["not measured: the run ended before"]
    guard = []
    throttle = found.throttle or 0
    if throttle & THERMAL:
        guard.append("the GPU slowed down for heat or by a hardware limit")
    if model and found.clock_mhz and model.clock_mhz and (throttle | (model.throttle or 0)) & POWER_CAP:
        apart = found.clock_mhz / model.clock_mhz - 1
        if abs(apart) > CLOCKS_APART:
            guard.append(f"power cap: ran at clocks {apart:+.1%} from the model's")
    name, reasons = grade(found.energy.relative_half_width, found.energy.windows, guard)
    if found.clock_mhz is not None and found.throttle is None:
        reasons.append("the board does not say whether it throttled")
    return name, [*reasons, *found.reasons]


def _add_glue(row: EnergyRow, header: Entry, measured: Mapping[str, Measured], idle_w: float | None) -> None:
    subject = _subject_of(header, row.component, "glue")
    found = measured.get(subject["key"]) if subject else None
    if found is None or row.calls is None:
        return
    row.glue_mj = _times(found.energy.mean, row.calls)
    row.glue_ci_low_mj = _times(found.energy.low, row.calls)
    row.glue_ci_high_mj = _times(found.energy.high, row.calls)
    row.glue_time_us = _times(found.time_us, row.calls)
    if idle_w is not None and row.glue_time_us is not None:
        row.glue_static_mj = idle_w * row.glue_time_us / 1e3


def _relate(rows: Sequence[EnergyRow]) -> None:
    """Fill in shares, self and unexplained energy, and what time-proportional attribution would have said."""
    by_name = {row.component: row for row in rows}
    root = by_name[ROOT]
    for row in rows:
        parent = by_name.get(row.parent or "")
        row.share_of_total = _ratio(row.energy_mj, root.energy_mj)
        row.share_of_parent = _ratio(row.energy_mj, parent.energy_mj) if parent else None
        share_of_time = _ratio(row.time_us, root.time_us)
        if share_of_time is not None and root.energy_mj is not None:
            row.proportional_mj = share_of_time * root.energy_mj
        children = [child for child in rows if child.parent == row.component]
        total = _sum([child.energy_mj for child in children])
        if children and row.energy_mj is not None and total is not None:
            row.self_mj = row.energy_mj - total
            row.unexplained_mj = None if row.glue_mj is None else row.self_mj - row.glue_mj


def closures(rows: Sequence[EnergyRow], shared: Mapping[str, str]) -> dict[str, Any]:
    """Return (children + glue) / node for the model, the layers and the blocks; energy, time, static, dynamic.

    Layers and blocks are taken together (sums over all of a kind), which also averages their noise. Where a
    level's glue is missing, the ratio is children / node and ``with_glue`` is False. ``shared`` names the
    measurement behind each component.
    """
    levels: dict[str, list[EnergyRow]] = {"model": [rows[0]]}
    levels["layers"] = [row for row in rows if row.level == "layer"]
    for kind in sorted({row.kind for row in rows if row.level == "block"}):
        levels[kind] = [row for row in rows if row.level == "block" and row.kind == kind]
    children: dict[str, list[EnergyRow]] = defaultdict(list)
    for row in rows:
        children[row.parent or ""].append(row)
    found = {}
    for name, candidates in levels.items():
        parents = [row for row in candidates if children[row.component]]
        closure = _closure(parents, [child for row in parents for child in children[row.component]], shared)
        if closure is not None:
            found[name] = closure
    return found


def _closure(
    parents: Sequence[EnergyRow], children: Sequence[EnergyRow], shared: Mapping[str, str]
) -> dict[str, Any] | None:
    node = _sum([row.energy_mj for row in parents])
    inside = _sum([row.energy_mj for row in children])
    if not parents or not node or inside is None:
        return None
    with_glue = all(row.glue_mj is not None for row in parents)
    glue = (_sum([row.glue_mj for row in parents]) or 0.0) if with_glue else 0.0
    ratio = (inside + glue) / node
    spread_of = (_joint_variance(children, shared), _joint_variance(parents, shared), _glue_variance(parents))
    half = _half_width(spread_of if with_glue else (*spread_of[:2], 0.0), ratio, node)

    def of(column: str, glue_column: str) -> float | None:
        parts = _sum([getattr(row, column) for row in children])
        rest = _sum([getattr(row, glue_column) for row in parents]) if with_glue else 0.0
        whole = _sum([getattr(row, column) for row in parents])
        return None if parts is None or rest is None or not whole else (parts + rest) / whole

    static = of("static_mj", "glue_static_mj")
    return {
        "energy": ratio,
        "energy_low": None if half is None else ratio - half,
        "energy_high": None if half is None else ratio + half,
        "time": of("time_us", "glue_time_us"),
        "static": static,
        "dynamic": _dynamic_closure(parents, children, with_glue=with_glue),
        "with_glue": with_glue,
    }


def _dynamic_closure(
    parents: Sequence[EnergyRow], children: Sequence[EnergyRow], *, with_glue: bool
) -> float | None:
    whole = _sum([row.dynamic_mj for row in parents])
    parts = _sum([row.dynamic_mj for row in children])
    glue = [_minus(row.glue_mj, row.glue_static_mj) for row in parents] if with_glue else [0.0]
    rest = _sum(glue)
    return None if parts is None or rest is None or not whole else (parts + rest) / whole


def _half_width(
    variances: tuple[float | None, float | None, float | None], ratio: float, node: float
) -> float | None:
    """Return the 95 % half-width of a closure by first-order propagation, from squared half-widths (mJ^2)."""
    inside, outside, glue = variances
    if inside is None or outside is None or glue is None:
        return None
    return float(((inside + glue + ratio**2 * outside) ** 0.5) / node)


def _joint_variance(rows: Sequence[EnergyRow], shared: Mapping[str, str]) -> float | None:
    """Return the squared half-width of a sum of rows.

    Rows that share one measurement (a kind's mean) are fully correlated: their half-widths add up before they
    are squared.
    """
    groups: dict[str, float] = defaultdict(float)
    for row in rows:
        if row.energy_ci_low_mj is None or row.energy_ci_high_mj is None:
            return None
        key = shared.get(row.component, row.component)
        groups[key] += (row.energy_ci_high_mj - row.energy_ci_low_mj) / 2
    return sum(half**2 for half in groups.values())


def _glue_variance(parents: Sequence[EnergyRow]) -> float | None:
    """Return the squared half-width of the parents' glue, which is one kind's mean for all of them."""
    total = _sum([_minus(row.glue_ci_high_mj, row.glue_ci_low_mj) for row in parents])
    return None if total is None else (total / 2) ** 2


def _any_bits(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return functools.reduce(operator.or_, known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum, None if any part is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole

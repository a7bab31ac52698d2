"""Attribute energy to components: from the windows of every target to the energy table. Pure functions.

Everything here follows from a profile's header and its journalled entries, so that an interrupted run, or
one rendered again, gives the same table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from energyscope.accounting.closure import Sources, closures, differentials, outermost
from energyscope.accounting.measured import Measured, measure
from energyscope.accounting.records import CLOCKS_APART, MODEL, POWER_CAP, Entry, beside_bystanders, windows
from energyscope.metering.activity import Activity, limited_by
from energyscope.metering.grades import grade
from energyscope.reasons import Reason, join, reason
from energyscope.runs.schema import EnergyRow
from energyscope.unknown import minus, quotient, times, total

ROOT = "model"
REQUIRED_FIGURES = (
    "energy_mj", "energy_ci_low_mj", "energy_ci_high_mj", "static_mj", "dynamic_mj", "time_us", "power_w",
)  # fmt: skip


@dataclass
class Attribution:
    """The table, the closure at every level, and the kinds' differential energies."""

    rows: list[EnergyRow]
    closure: dict[str, Any]
    differential: dict[str, Any] = field(default_factory=dict)


def attribute(header: Entry, entries: Sequence[Entry], idle_w: float | None) -> Attribution:
    """Attribute the measured energy to components: the rows, the closure and the differential energies.

    Args:
        header: the profile's settings, its ``tree`` (components as dicts) and its ``subjects``.
        entries: the journal's, in order: windows, what has none, and the idle times between.
        idle_w: the settled idle power (W); None leaves static and dynamic energy unknown.

    """
    by_target: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if "subject" in entry:
            by_target[entry["subject"]].append(entry)
    first = header.get("passes", 5)
    measured = {key: measure(group, idle_w, first=first) for key, group in by_target.items()}
    for window, bystanders in beside_bystanders(_kept(entries)):
        guard = measured[window["subject"]].guard
        guard += [bystander for bystander in bystanders if bystander not in guard]
    sources = Sources(header, measured)
    differential = differentials(sources)
    rows = [_row(component, sources, differential) for component in header["tree"]]
    add_waiting(rows, header.get("devices") or [])
    add_shares(rows)
    return Attribution(rows, closures(sources), differential)


def add_waiting(rows: Sequence[EnergyRow], devices: Sequence[str]) -> None:
    """Set the energy of the devices that a component does not run on, while they waited for it.

    For a component on several devices it is the sum over its children; their overhead is left out.
    """
    if len(devices) < 2:
        return
    for row in reversed(rows):  # children before their parents
        own = row.device.split("+")
        if len(own) == 1:
            energies = [float(text) if text else None for text in (row.devices_mj or "").split(";")]
            others = [energy for device, energy in zip(devices, energies, strict=False) if device not in own]
            row.waiting_mj = total(others) if len(energies) == len(devices) else None
        else:
            children = [child.waiting_mj for child in rows if child.parent == row.component]
            row.waiting_mj = total(children) if children else None


def _kept(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without windows that were measured again, or replaced by windows with pauses."""
    last = {(entry["subject"], entry["pass"]): entry for entry in windows(entries)}
    return [
        entry for entry in entries if "window" not in entry or last.get((entry["subject"], entry["pass"])) is entry
    ]


def _row(component: Entry, sources: Sources, differential: Mapping[str, Any]) -> EnergyRow:
    header, name, calls = sources.header, component["name"], component["calls"]
    target, measured = sources.nodes.get(name), sources.node(name)
    row = EnergyRow(
        component=name,
        kind=component["kind"],
        layer=component["layer"],
        level=component["level"],
        parent=component["parent"],
        **{key: header[key] for key in ("phase", "precision", "execution", "batch_size", "context_length")},
        kv_cache=header.get("kv_cache"),
        device="+".join(component.get("devices") or [header["device"]]),
        meter=header["meter"],
        calls=calls,
        **_figures(measured, calls),
        flops=component.get("flops"),
        executed_flops=component.get("executed_flops"),
        bytes=component.get("bytes"),
        parameters=component["parameters"],
        weight_bytes=component["weight_bytes"],
    )
    row.quality, reasons = _quality(measured, sources.measured.get(MODEL))
    if component.get("varied"):
        row.quality = "invalid"
        reasons.append(reason("varying-inputs"))
    if component.get("work_reason"):
        reasons.append(reason("work-unknown", why=component["work_reason"]))
    if target:
        reasons += _mark_reused(row, target)
    row.reasons = join(reasons)
    _add_overhead(row, sources.overhead_of(name))
    _add_differential(row, differential.get(row.kind), header["tree"])
    return row


def _mark_reused(row: EnergyRow, target: Entry) -> list[Reason]:
    """Mark a value that was not measured on that very layer; return the note that says so, if any."""
    first, *others = target["members"]
    if target["what"] == "group":
        row.reused = bool(others)
        return [reason("kind-mean", layers=1 + len(others))] if row.reused else []
    row.reused = row.component != first
    if not row.reused:
        return []
    row.measured_on = first
    return [reason("measured-on", component=first)]


def _figures(measured: Measured | None, calls: float) -> dict[str, Any]:
    """Return the measured columns, per forward pass."""
    if measured is None:
        return dict.fromkeys(REQUIRED_FIGURES)
    activity = measured.activity or Activity()
    devices = ["" if energy_mj is None else f"{energy_mj * calls:.6g}" for energy_mj in measured.devices_mj]
    return {
        "energy_mj": times(measured.energy.mean, calls),
        "energy_ci_low_mj": times(measured.energy.low, calls),
        "energy_ci_high_mj": times(measured.energy.high, calls),
        "static_mj": times(measured.static.mean, calls),
        "dynamic_mj": times(measured.dynamic.mean, calls),
        "time_us": times(measured.time.mean, calls),
        "power_w": measured.power_w,
        "naive_mj": times(measured.naive_mj, calls),
        "ticks": measured.ticks,
        "windows": measured.energy.windows,
        "passes": measured.passes,
        "spread_between_passes": measured.spread,
        "host_bound": measured.host_bound,
        "clock_mhz": measured.clock_mhz,
        "devices_mj": ";".join(devices) or None,
        "sm_activity": activity.sm,
        "tensor_activity": activity.tensor,
        "cuda_core_activity": activity.cuda_cores,
        "dram_activity": activity.dram,
        "memory_power_w": activity.memory_w,
        "limited_by": limited_by(activity),
    }


def _quality(measured: Measured | None, model: Measured | None) -> tuple[str, list[str]]:
    if measured is None:
        return "invalid", [reason("ended-before-measured")]
    if measured.empty:
        return "A", list(measured.reasons)
    guard = list(measured.guard)
    if (
        model
        and measured.clock_mhz
        and model.clock_mhz
        and ((measured.throttle or 0) | (model.throttle or 0)) & POWER_CAP
    ):
        change = measured.clock_mhz / model.clock_mhz - 1
        if abs(change) > CLOCKS_APART:
            guard.append(reason("other-clocks", change=change))
    if measured.energy.windows == 0 and measured.reasons:
        return "invalid", list(measured.reasons)
    name, reasons = grade(measured.energy.relative_half_width, measured.energy.windows, guard)
    if measured.clock_mhz is not None and measured.throttle is None:
        reasons.append(reason("throttling-unknown"))
    return name, [*reasons, *measured.reasons]


def _add_overhead(row: EnergyRow, overhead: Measured | None) -> None:
    if overhead is None or row.calls is None:
        return
    row.glue_mj = times(overhead.energy.mean, row.calls)
    row.glue_ci_low_mj = times(overhead.energy.low, row.calls)
    row.glue_ci_high_mj = times(overhead.energy.high, row.calls)
    row.glue_time_us = times(overhead.time.mean, row.calls)
    row.glue_static_mj = times(overhead.static.mean, row.calls)


def _add_differential(row: EnergyRow, differential: Entry | None, tree: Sequence[Entry]) -> None:
    """Set the component's share, by calls, of the energy that the model saves without its kind.

    None for a component inside another one of its kind, which holds its joules.
    """
    calls = {component["name"]: component["calls"] for component in outermost(tree, row.kind)}
    if differential is not None and calls.get(row.component):
        row.differential_mj = differential["energy_mj"] * calls[row.component] / sum(calls.values())


def add_shares(rows: Sequence[EnergyRow]) -> None:
    """Fill in shares, self and unexplained energy, and what time-proportional attribution would have said."""
    by_name = {row.component: row for row in rows}
    root = by_name[ROOT]
    for row in rows:
        parent = by_name.get(row.parent or "")
        row.share_of_total = quotient(row.energy_mj, root.energy_mj)
        row.share_of_parent = quotient(row.energy_mj, parent.energy_mj) if parent else None
        share_of_time = quotient(row.time_us, root.time_us)
        if share_of_time is not None and root.energy_mj is not None:
            row.proportional_mj = share_of_time * root.energy_mj
        children = [child.energy_mj for child in rows if child.parent == row.component]
        if children:
            row.self_mj = minus(row.energy_mj, total(children))
            row.unexplained_mj = minus(row.self_mj, row.glue_mj)

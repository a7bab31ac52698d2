"""Attribute energy to components: from the windows of every target to the energy table. Pure functions.

Everything here follows from a profile's header and its journalled entries, so that an interrupted run, or
one rendered again, gives the same table.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from energyscope.accounting.closure import Sources, closures, differentials, outermost
from energyscope.accounting.measured import CallTerm, Measured, Total, measure, quantities, quotient, total
from energyscope.accounting.records import (
    CLOCKS_APART,
    MODEL,
    POWER_CAP,
    Entry,
    IdlePower,
    at_main_speed,
    beside_bystanders,
    windows,
)
from energyscope.metering.activity import Activity, limited_by
from energyscope.metering.grades import grade
from energyscope.metering.interval import Estimate, pooled_correlation
from energyscope.reasons import Reason, join, read, reason
from energyscope.runs.schema import EnergyRow
from energyscope.unknown import minus, times
from energyscope.unknown import quotient as ratio
from energyscope.unknown import total as summed

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


def attribute(header: Entry, entries: Sequence[Entry], idle: IdlePower | None) -> Attribution:
    """Attribute the measured energy to components: the rows, the closure and the differential energies.

    Args:
        header: the profile's settings, its ``tree`` (components as dicts) and its ``subjects``.
        entries: the journal's, in order: windows, what has none, and the idle times between.
        idle: the settled idle power; None leaves static and dynamic energy unknown.

    """
    entries, speeds = at_main_speed(entries)
    by_target: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if "subject" in entry:
            by_target[entry["subject"]].append(entry)
    first = header.get("passes", 5)
    correlations = correlated(by_target.values(), idle)
    measured = {
        key: measure(group, idle, first=first, correlations=correlations) for key, group in by_target.items()
    }
    for window, bystanders in beside_bystanders(_kept(entries)):
        guard = measured[window["subject"]].guard
        guard += [bystander for bystander in bystanders if bystander not in guard]
    for key, notes in speeds.items():
        codes = [read(note).code for note in notes]
        (measured[key].guard if "other-speed" in codes else measured[key].reasons).extend(notes)
    sources = Sources(header, measured)
    differential = differentials(sources)
    rows = [_row(component, sources, differential) for component in header["tree"]]
    add_waiting(rows, header.get("devices") or [])
    add_shares(rows)
    for row in rows:
        _add_intervals_of_shares(row, sources)
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
            row.waiting_mj = summed(others) if len(energies) == len(devices) else None
        else:
            children = [child.waiting_mj for child in rows if child.parent == row.component]
            row.waiting_mj = summed(children) if children else None


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
    if measured and measured.energy.windows and row.execution == "cuda-graph":
        row.host_bound = False  # one launch is at least a millisecond of work
    row.quality, reasons = _quality(measured, sources.measured.get(MODEL))
    if component.get("varied") and not header.get("in_model"):
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
        **_energy("static", measured, calls),
        **_energy("dynamic", measured, calls),
        "dynamic_quality": _grade_of(measured.interval("dynamic"), measured.guard),
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
        "at_power_limit": measured.at_power_limit,
        "host_energy_mj": times(measured.host.mean, calls),
        "host_ci_low_mj": times(measured.host.low, calls),
        "host_ci_high_mj": times(measured.host.high, calls),
        "host_quality": _grade_of(measured.host, ()),
    }


def _energy(quantity: str, measured: Measured, calls: float) -> dict[str, float | None]:
    estimate = measured.interval(quantity)
    return {
        f"{quantity}_mj": times(estimate.mean, calls),
        f"{quantity}_ci_low_mj": times(estimate.low, calls),
        f"{quantity}_ci_high_mj": times(estimate.high, calls),
    }


def _grade_of(estimate: Estimate, guard: Sequence[str]) -> str | None:
    """Return a grade by the rule of every number; None where there is nothing to grade."""
    return None if estimate.mean is None else grade(estimate.relative_half_width, estimate.windows, guard)[0]


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
    for column, value in _energy("dynamic", overhead, row.calls).items():
        setattr(row, f"glue_{column}", value)


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
        row.share_of_total = ratio(row.energy_mj, root.energy_mj)
        row.share_of_parent = ratio(row.energy_mj, parent.energy_mj) if parent else None
        share_of_time = ratio(row.time_us, root.time_us)
        if share_of_time is not None and root.energy_mj is not None:
            row.proportional_mj = share_of_time * root.energy_mj
        children = [child.energy_mj for child in rows if child.parent == row.component]
        if children:
            row.self_mj = minus(row.energy_mj, summed(children))
            row.unexplained_mj = minus(row.self_mj, row.glue_mj)


def _add_intervals_of_shares(row: EnergyRow, sources: Sources) -> None:
    """Set what the component takes of the model's time, work and energy, with intervals and grades."""
    measured, model, calls = sources.node(row.component), sources.measured.get(MODEL), row.calls
    if measured is None or model is None or calls is None or measured.empty:
        return
    part, whole = [CallTerm(row.component, calls, measured)], [CallTerm(MODEL, 1.0, model)]
    shares = {
        name: quotient(total(part, name), total(whole, name)) if row.component != ROOT else Total(1.0, 0.0)
        for name in ("energy", "dynamic", "time")
    }
    paired = measured.beside_model
    if paired.mean is not None and row.component != ROOT:
        half = paired.relative_half_width
        time_share = Total(calls * paired.mean, None if half is None else calls * half * paired.mean)
        shares["time"] = time_share
        shares["energy"] = _of_both(shares["dynamic"], time_share, model) or shares["energy"]
    if (work := shares["dynamic"]) is not None:
        row.dynamic_share, row.dynamic_share_ci_low, row.dynamic_share_ci_high = work.value, work.low, work.high
        row.dynamic_share_quality = _grade_of(_estimate(work, measured), measured.guard)
    if (time := shares["time"]) is not None:
        row.time_share, row.time_share_ci_low, row.time_share_ci_high = time.value, time.low, time.high
    if (energy := shares["energy"]) is not None:
        row.share_of_total, row.share_ci_low, row.share_ci_high = energy.value, energy.low, energy.high
        row.share_quality = _grade_of(_estimate(energy, measured), measured.guard)


def _estimate(share: Total, measured: Measured) -> Estimate:
    return Estimate(share.value, share.low, share.high, measured.energy.windows)


def _of_both(work: Total | None, time: Total, model: Measured) -> Total | None:
    """Return the share of energy from those of work and of time, which idle energy goes by.

    With w the model's part of work, a share of energy is w x (share of work) + (1 - w) x (share of time).
    Neither of the two depends on how fast the host happened to be in a window.
    """
    whole = [CallTerm(MODEL, 1.0, model)]
    part = quotient(total(whole, "dynamic"), total(whole, "energy"))
    if part is None or part.half is None or work is None or work.half is None or time.half is None:
        return None
    value = part.value * work.value + (1 - part.value) * time.value
    errors = part.value * work.half, (1 - part.value) * time.half, (work.value - time.value) * part.half
    return Total(value, math.hypot(*errors))


def correlated(targets: Iterable[Sequence[Entry]], idle: IdlePower | None) -> dict[str, float]:
    """Return by how much successive windows of a session resemble each other, of each quantity."""
    columns: dict[str, list[list[float | None]]] = defaultdict(list)
    for entries in targets:
        final = {entry["pass"]: entry for entry in windows(entries)}
        for name, values in quantities([final[number] for number in sorted(final)], idle).items():
            columns[name].append(values)
    return {name: pooled_correlation(groups) for name, groups in columns.items()}

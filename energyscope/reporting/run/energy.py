"""Where the energy goes: from the model down to its blocks, and inside of one layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from energyscope import format as fmt
from energyscope.correlation.resampling import UncertainValues
from energyscope.correlation.within import differences
from energyscope.intervals import finite
from energyscope.metering.grades import INVALID
from energyscope.reporting.charts.bars import bars
from energyscope.reporting.charts.data import value_of
from energyscope.reporting.charts.grid import grid
from energyscope.reporting.charts.plane import Axis, curves, plane
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.charts.tree import flow, strip
from energyscope.reporting.run import host, parts
from energyscope.reporting.run.components import notes_on_work
from energyscope.reporting.run.report import RUN, MeasuredWorkload, Report
from energyscope.reporting.section import Content, Figure, View
from energyscope.reporting.table import Column, Row, Table
from energyscope.runs.tree import Node, sum_column, sum_energy

_CAPTION = "Solid: work; pale: idle power; whiskers: 95 % intervals; hollow: known to no better than 10 %."
_NOT_SPLIT = "Whiskers: 95 % intervals; hollow: known to no better than 10 %."


@RUN.section(1, "energy", "Energy", "--stages profile")
def section(report: Report) -> Content | None:
    """Return the flow, the mean layer, and layers one by one where they differ."""
    if not report.workloads:
        return None
    flows, layers, tables, word = [], [], {}, _word(report).lower()
    for workload in report.workloads:
        down = parts.from_model_down(workload.tree, modelled=report.modelled)
        inside = parts.one_layer(workload.tree, modelled=report.modelled)
        for part, state in _states(report, workload):
            if len(down.rows) > 1 and _drawable(down, part):
                flows.append(View(flow(down, part), down, state))
            if len(inside.rows) > 2 and _drawable(inside, part):
                layers.append(View(strip(inside, part), inside, state))
        by_block = parts.blocks(workload.tree, modelled=report.modelled, checks=workload.checks)
        tables[f"blocks-{workload.name}"] = parts.with_checks(by_block, workload.checks)
    ranges = {workload.name: layer_range(workload) for workload in report.workloads}
    figures = [
        Figure("energy-flow", "From the model to its blocks", flows, f"Height: {word}. Hollow: too noisy."),
        Figure("energy-layer", "Inside one layer", layers, f"Width: {word}, the mean over layers. Click to zoom."),
        _by_layer(report, ranges),
        _heat_map(report),
        _efficiency(report, tables),
    ]
    tables |= {"kinds": tables[f"blocks-{report.workloads[0].name}"]}
    hosts = {workload.name: host.of_pass(report, workload) for workload in report.workloads}
    data = {"workloads": report.workloads, "layers": ranges, "hosts": hosts, "reasons": _missing(report)}
    return Content(data, figures, tables)


def block_figure(report: Report) -> Figure | None:
    """Return the energy by block, a view for each workload and for all energy, work and idle, or of work alone."""
    return _bars(report, "energy-blocks", f"{_word(report)} by block", parts.blocks)


def type_figure(report: Report) -> Figure | None:
    """Return the energy by type of component, in views as those by block; None where blocks have no parts."""
    trees = [workload.tree for workload in report.workloads]
    if all(parts.types(tree, modelled=False).rows == parts.blocks(tree, modelled=False).rows for tree in trees):
        return None
    return _bars(report, "energy-types", f"{_word(report)} by type", parts.types)


def _word(report: Report) -> str:
    """Return what drawings of parts are of: time, where joules are modelled, else what workloads are judged by."""
    return "Time" if report.modelled else _judged(report)


def _judged(report: Report) -> str:
    """Return what all workloads are judged by."""
    return "Work" if report.by_work else "Energy"


def _bars(report: Report, name: str, title: str, grouped: Callable[..., Table]) -> Figure | None:
    views = []
    for workload in report.workloads:
        table = grouped(workload.tree, modelled=report.modelled)
        for part, state in _states(report, workload):
            labelled = replace(table, rows=[{**row, "label": _label(row, part, workload)} for row in table.rows])
            if _drawable(labelled, part):
                chart = bars(labelled, "part", part, work="work" if part == "energy" else None)
                views.append(View(chart, labelled, state))
    caption = _CAPTION if report.part_dimension else _NOT_SPLIT
    return Figure(name, title, views, caption) if views else None


def _states(report: Report, workload: MeasuredWorkload) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield energy, work and idle, or one of them or the time alone, with the state of the page that shows it."""
    yield from ((part, {"phase": workload.name, "part": part}) for part, _ in report.part_dimension)
    if not report.part_dimension:
        yield "time" if report.modelled else _judged_by(workload), {"phase": workload.name}


def _judged_by(workload: MeasuredWorkload) -> str:
    return "work" if workload.tree.by_work else "energy"


def _drawable(table: Table, part: str) -> bool:
    return bool(table) and table.rows[0].get(part) is not None


def _label(row: Row, part: str, workload: MeasuredWorkload) -> str:
    amount = value_of(row.get(part))
    wholes = {"energy": workload.energy, "work": workload.work, "idle": workload.idle}
    energy, work, idle = map(value_of, wholes.values())
    if part == "time":
        return f"{fmt.quantity(amount, 'us')} \u00b7 {fmt.quantity(value_of(row['share']), 'share')}"
    whole = {"energy": energy, "work": work, "idle": idle}[part]
    share = f" \u00b7 {fmt.quantity(amount / whole, 'share')}" if whole and amount is not None else ""
    if part == "energy" and work and idle and idle > work and row.get("work") is not None:
        share = (
            f" \u00b7 {fmt.quantity(row['work'].value / work, 'share')} of all work"  # the better known of the two
        )
    check = workload.checks.kinds.get(str(row["kind"]))
    if check is not None and check.disagrees and check.saved is not None:
        share += f" ({fmt.quantity(-check.saved.value, 'change')} without it)"
    return f"{fmt.quantity(amount, 'mJ')}{share}"


def layer_range(workload: MeasuredWorkload) -> dict[str, Any]:
    """Return whether layers measured by themselves differ in what they are judged by, and their range (mJ)."""
    energies = [judged for node in _layers(workload) if (judged := workload.tree.judged(node))]
    if len(energies) < 2:
        return {"count": len(energies), "differ": False, "low": None, "high": None}
    values = UncertainValues(
        np.array([energy.value for energy in energies]),
        np.array([energy.below if energy.known else 0.0 for energy in energies]),
        np.array([energy.above if energy.known else 0.0 for energy in energies]),
    )
    low, high = (end(energy.value for energy in energies) for end in (min, max))
    return {"count": len(energies), "differ": differences(values).differ, "low": low, "high": high}


def _layers(workload: MeasuredWorkload) -> list[Node]:
    layers = (node for node in workload.tree.nodes if node.level == "layer")
    return [layer for layer in layers if layer.energy is not None and not layer.reused]


def _by_layer(report: Report, ranges: dict[str, dict[str, Any]]) -> Figure:
    views = []
    for workload in report.workloads:
        if ranges[workload.name]["differ"]:
            key = _judged_by(workload)
            columns = [
                Column("component", "Layer", "code"),
                Column(key, key.capitalize(), "mJ"),
                Column("layer", "Number", "count"),
            ]
            rows = [
                {"component": node.name, "kind": "layer", key: workload.tree.judged(node), "layer": node.layer}
                for node in _layers(workload)
            ]
            table = Table(columns, rows)
            chart = curves(table, Axis("layer", "Layer"), Axis(key), series="kind", height=150)
            views.append(View(chart, table, {"phase": workload.name}))
    return Figure("energy-by-layer", f"{_judged(report)} of each layer", views, "Band: 95 % intervals.")


def _heat_map(report: Report) -> Figure:
    """Return every component of every layer, of workloads with several layers."""
    views = []
    for workload in report.workloads:
        table = _cells(workload)
        if len({row["layer"] for row in table.rows}) > 1:
            chart = grid(table, "row", "layer", _judged_by(workload), title="Layer")
            views.append(View(chart, table, {"phase": workload.name}))
    return Figure("energy-heatmap", f"{_judged(report)} by layer and component", views, "Crosses: too noisy.")


def _cells(workload: MeasuredWorkload) -> Table:
    """Return every component inside of a layer, or each layer where nothing inside was measured."""
    inside = [node for node in workload.tree.nodes if node.layer is not None and node.level != "layer"]
    nodes = inside or [node for node in workload.tree.nodes if node.level == "layer"]
    groups, key = {node.group: node for node in nodes}, _judged_by(workload)
    kinds = [node.kind for node in groups.values()]
    names = {
        group: title_of(node.kind) + (f" ({node.tail})" if kinds.count(node.kind) > 1 else "")
        for group, node in groups.items()
    }
    columns = [
        Column("component", "Component", "code"),
        Column("row", "Kind"),
        Column("layer", "Layer", "count"),
        Column(key, key.capitalize(), "mJ"),
        Column("reused", "Mean of its kind"),
    ]
    rows = [
        {
            "component": node.name,
            "kind": node.kind,
            "row": names[node.group],
            "layer": node.layer,
            key: workload.tree.judged(node),
            "noisy": workload.tree.quality(node) == INVALID,
            "reused": node.reused,
        }
        for node in nodes
        if node.energy is not None
    ]
    return Table(columns, rows)


def _efficiency(report: Report, tables: dict[str, Table]) -> Figure:
    """Return power against intensity, and add the table of what work costs, by kind."""
    views = []
    for workload in report.workloads:
        table = tables[f"efficiency-{workload.name}"] = efficiency(workload)
        known = Table(table.columns, [row for row in table.rows if row["intensity"] and row["power"]])
        if len(known.rows) > 2:
            chart = plane(known, Axis("intensity", log=True), Axis("power"), name="part", height=260)
            views.append(View(chart, known, {"phase": workload.name}))
    caption = "Each point: the components of a kind."
    return Figure("energy-intensity", "Power against arithmetic intensity", views, caption)


def efficiency(workload: MeasuredWorkload) -> Table:
    """Return what the work of each kind of leaf costs: joules for a FLOP and a byte, rates, and its pace."""
    columns = [
        Column("part", "Kind"),
        Column("flops", "FLOPs", "FLOP", "nominal matrix work of a pass or step"),
        Column("executed_flops", "Executed FLOPs", "FLOP", "without what causal kernels skip"),
        Column("bytes", "Bytes", "bytes", "least traffic to memory"),
        Column("pj_per_flop", "Energy per FLOP", "pJ", "for each executed FLOP"),
        Column("nj_per_byte", "Energy per byte", "nJ"),
        Column("flops_per_s", "Rate", "FLOP/s"),
        Column("bytes_per_s", "Traffic", "bytes/s"),
        Column("intensity", "FLOP/byte", ""),
        Column("power", "Power", "W"),
        Column("host", "Waits for the host", "share", "share of its energy where launching sets the pace"),
    ]
    rows = [
        _work(kind, [node for node in workload.tree.leaves if node.kind == kind and node.energy])
        for kind in dict.fromkeys(node.kind for node in workload.tree.leaves)
    ]
    known = [row for row in rows if row is not None and (row["flops"] or row["bytes"])]
    known.sort(key=lambda row: -row["energy"].value)
    return Table(columns, known, "Work and what it costs", notes_on_work(known))


def _work(kind: str, nodes: Sequence[Node]) -> dict[str, Any] | None:
    energy = sum_energy(nodes)
    if energy is None:
        return None
    flops, executed, moved, time_us = (
        sum_column(nodes, name) for name in ("flops", "executed_flops", "bytes", "time_us")
    )
    done = executed or flops
    flags = [node.flag("host_bound") for node in nodes]
    waits = sum(node.energy.value for node, flag in zip(nodes, flags, strict=True) if flag and node.energy)
    return {
        "part": title_of(kind),
        "kind": kind,
        "energy": energy,
        "flops": flops,
        "executed_flops": executed,
        "bytes": moved,
        "pj_per_flop": energy.scaled(1e9 / executed) if executed else None,
        "nj_per_byte": energy.scaled(1e6 / moved) if moved else None,
        "flops_per_s": done / time_us * 1e6 if done and time_us else None,
        "bytes_per_s": moved / time_us * 1e6 if moved and time_us else None,
        "intensity": done / moved if done and moved else None,
        "power": energy.value / time_us * 1e3 if time_us else None,
        "host": finite(waits / energy.value) if energy.value > 0 and None not in flags else None,
    }


def _missing(report: Report) -> list[Row]:
    return [
        {"component": node.name, "workload": workload.label, "reasons": node.row.get("reasons")}
        for workload in report.workloads
        for node in workload.tree.nodes
        if node.energy is None
    ]

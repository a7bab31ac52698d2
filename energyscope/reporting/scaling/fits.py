"""The fitted laws: energy against FLOPs by group of cells and by kind, with all that was fitted, in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from energyscope import format as fmt
from energyscope.intervals import Interval, finite, from_entry
from energyscope.reasons import join, reason
from energyscope.reporting.charts.plane import Axis, plane
from energyscope.reporting.scaling.laws import (
    LAWS,
    WHOLE,
    Entry,
    Laws,
    cells_of,
    fitted,
    grows,
    includes_zero,
    law_name,
    law_of,
    line_of,
    medians,
    named,
    shape_name,
    shape_of,
    subject_name,
    whole_of,
)
from energyscope.reporting.section import Content, Figure, View
from energyscope.reporting.table import Column, Table

BY_GROUP, BY_KIND = "energy-by-group", "energy-by-kind"
_CAPTION = "Lines: E0 + k x FLOPs. Whiskers: 95 % intervals; hollow: too noisy."
_FEWEST = 3  # cells that are needed to find how far a law holds
_STEPS = 40  # of a line
_MOST = 6  # kinds of a chart
_MJ = 1e-9  # of a pJ


@LAWS.section(2, "laws", "Laws")
def section(laws: Laws) -> Content | None:
    """Return energy against FLOPs: of the groups together, of each by kind, and everything that was fitted."""
    points = [_points(laws, group) for group in laws.groups]
    figures = [_by_group(laws, points), _by_kind(laws, points)]
    tables: dict[str, Table] = {}
    for index, (group, cells) in enumerate(zip(laws.groups, points, strict=True)):
        of_group = {"laws": _law_table(laws, group), "remarks": _remarks(group), "ratios": _ratios(group)}
        of_group |= {name: _listed(group, name) for name in _LISTED} | {"points": cells}
        tables |= {f"{name}-{index}": table for name, table in of_group.items()}
    facts = [law_facts(laws, group) for group in laws.groups]
    folded = ("remarks", "ratios", *_LISTED, "points")
    data = {"groups": list(zip(laws.labels, facts, strict=True)), "folded": folded}
    return Content(data, figures, tables)


def law_facts(laws: Laws, group: Entry) -> dict[str, Any]:
    """Return the numbers of a sentence about a group's whole model."""
    law = line_of(whole_of(group))
    fixed, slope = (from_entry((law or {}).get(name)) for name in ("fixed_mj", "marginal_pj_per_flop"))
    wholes = [errors for what, _, errors in medians(group) if what == "whole"]
    even = fixed.value / slope.value / _MJ if fixed and slope and fixed.value > 0 < slope.value else None
    return {
        "model": group.get("model"),
        "phase": group.get("phase"),
        "fixed": fixed,
        "slope": slope,
        "starts": not includes_zero(fixed),
        "grows": grows(law),
        "checked": law is not None and law.get("r2") is not None,
        "reason": group.get("reason") or ((whole_of(group) or {}).get("two_term") or {}).get("reason"),
        "even": even,  # FLOPs at which fixed energy is half of the whole
        "error": max((errors["median"] for errors in wholes), default=None),
        "worst": max((errors["worst"] for errors in wholes), default=None),
        "weak": sum(shape_of(cell) in laws.weak(group) for cell in group["cells"]),
        "cells": len(group["cells"]),
        "modelled": laws.modelled,
    }


def _law_table(laws: Laws, group: Entry) -> Table:
    """Return the law of every subject, how far it holds, and how far off it is of cells left out."""
    columns = [
        Column("part", "Part"),
        Column(
            "fixed",
            "E0 (MODELLED)" if laws.modelled else "E0",
            "mJ",
            "before the first FLOP; of equal work, its mean",
        ),
        Column("marginal_pj_per_flop", "Per FLOP", "pJ", f"k: energy of each further {laws.flops} FLOP"),
        Column("pj_per_byte", "Per byte", "pJ", "of parts without FLOPs", rank=2),
        Column("r2", "R\u00b2", "", rank=4),
        Column(
            "holds",
            "Holds for",
            hint="from the smallest cell on, each within 10 % of the law of the others",
            rank=3,
        ),
        Column("trend", "k per doubling", "change", "change of k as FLOPs double", rank=6),
        Column("best", "Best law", hint="with the least error of cells left out", rank=5),
        Column("error", "Held-out error", "share", "median of cells left out, by the best law", rank=1),
        Column("worst", "Worst", "share", rank=5),
    ]
    by = next((by for _, by, _ in medians(group)), None)
    return Table(
        columns, [_law_row(subject, by) for subject in group["subjects"]], f"Energy = E0 + k x {laws.flops} FLOPs"
    )


def _law_row(subject: Entry, by: str | None) -> dict[str, Any]:
    law, line, reach = law_of(subject), line_of(subject), subject["reach"]
    best = subject.get("best"), by
    errors: Entry = next((law for law in subject.get("held_out") or [] if (law["law"], law["by"]) == best), {})
    return cells_of(
        law,
        **named(subject),
        fixed=from_entry(law.get("fixed_mj") or law.get("energy_mj")),
        holds=_holds(reach) if line and (reach.get("cells") or 0) >= _FEWEST else None,
        trend=from_entry((subject.get("trend") or {}).get("change")) if grows(line) else None,
        best=law_name(subject.get("best")),
        error=errors.get("median"),
        worst=errors.get("worst"),
    )


def _holds(reach: Entry) -> str:
    cells, within, limit = reach["cells"], reach.get("within") or 0, finite(reach.get("to_flops"))
    if reach.get("holds"):
        return f"all {cells} cells"
    return f"{within} of {cells}" + (f", to {fmt.quantity(limit, 'FLOP')}" if within and limit else "")


def _remarks(group: Entry) -> Table:
    """Return what must be known of laws, each remark once with its parts: negative terms, no growth, no law."""
    parts_by_remark: dict[str, list[str]] = {}
    flat = []
    for subject in group["subjects"]:
        law, name = law_of(subject), subject_name(subject["subject"])
        slope = from_entry(law.get("marginal_pj_per_flop") or law.get("pj_per_byte"))
        if slope is not None and slope.value >= 0 and includes_zero(slope):  # a flag says so of a negative one
            flat.append(name)
        for remark in law["flags"] if law else [(subject.get("two_term") or {}).get("reason")]:
            parts_by_remark.setdefault(str(remark or ""), []).append(name)
    columns = [Column("parts", "Parts"), Column("remark", "To know", "reasons")]
    rows = [
        {"parts": fmt.listed(parts, 12), "remark": remark} for remark, parts in parts_by_remark.items() if remark
    ]
    rows += [{"parts": "", "remark": reason("k-holds-zero", subjects=flat)}] if flat else []
    return Table(columns, rows, "What must be known of these laws")


def _points(laws: Laws, group: Entry) -> Table:
    """Return every subject in every cell, with what its laws leave of it."""
    columns = [
        Column("part", "Part"),
        Column("shape", "Cell"),
        Column("energy_mj", laws.energy, "mJ"),
        Column("flops", f"FLOPs, {laws.flops}", "FLOP"),
        Column("time_us", "Time", "us"),
        Column("residual", "Off the law", "change", "(measured - law) / measured"),
        Column("nominal_flops", "FLOPs, nominal", "FLOP", "attention over the full square"),
        Column("bytes", "Bytes", "bytes"),
        Column("calls", "Calls", "count"),
        Column("static_mj", "Idle", "mJ", "idle power x time"),
        Column("pj_per_flop", "Per FLOP", "pJ", "all of its energy over its FLOPs"),
        Column("roofline", "Off the roofline law", "change"),
        Column("limit", "Limited by", hint="what sets the time in the roofline law"),
    ]
    weak, rows = laws.weak(group), []
    for subject in group["subjects"]:
        roofline = fitted(subject.get("roofline")) or {}
        beside = (law_of(subject).get("residuals"), roofline.get("residuals"), roofline.get("regimes"))
        for index, point in enumerate(subject["points"]):
            residual, off, limit = (values[index] if values and index < len(values) else None for values in beside)
            noisy = subject.get("role") == "whole" and shape_of(point) in weak
            shape = shape_name(point, group.get("phase"))
            fit = {"shape": shape, "residual": residual, "roofline": off, "limit": limit, "noisy": noisy}
            nominal = point.get("nominal_flops") if laws.flops == "executed" else None
            rows.append(cells_of(point, **named(subject), **fit, nominal_flops=nominal))
    return Table(columns, rows, "Every part in every cell")


def _by_group(laws: Laws, points: Sequence[Table]) -> Figure:
    """Return the whole model of every group, with their lines; no view where there is one group."""
    rows: list[Any] = []
    lines: list[Any] = []
    for group, label, table in zip(laws.groups, laws.labels, points, strict=True):
        cells = [{**row, "group": label} for row in _drawn(table, [WHOLE])]
        rows += cells
        lines += _line(line_of(whole_of(group)), cells, {"group": label})
    title = f"{laws.energy} of the whole model against work"
    views = [_plane(rows, lines, points[0], "group", {})] if rows and len(points) > 1 else []
    return Figure(BY_GROUP, title, views, _CAPTION)


def _by_kind(laws: Laws, points: Sequence[Table]) -> Figure:
    """Return the whole model and its costliest parts, one view for each group."""
    views = []
    for index, (group, table) in enumerate(zip(laws.groups, points, strict=True)):
        subjects = [subject for subject in group["subjects"] if subject.get("role") in {"whole", "part"}]
        laws_by_kind = {named(subject)["kind"]: line_of(subject) for subject in subjects}
        sums: Counter[str] = Counter()
        for row in _drawn(table, list(laws_by_kind)):
            sums[row["kind"]] += row["energy_mj"].value
        rows = _drawn(table, kinds := [kind for kind, _ in sums.most_common(_MOST)])
        lines = [
            step
            for kind in kinds
            for step in _line(laws_by_kind[kind], [row for row in rows if row["kind"] == kind], {"kind": kind})
        ]
        views += [_plane(rows, lines, table, "kind", {"group": str(index)})] if rows else []
    return Figure(BY_KIND, f"{laws.energy} against work, by kind", views, _CAPTION)


def _drawn(table: Table, kinds: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the points of some kinds that a logarithmic chart of energy against FLOPs can show."""
    known = [row for row in table.rows if row["flops"] and row["energy_mj"]]
    return [row for row in known if row["kind"] in kinds and row["energy_mj"].value > 0]


def _plane(
    rows: Sequence[Mapping[str, Any]], lines: Sequence[Any], table: Table, series: str, when: dict[str, str]
) -> View:
    columns = table.columns[:6] if series == "kind" else [Column("group", "Group"), *table.columns[:6]]
    cells = Table(columns, rows)
    title = f"{table.column('flops').title}, of a pass or step"
    axes = Axis("flops", title, log=True), Axis("energy_mj", log=True)
    return View(plane(cells, *axes, series=series, lines=Table(columns, lines), height=250), cells, when)


def _line(
    law: Entry | None, points: Sequence[Mapping[str, Any]], fields: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield a law between the least and the most work, evenly on a logarithmic axis; none without growth."""
    places = [point["flops"] for point in points]
    fixed, slope = (from_entry((law or {}).get(name)) for name in ("fixed_mj", "marginal_pj_per_flop"))
    if not grows(law) or fixed is None or slope is None or len(set(places)) < 2:
        return
    low, high = min(places), max(places)
    for step in range(_STEPS + 1):
        flops = low * (high / low) ** (step / _STEPS)
        if (energy := fixed.value + slope.value * flops * _MJ) > 0:
            yield {"flops": flops, "energy_mj": energy, **fields}


def attention_over_mlp(group: Entry) -> Interval | None:
    """Return how much costlier a further FLOP of attention is than one of the MLP."""
    ratios = (entry for entry in group["ratios"] if (entry["first"], entry["second"]) == ("attention", "mlp"))
    return next((from_entry(entry.get("marginal")) for entry in ratios), None)


def _ratios(group: Entry) -> Table:
    columns = [
        Column("pair", "Parts"),
        Column("shape", "Cell"),
        Column("ratio", "Energy per FLOP, ratio", "ratio"),
        Column("reason", "Why not", "reasons"),
    ]
    rows: list[dict[str, Any]] = []
    for entry in group["ratios"]:
        pair = f"{subject_name(entry['first'])} / {subject_name(entry['second'])}"
        rows.append(cells_of(entry, pair=pair, shape="further FLOPs", ratio=from_entry(entry.get("marginal"))))
        rows += [
            cells_of(cell, pair=pair, shape=shape_name(cell, group.get("phase"))) for cell in entry.get("at") or []
        ]
    return Table(columns, rows, "Parts against each other, per FLOP")


def _listed(group: Entry, name: str) -> Table:
    """Return what the document says of each subject under a name."""
    title, columns = _LISTED[name]
    rows = []
    for subject in group["subjects"]:
        entries = subject.get(name) or []
        for entry in entries if isinstance(entries, list) else [entries]:
            notes = join(map(str, entry.get("flags") or filter(None, [entry.get("reason")])))
            rows.append(cells_of(entry, **named(subject), law=law_name(entry.get("law")), notes=notes))
    return Table([Column("part", "Part"), *columns], rows, title)


_LAW, _NOTES = Column("law", "Law"), Column("notes", "To know", "reasons")
_LISTED = {  # what is said of each subject, by its name in the document
    "quotients": (
        "What a further FLOP costs, from cell to cell",
        [
            Column("from_flops", "From FLOPs", "FLOP"),
            Column("to_flops", "To FLOPs", "FLOP"),
            Column("pj_per_flop", "Per further FLOP", "pJ"),
        ],
    ),
    "roofline": (
        "Roofline law: idle power x time, and energy per call, FLOP and byte",
        [
            _LAW,
            Column("static_w", "Idle power", "W"),
            Column("call_mj", "Per call", "mJ"),
            Column("pj_per_flop", "Per FLOP", "pJ"),
            Column("pj_per_byte", "Per byte", "pJ"),
            Column("launch_us", "Launch", "us"),
            Column("tflops", "TFLOP/s", ""),
            Column("gb_per_s", "GB/s", ""),
            _NOTES,
        ],
    ),
    "held_out": (
        "Cells left out, by part and law",
        [
            _LAW,
            Column("by", "Left out by"),
            Column("median", "Held-out error", "share"),
            Column("worst", "Worst", "share"),
            Column("cells", "Cells", "count"),
            _NOTES,
        ],
    ),
}

"""Models of several sizes: energy per token against parameters, where it goes, and sizes predicted from others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from energyscope.intervals import from_entry
from energyscope.reporting.charts.bars import bars
from energyscope.reporting.charts.plane import Axis, curves, plane
from energyscope.reporting.scaling.laws import (
    LAWS,
    SUM,
    WHOLE,
    Entry,
    Laws,
    alike,
    best_known,
    cells_of,
    kind_of,
    law_name,
    named,
    shape_name,
    shape_of,
)
from energyscope.reporting.scaling.trust import error_label
from energyscope.reporting.section import Content, Figure, View
from energyscope.reporting.table import Column, Table

PER_TOKEN, LEFT_OUT = "sizes-per-token", "sizes-left-out"
_FIGURES = (  # name, column, unit of work and caption
    (PER_TOKEN, "energy_per_token_mj", "per token",
     "Lines join one shape. Whiskers: 95 % intervals; hollow: too noisy."),
    ("sizes-per-parameter", "pj_per_parameter_token", "per parameter and token",
     "Level where energy grows in proportion to parameters."),
    ("sizes-per-flop", "pj_per_flop", "per FLOP", "All energy of a pass over its FLOPs."),
)  # fmt: skip


@LAWS.section(1, "sizes", "Sizes")
def section(laws: Laws) -> Content | None:
    """Return energy against parameters, one view for each setting that was measured at several sizes."""
    if not laws.settings:
        return None
    by_setting = [_sizes(laws, shapes) for shapes in laws.settings]
    parameters, figures = Axis("parameters", log=True), []
    for name, key, work, caption in _FIGURES:
        tables = [
            Table(table.columns, [row for row in table.rows if row["parameters"] and row[key]])
            for table in by_setting
        ]

        def points(table: Table, key: str = key) -> Any:
            axes = parameters, Axis(key, log=True)
            return plane(table, *axes, series="shape", name="name", lines=table, height=250)

        figures.append(Figure(name, f"{laws.energy} {work}", _views(points, tables), caption))
    shares = [_shares(shapes) for shapes in laws.settings]
    lines = _views(lambda table: curves(table, parameters, Axis("share", log=False), series="kind"), shares)
    figures.append(Figure("sizes-shares", shares[0].title, lines, "Shares of the measured whole."))
    left_out = _left_out(laws)
    wholes = [
        Table(left_out.columns, [row for row in left_out.rows if row["kind"] == WHOLE and row["at"] == index])
        for index in range(len(by_setting))
    ]
    errors = _views(lambda table: bars(table, "left_out", "median", series="way"), wholes)
    title = "Held-out error: each model predicted from the others"
    figures.append(Figure(LEFT_OUT, title, errors, "Median over shapes. Less is better."))
    tables_by_name = {
        "exponents": _exponents(laws),
        "sizes": by_setting[0],
        "left-out": left_out,
        "left-out-cells": _cells(laws),
    }
    return Content(figures=figures, tables=tables_by_name)


def _views(draw: Callable[[Table], Any], tables: Sequence[Table]) -> list[View]:
    """Return a view for each setting whose table has rows."""
    return [View(draw(table), table, {"setting": str(index)}) for index, table in enumerate(tables) if table]


def _sizes(laws: Laws, shapes: Sequence[Entry]) -> Table:
    """Return every model at every shape of one setting."""
    columns = [
        Column("model", "Model"),
        Column("shape", "Shape"),
        Column("parameters", "Parameters", "amount"),
        Column("layers", "Layers", "count", rank=6),
        Column("energy_per_token_mj", f"{laws.energy} per token", "mJ"),
        Column("pj_per_parameter_token", "Per parameter and token", "pJ", rank=3),
        Column("pj_per_flop", "Per FLOP", "pJ", f"for each {laws.flops} FLOP", rank=4),
        Column("energy_mj", laws.energy, "mJ", "of a pass or step", rank=5),
        Column("time_us", "Time", "us", rank=2),
        Column("power", "Power", "W", rank=7),
        Column("weights", "Weights", rank=8),
    ]
    rows = [
        cells_of(
            row,
            shape=shape_name(shape, shape.get("phase")),
            power=None if laws.modelled else row.get("power_w"),
            name=row["model"] if shape is best_known(shapes) else None,  # each model is named once
            noisy=shape_of(shape) in laws.weak({**shape, "model": row["model"]}),
        )
        for shape in shapes
        for row in shape["rows"]
    ]
    return Table(columns, rows, "Models compared")


def _exponents(laws: Laws) -> Table:
    """Return by which power of the parameters energy per token grows, at each shape."""
    columns = [
        Column("setting", "Setting"),
        Column("shape", "Shape"),
        Column("models", "Models", "count", rank=1),
        Column("exponent", "Exponent", "", "of parameters; 1: energy per token grows as parameters do"),
        Column("reason", "Why not", "reasons", rank=2),
    ]
    rows = [
        cells_of(shape, setting=label, shape=shape_name(shape, shape.get("phase")), models=len(shape["rows"]))
        for shapes, label in zip(laws.settings, laws.setting_labels, strict=True)
        for shape in shapes
    ]
    return Table(columns, rows, "Energy per token as a power of parameters")


def _shares(shapes: Sequence[Entry]) -> Table:
    """Return each kind's share of the whole, at the shape whose exponent is known best."""
    columns = [
        Column("model", "Model"),
        Column("kind", "Part"),
        Column("share", "Share of the model", "share"),
        Column("parameters", "Parameters", "amount"),
        Column("shape", "Shape"),
    ]
    best = best_known(shapes)
    rows = [
        cells_of(row, kind=kind_of(kind), share=from_entry(share), shape=shape_name(best, best.get("phase")))
        for row in best["rows"]
        for kind, share in (row.get("shares") or {}).items()
        if row.get("parameters")
    ]
    return Table(columns, rows, "Where it goes, by model size")


def _held_out(laws: Laws) -> list[tuple[Entry, dict[str, Any]]]:
    """Return the errors of each model that was left out, with the cells that name it; by size."""
    sizes = {row["model"]: row.get("parameters") or 0 for shape in laws.document["sizes"] for row in shape["rows"]}
    entries = sorted(laws.document["sizes_held_out"], key=lambda entry: sizes.get(entry.get("left_out"), 0))
    return [
        (
            entry,
            {
                "left_out": entry.get("left_out"),
                "setting": label,
                **named(entry),
                "law": law_name(entry.get("law")),
                "at": next((index for index, shapes in enumerate(laws.settings) if alike(entry, shapes[0])), None),
                "way": "as the sum of parts" if entry.get("law") == SUM else "by a law of the whole",
            },
        )
        for entry, label in zip(entries, laws.distinct_labels(entries), strict=True)
    ]


def _left_out(laws: Laws) -> Table:
    """Return how far each model is from what the others predict of it and of its parts."""
    columns = [
        Column("left_out", "Left out"),
        Column("setting", "Setting", rank=2),
        Column("part", "Part"),
        Column("law", "Law"),
        Column("median", "Held-out error", "share", "median over the model's cells"),
        Column("worst", "Worst", "share", rank=1),
        Column("cells", "Cells", "count", rank=4),
        Column("extrapolated", "Beyond the others", hint="larger or smaller than every model used", rank=3),
    ]
    rows = [cells_of(errors, **row, label=error_label(errors)) for errors, row in _held_out(laws)]
    return Table(columns, rows, "Sizes left out and predicted from the others")


def _cells(laws: Laws) -> Table:
    columns = [
        Column("left_out", "Left out"),
        Column("setting", "Setting"),
        Column("part", "Part"),
        Column("law", "Law"),
        Column("shape", "Shape"),
        Column("relative", "Predicted - measured", "change", "as a share of the measured energy"),
    ]
    rows = [
        cells_of(cell, **row, shape=shape_name(cell, entry.get("phase")))
        for entry, row in _held_out(laws)
        for cell in entry.get("errors") or []
    ]
    return Table(columns, rows, "Every cell of the sizes left out")

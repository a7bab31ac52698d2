"""The table of all components: each cell as text, with the number by which it sorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.data import ReportData
from energyscope.reporting.data.efficiency import efficiency
from energyscope.reporting.data.scenes import SceneData
from energyscope.runs.intervals import Interval, finite, interval
from energyscope.runs.tree import origin_of

UNKNOWN_CELL = "\u2013"
SPLIT, BOOKS, WORK, HOW = "Static and dynamic", "Glue and unexplained", "Work and its price", "How it was measured"
_GRADES = {"A": 0.0, "B": 1.0, "C": 2.0, "invalid": 3.0}
_PACE = {"True": "host", "False": "device"}


@dataclass(frozen=True)
class Column:
    """A column: ``numeric`` ones are aligned right and sort by number; paper has no room for all of them.

    The columns of a ``group`` are shown and hidden together; those without one are always there.
    """

    title: str
    numeric: bool
    hint: str = ""
    printed: bool = True
    group: str = ""


@dataclass(frozen=True)
class TableCell:
    """A cell's text and the number by which it sorts, None where there is none; ``detail`` is folded away.

    ``picks`` is the component that the row is about: None where it is about several of its kind.
    """

    text: str
    number: float | None = None
    detail: str = ""
    picks: str | None = None


COMPONENT_COLUMNS = (
    Column("Component", numeric=False),
    Column("Kind", numeric=False),
    Column("Layer", numeric=True),
    Column("Energy", numeric=True, hint="per forward pass of the model, with its 95 % interval"),
    Column("Share", numeric=True, hint="of the measured model"),
    Column("Static", numeric=True, hint="idle power times time", group=SPLIT),
    Column("Dynamic", numeric=True, group=SPLIT),
    Column("Time", numeric=True, hint="per forward pass of the model"),
    Column("Power", numeric=True, hint="mean over the replay windows"),
    Column("Glue", numeric=True, hint="measured with the children bypassed", group=BOOKS),
    Column("Unexplained", numeric=True, hint="node - children - glue; may be negative", group=BOOKS),
    Column("FLOPs", numeric=True, hint="of matrix products and attention", group=WORK),
    Column("Bytes", numeric=True, hint="the least that must move", printed=False, group=WORK),
    Column("pJ/FLOP", numeric=True, hint="energy for a FLOP of matrix work", printed=False, group=WORK),
    Column("nJ/byte", numeric=True, hint="energy for a byte of the least traffic", printed=False, group=WORK),
    Column("FLOP/s", numeric=True, hint="achieved", printed=False, group=WORK),
    Column("Bytes/s", numeric=True, hint="achieved, of the least traffic", printed=False, group=WORK),
    Column("FLOP/byte", numeric=True, hint="arithmetic intensity", printed=False, group=WORK),
    Column("Pace", numeric=False, hint="whether the device or launching from the host sets it", group=HOW),
    Column("Measured", numeric=False, hint="a mean over the layers takes no part in layer statistics", group=HOW),
    Column("Quality", numeric=False, hint="A to C, or invalid, with the reasons"),
)


def component_columns(*, modelled: bool, scenes: bool = False) -> list[Column]:
    """Return the table's columns; joules that were modelled say so above their column.

    With ``scenes``, rows of several moments of the inference stand below each other, and a column says which.
    """
    word = "Modelled energy" if modelled else "Energy"
    found = [replace(column, title=word) if column.title == "Energy" else column for column in COMPONENT_COLUMNS]
    return [*found[:2], Column("Moment", numeric=False), *found[2:]] if scenes else found


def without_empty_groups(
    columns: Sequence[Column], rows: Sequence[Sequence[TableCell]]
) -> tuple[list[Column], list[list[TableCell]]]:
    """Leave out the columns of each group in which no row has a value, such as parts of modelled energy."""
    groups = {
        column.group
        for row in rows
        for column, cell in zip(columns, row, strict=True)
        if cell.text != UNKNOWN_CELL
    }
    kept = [at for at, column in enumerate(columns) if column.group in groups or not column.group]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def column_style(columns: Sequence[Column]) -> str:
    """Return the style of the table's columns: one rule each, since a class in each cell is much text."""
    cell = "#component-table tr>:nth-child({})"
    right = [cell.format(at) for at, column in enumerate(columns, 1) if column.numeric]
    unprinted = [cell.format(at) for at, column in enumerate(columns, 1) if not column.printed]
    return f"{','.join(right)}{{text-align:right}}@media print{{{','.join(unprinted)}{{display:none}}}}"


def component_rows(data: ReportData) -> list[list[TableCell]]:
    """Return the table's rows in the order of the energy table.

    Of a run with several moments, one measurement that stands for several layers takes one row.
    """
    if len(data.scenes) < 2:
        return [_row(row) for row in data.energy.rows] if data.energy else []
    return [_in_scene(source, rows, scene.short) for scene in data.scenes for source, rows in _once(scene).items()]


def kinds_to_pick(data: ReportData, rows: Sequence[Sequence[TableCell]]) -> list[str]:
    """Return the kinds that can be highlighted: those of the table, then what charts show beside them, as glue."""
    drawn = [scene.energy.kinds for scene in data.scenes] or [data.energy.kinds if data.energy else []]
    beside = (entry.kind for kinds in drawn for entry in kinds)
    return list(dict.fromkeys([*(row[1].text for row in rows), *beside]))


def _once(scene: SceneData) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each measurement of a scene, those of the components for which it stands together."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for node, row in zip(scene.tree.nodes, scene.energy.rows, strict=True):
        groups.setdefault(node.source, []).append(row)
    return groups


def _in_scene(source: str, rows: Sequence[dict[str, Any]], moment: str) -> list[TableCell]:
    """Return the cells of one measurement; a mean over layers has no layer of its own."""
    name, kind, layer, *others = _row(rows[0])
    if len(rows) > 1:
        name = TableCell(f"{source} (each of {len(rows)})")
        layer = TableCell("") if source != rows[0]["component"] else layer
    return [name, kind, TableCell(moment), layer, *others]


def _row(row: dict[str, Any]) -> list[TableCell]:
    energy = interval(row["energy_mj"], row["energy_ci_low_mj"], row["energy_ci_high_mj"])
    layer, reasons = finite(row["layer"]), row.get("reasons")
    return [
        TableCell(str(row["component"]), picks=str(row["component"])),
        TableCell(str(row["kind"])),
        TableCell("" if layer is None else str(int(layer)), layer),
        TableCell(text.with_limits(energy, "mJ"), energy.value if energy else None),
        _cell(row["share_of_total"], text.percent),
        *(_quantity(row[column], "mJ") for column in ("static_mj", "dynamic_mj")),
        _quantity(row["time_us"], "us"),
        _quantity(row["power_w"], "W"),
        *(_quantity(row[column], "mJ") for column in ("glue_mj", "unexplained_mj")),
        *_work(row, energy),
        TableCell(_PACE.get(str(row.get("host_bound")), UNKNOWN_CELL)),
        TableCell(origin_of(row) or "on its own"),
        TableCell(str(row["quality"]), _GRADES.get(str(row["quality"])), detail=str(reasons or "")),
    ]


def _work(row: dict[str, Any], energy: Interval | None) -> list[TableCell]:
    """Return the cells from FLOPs to intensity."""
    flops, moved = finite(row["flops"]), finite(row["bytes"])
    found = efficiency(energy, flops, moved, finite(row["time_us"]))
    prices = [price.value if price else None for price in (found.pj_per_flop, found.nj_per_byte)]
    return [
        TableCell("none", 0.0) if flops == 0 else _quantity(flops, "FLOP"),
        _quantity(moved, "bytes"),
        *(_cell(price, text.number) for price in prices),
        _quantity(found.flops_per_s, "FLOP/s"),
        _quantity(found.bytes_per_s, "bytes/s"),
        _cell(found.intensity, text.number),
    ]


def _quantity(value: object, unit: str) -> TableCell:
    return _cell(value, lambda amount: text.quantity(amount, unit))


def _cell(value: object, write: Callable[[float], str]) -> TableCell:
    """Return a number's cell; one that is unknown shows a dash, never 0."""
    amount = finite(value)
    return TableCell(UNKNOWN_CELL) if amount is None else TableCell(write(amount), amount)

"""The table of all components: each cell as text, with the number by which it sorts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.data import ReportData
from energyscope.runs.intervals import finite, interval


@dataclass(frozen=True)
class Column:
    """A column: ``numeric`` ones are aligned right and sort by number."""

    title: str
    numeric: bool
    hint: str = ""


@dataclass(frozen=True)
class TableCell:
    """A cell's text and the number by which it sorts; None where there is no number."""

    text: str
    number: float | None = None


COMPONENT_COLUMNS = (
    Column("Component", numeric=False),
    Column("Kind", numeric=False),
    Column("Layer", numeric=True),
    Column("Energy", numeric=True, hint="per forward pass of the model, with its 95 % interval"),
    Column("Share", numeric=True, hint="of the measured model"),
    Column("Static", numeric=True, hint="idle power times time"),
    Column("Dynamic", numeric=True),
    Column("Time", numeric=True, hint="per forward pass of the model"),
    Column("Power", numeric=True, hint="mean over the replay windows"),
    Column("Glue", numeric=True, hint="measured with the children bypassed"),
    Column("Unexplained", numeric=True, hint="node - children - glue; may be negative"),
    Column("FLOPs", numeric=True),
    Column("Measured", numeric=False, hint="a mean over the layers takes no part in layer statistics"),
    Column("Quality", numeric=False, hint="A to C, or invalid, with the reasons"),
)


def component_columns(*, modelled: bool) -> list[Column]:
    """Return the table's columns; joules that were modelled say so above their column."""
    word = "Modelled energy" if modelled else "Energy"
    return [replace(column, title=word) if column.title == "Energy" else column for column in COMPONENT_COLUMNS]


def component_rows(data: ReportData) -> list[list[TableCell]]:
    """Return the table's rows in the order of the energy table."""
    rows = data.energy.rows if data.energy else []
    return [_row(row) for row in rows]


def _row(row: dict[str, Any]) -> list[TableCell]:
    energy = interval(row["energy_mj"], row["energy_ci_low_mj"], row["energy_ci_high_mj"])
    layer, reasons = finite(row["layer"]), row.get("reasons")
    return [
        TableCell(str(row["component"])),
        TableCell(str(row["kind"])),
        TableCell("" if layer is None else str(int(layer)), layer),
        TableCell(text.with_limits(energy, "mJ"), energy.value if energy else None),
        _cell(row["share_of_total"], text.percent),
        *(_quantity(row[column], "mJ") for column in ("static_mj", "dynamic_mj")),
        _quantity(row["time_us"], "us"),
        _quantity(row["power_w"], "W"),
        *(_quantity(row[column], "mJ") for column in ("glue_mj", "unexplained_mj")),
        _cell(row["flops"], text.number),
        TableCell("mean over the layers" if row.get("reused") else "on its own"),
        TableCell(str(row["quality"]) + (f" ({reasons})" if reasons else "")),
    ]


def _quantity(value: object, unit: str) -> TableCell:
    return _cell(value, lambda amount: text.quantity(amount, unit))


def _cell(value: object, write: Callable[[float], str]) -> TableCell:
    """Return a number's cell; one that is unknown shows a dash, never 0."""
    amount = finite(value)
    return TableCell("\u2013") if amount is None else TableCell(write(amount), amount)

"""A grid of coloured cells: components by layer, or coefficients of columns against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from energyscope import format as fmt
from energyscope.reporting.charts import data
from energyscope.reporting.charts.scales import magnitude
from energyscope.reporting.charts.theme import CUT, altair, palette
from energyscope.reporting.table import Table

_ROW_PX = 24


@data.built_unchecked
def grid(
    table: Table,
    row: str,
    column: str,
    value: str,
    *,
    diverging: bool = False,
    written: bool = False,
    title: str = "",
) -> Any:
    """Draw a cell for each row of a table, at its ``row`` and ``column``, coloured by its ``value``.

    Noisy cells have a cross. ``diverging`` colours lie between -1 and 1, around a pale 0; ``written`` puts the
    values into the cells, and a dash where there is none. ``title`` stands below the columns.
    """
    alt = altair()
    rows = [cell for cell in table.rows if written or data.value_of(cell.get(value)) is not None]
    known = [data.value_of(cell.get(value)) for cell in rows]
    values = [number or 0.0 for number in known]
    divisor, unit = fmt.scale(max(map(abs, values), default=0.0), table.column(value).unit)
    columns = data.shown_columns(table)
    records = [
        {
            "row": str(cell[row]),
            "column": cell[column],
            "value": None if number is None else number / divisor,  # without a value, the cell is not coloured
            "text": fmt.UNKNOWN if number is None else fmt.number(number / divisor, 2),
            "ink": ink,
            "noisy": bool(cell.get("noisy")),
            **data.mark(cell, columns),
        }
        for cell, number, ink in zip(rows, known, _inks(values, diverging=diverging), strict=True)
    ]
    downwards, across = (list(dict.fromkeys(record[key] for record in records)) for key in ("row", "column"))
    base = data.chart_of(records).encode(**_axes(downwards, across, title), tooltip=data.tooltip(columns))
    heading = table.column(value).title + (f" ({unit})" if unit else "")
    fill = _fill([number / divisor for number in values], heading, diverging=diverging)
    cells = base.mark_rect(cornerRadius=2 if len(across) <= 40 else 0)
    layers = [cells.encode(fill=fill, opacity=data.faded())]
    if any(record["noisy"] for record in records):
        cross = {"shape": "M-1,-1L1,1M-1,1L1,-1", "size": 60, "strokeWidth": 1.4, "filled": False}
        crosses = base.transform_filter("datum.noisy").mark_point(**cross)
        layers.append(crosses.encode(stroke=alt.Stroke("ink:N", scale=None), opacity=data.faded(0.8)))
    if written:
        text = {"text": alt.Text("text:N"), "color": alt.Color("ink:N", scale=None)}
        layers.append(base.mark_text(fontSize=11).encode(**text))
    return data.layered(layers, records, _ROW_PX * len(downwards))


def _inks(values: Sequence[float], *, diverging: bool) -> list[str]:
    """Return the colour that can be read on the cell of each value."""
    if diverging:
        return ["#10161d" if abs(value) < 0.55 else "#ffffff" for value in values]
    middle = (max(values, default=0.0) + min(values, default=0.0)) / 2
    return ["#ffffff" if value < middle else "#000000" for value in values]


def _fill(values: Sequence[float], title: str, *, diverging: bool) -> Any:
    """Return the colours of values, with a legend as their axis."""
    alt = altair()
    if diverging:
        scale = alt.Scale(domain=[-1, 0, 1], range=["#3f7cac", "#f4f1ea", "#d1603d"], type="linear")
        ticks: dict[str, Any] = {"values": [-1, -0.5, 0, 0.5, 1], "format": ".1f"}
    else:
        size = magnitude(values)
        scale = alt.Scale(scheme="viridis", **({} if size.type == "linear" else {"type": size.type}))
        ticks = {"values": size.ticks, "labelOverlap": True} if size.ticks else {}
    length = alt.ExprRef("min(180, width)")
    legend = alt.Legend(orient="top", gradientLength=length, gradientThickness=10, titleLimit=360, **ticks)
    return alt.Fill("value:Q", title=title, scale=scale, legend=legend)


def _axes(rows: list[Any], columns: list[Any], title: str) -> dict[str, Any]:
    """Return the encoding of the rows and the columns, whose names are turned where they are long."""
    alt = altair()
    long = any(isinstance(name, str) and len(name) > 4 for name in columns)
    left = alt.Axis(domain=False, ticks=False, labelPadding=6, labelLimit=200)
    below = alt.Axis(
        domain=False, ticks=False, labelAngle=-40 if long else 0, labelOverlap=not long, labelLimit=120
    )
    return {
        "x": alt.X("column:O", sort=columns, title=title or None, axis=below),
        "y": alt.Y("row:N", sort=rows, title=None, axis=left),
    }


@data.built_unchecked
def tiles(table: Table, row: str, column: str, series: str, *, title: str = "") -> Any:
    """Draw a cell for each row of a table, at its ``row`` and ``column``, in the colour of its ``series``."""
    alt = altair()
    columns = data.shown_columns(table)
    records = [
        {"row": str(cell[row]), "column": cell[column], "series": str(cell[series]), **data.mark(cell, columns)}
        for cell in table.rows
    ]
    downwards = list(dict.fromkeys(record["row"] for record in records))
    across = sorted({record["column"] for record in records})
    colours = palette([record["series"] for record in records])
    fill = alt.Fill("series:N", scale=data.colour_scale(colours), legend=data.legend(list(colours)))
    base = data.chart_of(records).encode(**_axes(downwards, across, title), tooltip=data.tooltip(columns))
    cells = base.mark_rect(cornerRadius=2 if len(across) <= 40 else 0, style=CUT)
    return data.layered([cells.encode(fill=fill, opacity=data.faded())], records, _ROW_PX * len(downwards))

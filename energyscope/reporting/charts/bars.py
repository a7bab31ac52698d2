"""Bars and dots: one line for each row of a table, or one for each of several series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.reporting import format as fmt
from energyscope.reporting.charts import data
from energyscope.reporting.charts.scales import magnitude
from energyscope.reporting.charts.theme import GUIDE, HALO, HOLLOW, INK, PALE, RANGE, altair, palette
from energyscope.reporting.table import Row, Table

_ROW_PX, _SERIES_PX, _MARGIN_PX = 27, 15, 8
_LETTER_PX = 6.7  # mean width of a letter of the labels


def bars(
    table: Table,
    by: str,
    value: str,
    *,
    work: str | None = None,
    colour: str | None = None,
    series: str = "",
    reference: float | None = None,
) -> Any:
    """Draw a bar for each row: its name ``by``, its length ``value``, solid up to ``work`` and pale beyond.

    Rows may hold ``label`` (what stands at the bar's end; else the value), ``noisy`` (drawn hollow) and
    ``colour``, which otherwise follows from the column ``colour``, by default the row's kind. With ``series``,
    rows of one name stand together, coloured by that column, with a legend. Whiskers are 95 % intervals; nothing
    is scaled to a sum.
    ``reference`` draws a line, as at "no change".
    """
    alt = altair()
    rows = [row for row in table.rows if data.value_of(row.get(value)) is not None]
    divisor, _ = _unit(rows, value, table)
    columns = data.shown_columns(table)
    painted = palette(str(row.get(series or colour or "kind")) for row in rows)
    records, ends = [], []
    for row in rows:
        whole = (data.value_of(row[value]) or 0.0) / divisor
        low, high = (None if limit is None else limit / divisor for limit in data.limits_of(row[value]))
        paint = row.get("colour") or painted[str(row.get(series or colour or "kind"))]
        shared = {"name": str(row[by]), "colour": paint, **data.named(row), **data.tips(row, columns)}
        shared |= {"series": str(row[series])} if series else {}
        records += [{**shared, **part} for part in _segments(whole, row, work, divisor)]
        label = row.get("label", fmt.quantity(data.value_of(row[value]), table.column(value).unit))
        end = max(part for part in (whole, high, 0.0) if part is not None)
        ends.append({**shared, "low": low, "high": high, "end": end, "label": label})
    names = list(dict.fromkeys(str(row[by]) for row in rows))
    across = {"y": _names_axis(names), **_offset(rows, series)}
    least = min([0.0, *(one["low"] or 0.0 for one in ends), *(record["start"] for record in records)])
    most = max([*(one["end"] for one in ends), (reference or 0.0) / divisor], default=1.0)
    x = {"scale": _with_room(most, least, ends), "axis": None}
    solid = data.chart_of(records).mark_bar(strokeWidth=1.3, cornerRadius=1)
    layers = [
        solid.encode(
            **across,
            x=alt.X("start:Q", **x),
            x2="end:Q",
            color=_colours(alt, painted, legend=bool(series)),
            fillOpacity=alt.FillOpacity("fill:Q", scale=None),
            stroke=alt.Stroke("colour:N", scale=None),
            strokeDash=alt.StrokeDash("dash:N", scale=None),
            opacity=data.faded(),
            tooltip=data.tooltip(columns),
        )
    ]
    layers += _whiskers(ends, across, axis=None, scale=x["scale"])
    if reference is not None:
        line = data.chart_of([{"at": reference / divisor}]).mark_rule(style=GUIDE)
        layers.append(line.encode(x=alt.X("at:Q", **x)))
    encoded = {**across, "x": alt.X("end:Q", **x), "text": "label:N", "opacity": data.faded(left=0.5)}
    for style in (INK,) if reference is None else (HALO, INK):
        written = data.chart_of(ends).mark_text(style=style, align="left", baseline="middle", dx=6)
        layers.append(written.encode(**encoded))
    each = _SERIES_PX * len({row[series] for row in rows}) + 8 if series else _ROW_PX
    return data.finished(data.linked(alt.layer(*layers), records), each * len(names) + _MARGIN_PX)


def dots(
    table: Table,
    by: str,
    value: str,
    *,
    series: str = "",
    log: bool | None = None,
    reference: float | None = None,
    title: str = "",
) -> Any:
    """Draw a dot with its interval for each row, on an axis that is logarithmic where values differ much.

    ``series`` sets rows of one name apart by colour, their own ``colour`` where they have one; ``reference`` draws
    a line, as at "no change".
    """
    alt = altair()
    rows = [row for row in table.rows if data.value_of(row.get(value)) is not None]
    column = table.column(value)
    divisor, unit = _unit(rows, value, table)
    values = [(data.value_of(row[value]) or 0.0) / divisor for row in rows]
    limits = [limit / divisor for row in rows for limit in data.limits_of(row[value]) if limit is not None]
    axis = magnitude(values + ([reference] if reference else []), limits, log=log)
    painted = palette(str(row[series]) if series else str(row.get("kind", row[by])) for row in rows)
    painted |= {str(row[series]): row["colour"] for row in rows if series and row.get("colour")}
    columns = data.shown_columns(table)
    records = []
    for row, at in zip(rows, values, strict=True):
        low, high = (axis.limit(None if one is None else one / divisor) for one in data.limits_of(row[value]))
        name = str(row[series]) if series else str(row.get("kind", row[by]))
        records.append(
            {
                "name": str(row[by]),
                "series": name,
                "at": at,
                "low": low,
                "high": high,
                "fill": HOLLOW if row.get("noisy") else 1.0,
                "colour": row.get("colour") or painted[name],
                **data.named(row),
                **data.tips(row, columns),
            }
        )
    names = list(dict.fromkeys(record["name"] for record in records))
    across = {"y": _names_axis(names, grid=True), **_offset(rows, series)}
    heading = title or (f"{column.title} ({unit})" if unit else column.title)
    x = alt.X("at:Q", title=heading, scale=axis.scale(), axis=axis.axis())
    base = data.chart_of(records)
    points = base.mark_point(size=46, filled=True, strokeWidth=1.4).encode(
        **across,
        x=x,
        color=_colours(alt, painted, legend=bool(series)),
        stroke=alt.Stroke("colour:N", scale=None),
        fillOpacity=alt.FillOpacity("fill:Q", scale=None),
        opacity=data.faded(),
        tooltip=data.tooltip(columns),
    )
    layers = [*_whiskers(records, across, title=heading), points]
    if reference is not None:
        line = data.chart_of([{"at": reference}]).mark_rule(style=GUIDE).encode(x=alt.X("at:Q", title=heading))
        layers.insert(0, line)
    each = _SERIES_PX * len(set(painted)) + 6 if series else 22
    return data.finished(data.linked(alt.layer(*layers), records), each * len(names) + _MARGIN_PX)


def _unit(rows: Sequence[Row], value: str, table: Table) -> tuple[float, str]:
    sizes = [abs(data.value_of(row[value]) or 0.0) for row in rows]
    return fmt.scale(max(sizes, default=0.0), table.column(value).unit)


def _segments(whole: float, row: Row, work: str | None, divisor: float) -> list[dict[str, Any]]:
    """Return a bar in its two parts where both are known and parts of it, else in one piece."""
    part = data.value_of(row.get(work)) if work else None
    noisy = bool(row.get("noisy"))
    solid, dash = (HOLLOW if noisy else 1.0), ([4, 3] if noisy else [1, 0])
    if part is None or not 0 <= part / divisor <= whole:
        fill = PALE * solid if work is not None and row.get("idle_only") else solid
        return [{"start": min(whole, 0.0), "end": max(whole, 0.0), "fill": fill, "dash": dash}]
    middle = part / divisor
    pale = HOLLOW / 2 if noisy else PALE
    return [
        {"start": 0.0, "end": middle, "fill": solid, "dash": dash},
        {"start": middle, "end": whole, "fill": pale, "dash": dash},
    ]


def _whiskers(records: Sequence[Mapping[str, Any]], across: dict[str, Any], **options: Any) -> list[Any]:
    known = [dict(one) for one in records if one["low"] is not None and one["high"] is not None]
    if not known:
        return []
    ends = {"x": altair().X("low:Q", **options), "x2": "high:Q"}
    return [data.chart_of(known).mark_rule(style=RANGE).encode(**across, **ends, opacity=data.faded(0.8))]


def _names_axis(names: Sequence[str], *, grid: bool = False) -> Any:
    alt = altair()
    axis = alt.Axis(ticks=False, domain=False, labelPadding=8, labelLimit=190, grid=grid)
    return alt.Y("name:N", sort=list(names), title=None, axis=axis)


def _offset(rows: Sequence[Row], series: str) -> dict[str, Any]:
    if not series:
        return {}
    order = list(dict.fromkeys(str(row[series]) for row in rows))
    return {"yOffset": altair().YOffset("series:N", sort=order)}


def _colours(alt: Any, painted: Mapping[str, str], *, legend: bool) -> Any:
    """Colour marks by their records; a legend needs a scale of the names."""
    if not legend:
        return alt.Color("colour:N", scale=None)
    scale = alt.Scale(domain=list(painted), range=list(painted.values()))
    return alt.Color("series:N", scale=scale, legend=data.legend(list(painted)))


def _with_room(most: float, least: float, ends: Sequence[Mapping[str, Any]]) -> Any:
    """Leave room at the bars' ends for the longest label, whatever the width."""
    alt = altair()
    room = max((len(str(one["label"])) for one in ends), default=0) * _LETTER_PX + 12
    span = f"({most:.6g} - ({least:.6g}))"
    right = alt.ExprRef(f"{least:.6g} + {span} * width / max(width - {room:.0f}, 40)")
    return alt.Scale(domainMin=least, domainMax=right, nice=False, zero=False)

"""Where the energy goes: bars by kind, bars by layer, and the layer x component heatmap."""

from __future__ import annotations

from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import grades, theme
from energyscope.reporting.charts.split import fills, split_bar
from energyscope.reporting.data.energy import Cell, KindEnergy

_ROW_PX, _ROUNDED = 25, 32  # with more columns than that, round corners leave more gap than cell
_LINE_PX = 2.5
_NARROW_PX, _WIDE_PX = 220, 800  # of a heatmap's columns together, on a telephone and on a desk


def by_kind(
    kinds: list[KindEnergy],
    description: str,
    word: str = "Energy",
    *,
    static: bool = False,
    each: str = "forward pass",
) -> Any:
    """Draw a bar for each kind, its dynamic part before its static one where known, with its 95 % interval.

    ``static`` says that all of it is static energy, which is pale; ``each`` what the energy is of. Hollow is a
    kind of which all is below grade C.
    """
    alt = theme.altair()
    divisor, unit = text.scale_of(max(abs(entry.energy.value) for entry in kinds), "mJ")
    order = [entry.kind for entry in kinds]
    y = alt.Y("kind:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False, labelPadding=6))
    right = max(entry.energy.high or entry.energy.value for entry in kinds) / divisor
    left = min(0.0, *(entry.energy.low or entry.energy.value for entry in kinds)) / divisor
    x = alt.X(
        "start:Q",
        title=f"{word} per {each} ({unit})",
        scale=alt.Scale(domain=[left, right * 1.62], nice=False),
        axis=alt.Axis(tickCount=7, labelOverlap=True),
    )
    split = any(entry.work_mj is not None for entry in kinds)
    whole = grades.PALE if static else grades.REST if split else grades.FULL
    parts = [part for entry in kinds for part in _bar_parts(entry, divisor, whole)]
    bars = alt.Chart(theme.rows(parts)).mark_bar(height={"band": 0.66})
    bars = bars.encode(
        x=x,
        x2="end:Q",
        y=y,
        color=alt.Color("colour:N", scale=None),
        **grades.painted(alt.Stroke("colour:N", scale=None)),
        opacity=theme.faded(),
        tooltip=[alt.Tooltip("kind:N"), alt.Tooltip("part:N"), alt.Tooltip("said:N", title="energy")],
    )
    totals = alt.Chart(theme.rows([_bar_total(entry, divisor) for entry in kinds]))
    totals = totals.encode(y=y, opacity=theme.faded_text())
    labels = totals.mark_text(style=theme.INK_TEXT, align="left", dx=7).encode(x="edge:Q", text="label:N")
    layers = [bars, labels]
    if any(entry.energy.known for entry in kinds):
        errors = totals.transform_filter("datum.low != null").mark_rule(style=theme.INK_LINE)
        layers.insert(1, errors.encode(x="low:Q", x2="high:Q"))
    chart = theme.linked(alt.layer(*layers), order)
    return theme.finish(chart, description, 27 * len(kinds))


def _bar_parts(entry: KindEnergy, divisor: float, whole: float) -> list[dict[str, Any]]:
    said = text.with_limits(entry.energy, "mJ")
    solid, hollow = entry.role == "component", entry.all_invalid
    shared = {
        "kind": entry.kind,
        "colour": theme.colour(entry.kind),
        "said": said,
        "dash": grades.DASHED if hollow else grades.SOLID if solid else grades.REST_DASH,
    }
    value, work = entry.energy.value, entry.work_mj
    if work is None:
        return [{**shared, "part": "all", "start": 0.0, "end": value / divisor,
                 "fill": grades.HOLLOW if hollow else whole if solid else grades.REST}]  # fmt: skip
    both = fills(hollow=hollow) if solid or hollow else (grades.REST, grades.REST_PALE)
    return split_bar(shared, value, work, divisor, both)


def _bar_total(entry: KindEnergy, divisor: float) -> dict[str, Any]:
    low, high = entry.energy.low, entry.energy.high
    share = f"  ·  {text.percent(entry.share.value)}" if entry.share else ""
    return {
        "kind": entry.kind,
        "low": None if low is None else low / divisor,
        "high": None if high is None else high / divisor,
        "edge": max(high if high is not None else entry.energy.value, 0.0) / divisor,
        "label": text.quantity(entry.energy.value, "mJ") + share + grades.dagger(weak=bool(entry.invalid)),
    }


def by_layer(layers: list[Cell], description: str, word: str = "Energy") -> Any:
    """Draw a bar for each layer as measured by itself, with its 95 % interval; invalid ones are hollow."""
    alt = theme.altair()
    known = [(cell, cell.energy) for cell in layers if cell.energy]
    divisor, unit = text.scale_of(max(energy.value for _, energy in known), "mJ")
    records = [
        {
            "layer": cell.layer,
            "kind": cell.kind,
            "component": cell.component,
            "value": energy.value / divisor,
            "low": None if energy.low is None else energy.low / divisor,
            "high": None if energy.high is None else energy.high / divisor,
            "said": text.with_limits(energy, "mJ"),
            "reused": _measured(cell, "measured on this layer"),
            **grades.paint(hollow=cell.invalid, full=0.8),
        }
        for cell, energy in known
    ]
    base = theme.compact(records).encode(
        x=alt.X("layer:O", title="Layer", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        opacity=theme.faded(matches=theme.IN_LAYER),
        tooltip=["component:N", alt.Tooltip("said:N", title="energy"), alt.Tooltip("reused:N", title="value")],
    )
    bars = base.mark_bar(color=theme.colour("layer")).encode(
        y=alt.Y("value:Q", title=f"{word} ({unit})", axis=alt.Axis(tickCount=4)),
        **grades.painted(alt.StrokeValue(theme.colour("layer"))),
    )
    layers = [bars]
    if any(energy.known for _, energy in known):
        errors = base.transform_filter("datum.low != null").mark_rule(style=theme.INK_LINE)
        layers.append(errors.encode(y="low:Q", y2="high:Q"))
    return theme.finish(theme.linked(alt.layer(*layers), ["layer"]), description, 170)


def _measured(cell: Cell, here: str) -> str:
    where = cell.origin or here
    return f"{where}, invalid" if cell.invalid else where


def heatmap(cells: list[Cell], description: str, title: str = "Energy", unit: str = "mJ") -> Any:
    """Draw a cell for each component of each layer; a stroke marks one of other layers, a cross an invalid one.

    Where the cells are narrow, lines along their edges mark them. ``unit``, one of `text.scale_of`, is that of the
    cells' values; energies have linear colours, other measures logarithmic ones where they span decades.
    """
    known = [(cell, cell.energy) for cell in cells if cell.energy]
    divisor, shown = text.scale_of(max(value.value for _, value in known), unit)
    records = [
        {
            "row": cell.row,
            "layer": cell.layer,
            "kind": cell.kind,
            "component": cell.component,
            "value": value.value / divisor,
            "said": text.with_limits(value, unit),
            "measured": _measured(cell, "on this layer"),
            **({"reused": True} if cell.reused else {}),
            **({"invalid": True} if cell.invalid else {}),
        }
        for cell, value in known
    ]
    order = list(dict.fromkeys(cell.row for cell in cells))
    return grid(records, order, f"{title} ({shown})", _colours(records, unit), description)


def _colours(records: list[dict[str, Any]], unit: str) -> Any:
    alt = theme.altair()
    size = theme.magnitude([record["value"] for record in records])
    if unit == "mJ" or size.type == "linear":
        return alt.Scale(scheme="viridis")
    constant = {"constant": size.constant} if size.type == "symlog" else {}
    return alt.Scale(scheme="viridis", type=size.type, **constant)


def _hatch(columns: int) -> dict[str, Any]:
    """Return the strokes that mark a cell: as many as fit into its width, on a telephone as well."""
    columns = max(columns, 1)
    narrow, wide = _NARROW_PX / columns, _WIDE_PX / columns
    half = min(_ROW_PX * 0.4, max(narrow * 0.45, min(wide * 0.4, 4.0)))
    strokes = max(min(int(narrow / (half * 3.2)), 7), 1)
    starts = [2 * index - strokes + 1 for index in range(strokes)]
    return {"shape": " ".join(f"M{x - 1},1L{x + 1},-1" for x in starts), "size": (2 * half) ** 2}


def dense(columns: int) -> bool:
    """Tell whether a heatmap has so many columns that a mark across a cell would hide its colour."""
    return columns > _ROUNDED


def _line(chart: Any, place: int) -> Any:
    """Mark cells by a thin line as wide as they are: along the lower edge (``place`` 1) or the upper one (-1)."""
    return chart.mark_rect(height=_LINE_PX, yOffset=place * (_ROW_PX / 2 - _LINE_PX))


def grid(records: list[dict[str, Any]], order: list[str], title: str, scale: Any, description: str) -> Any:
    """Draw a layer x row heatmap.

    The records hold ``row``, ``layer``, ``kind``, ``component``, ``value``, ``said`` and ``measured``; those that
    are marked ``reused`` or ``invalid``.
    """
    alt = theme.altair()
    values = [record["value"] for record in records]
    middle = (min(values) + max(values)) / 2
    marked = [record for record in records if record.get("reused") or record.get("invalid")]
    for record in marked:
        record["stroke"] = "#ffffff" if record["value"] < middle else "#000000"
    base = theme.compact(records).encode(
        x=alt.X(
            "layer:O", title="Layer", axis=alt.Axis(labelAngle=0, labelOverlap=True, domain=False, ticks=False)
        ),
        y=alt.Y("row:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False, labelPadding=6)),
        tooltip=["component:N", alt.Tooltip("said:N", title=title), alt.Tooltip("measured:N")],
    )
    legend = alt.Legend(
        orient="top", gradientLength=alt.ExprRef("min(180, width)"), gradientThickness=10, titleLimit=360
    )
    columns = len({record["layer"] for record in records})
    rects = base.mark_rect(cornerRadius=0 if dense(columns) else 2).encode(
        color=alt.Color("value:Q", title=title, scale=scale, legend=legend), opacity=theme.faded()
    )
    reused, invalid = (base.transform_filter(f"datum.{name}") for name in ("reused", "invalid"))
    if dense(columns):
        ink = {"fill": alt.Fill("stroke:N", scale=None)}
        strokes, crosses = (_line(one, place) for one, place in ((reused, 1), (invalid, -1)))
    else:
        ink = {"stroke": alt.Stroke("stroke:N", scale=None)}
        strokes = reused.mark_point(strokeWidth=1.1, filled=False, **_hatch(columns))
        crosses = invalid.mark_point(
            strokeWidth=1.6, filled=False, shape="M-1,-1L1,1M-1,1L1,-1", size=(_ROW_PX * 0.4) ** 2
        )
    marks = [
        *([strokes.encode(**ink, opacity=theme.faded(0.6))] if any(r.get("reused") for r in marked) else []),
        *([crosses.encode(**ink, opacity=theme.faded(0.9))] if any(r.get("invalid") for r in marked) else []),
    ]
    chart = theme.linked(alt.layer(rects, *marks), (record["kind"] for record in records))
    return theme.finish(chart, description, _ROW_PX * len(order))

"""Points in a plane with their intervals, names where there is room, and lines through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope import format as fmt
from energyscope.reporting.charts import data, names
from energyscope.reporting.charts.scales import Magnitude, magnitude
from energyscope.reporting.charts.theme import FAINT, GUIDE, HALO, INK, RANGE, altair, palette
from energyscope.reporting.table import Column, Row, Table

_HEIGHT = 330.0
_MOST_NAMES = 8
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


@dataclass(frozen=True)
class Axis:
    """One direction of a plane: the column of its values, and where it has guides.

    ``log`` None chooses by the values; ``guides`` are values at which a dashed line stands across the plane.
    """

    key: str
    title: str = ""
    log: bool | None = None
    guides: Sequence[float] = ()
    zero: bool = False


@data.built_unchecked
def plane(  # noqa: PLR0913 - what a plane may show beyond its points is each optional and named
    table: Table,
    x: Axis,
    y: Axis,
    *,
    series: str = "kind",
    name: str = "",
    lines: Table | None = None,
    corners: Mapping[tuple[str, str], str] | None = None,
    height: float = _HEIGHT,
) -> Any:
    """Draw a point for each row at two of its columns, coloured by ``series``, with intervals both ways.

    ``name`` is the column whose text stands beside points, as many as have room, in the table's order; rows may
    be ``noisy`` (hollow). ``lines`` has rows of the same columns, joined along x within each series. ``corners``
    names quadrants: ``("right", "top")`` and so on.
    """
    alt = altair()
    rows = [row for row in table.rows if _known(row, x.key, y.key)]
    scales = [_Scale.of(axis, table, rows, lines, 30 if corners else None) for axis in (x, y)]
    columns = data.shown_columns(table)
    painted = palette([str(row.get(series)) for row in [*rows, *(lines.rows if lines else ())]])
    records = [_record(row, scales, series, columns) for row in rows]
    across, down = (scale.channel(kind) for scale, kind in zip(scales, (alt.X, alt.Y), strict=True))
    hues = alt.Scale(domain=list(painted), range=list(painted.values()))
    legend = data.legend(list(painted)) if 1 < len(painted) <= 10 else None
    colour = alt.Color("series:N", scale=hues, legend=legend)
    layers = [*_guides(alt, scales), *_curves(alt, lines, scales, series, colour)]
    base = data.chart_of(records)
    layers += [*_ranges(records, scales, "x", {"y": down}), *_ranges(records, scales, "y", {"x": across})]
    layers.append(
        base.mark_point(size=70, filled=True, strokeWidth=1.5).encode(
            x=across,
            y=down,
            color=colour,
            stroke=alt.Stroke("series:N", scale=hues, legend=legend),
            fillOpacity=alt.FillOpacity("fill:Q", scale=None),
            opacity=data.faded(),
            shape=alt.Shape(
                "series:N", scale=alt.Scale(domain=list(painted), range=_shapes(painted)), legend=legend
            ),
            tooltip=data.tooltip(columns),
        )
    )
    layers += _names(rows, records, scales, name, across, down) if name else []
    layers += _corners(alt, corners or {})
    return data.layered(layers, records, height)


@data.built_unchecked
def curves(
    table: Table, x: Axis, y: Axis, *, series: str, height: float = 220.0, step: bool = False, area: bool = False
) -> Any:
    """Draw a line for each series over x, with the intervals of its values as a band, and a point at each row."""
    alt = altair()
    rows = [row for row in table.rows if _known(row, x.key, y.key)]
    scales = [_Scale.of(axis, table, rows, None) for axis in (x, y)]
    columns = data.shown_columns(table)
    painted = palette([str(row.get(series)) for row in rows])
    records = [_record(row, scales, series, columns) for row in rows]
    across, down = (scale.channel(kind) for scale, kind in zip(scales, (alt.X, alt.Y), strict=True))
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=list(painted), range=list(painted.values())),
        legend=data.legend(list(painted), symbolOpacity=1) if len(painted) > 1 else None,
    )
    base = data.chart_of(records)
    layers = []
    if area:
        joined = base.mark_area(interpolate="step-after" if step else "linear", opacity=0.35, line=True)
        layers.append(joined.encode(x=across, y=down, color=colour, opacity=data.faded(0.5)))
    else:
        held = [record for record in records if record["y_low"] is not None]
        if held:
            band = data.chart_of(held).mark_area(opacity=0.18)
            layers.append(
                band.encode(
                    x=across,
                    y=alt.Y("y_low:Q", **scales[1].options()),
                    y2=alt.Y2("y_high:Q"),
                    color=colour,
                    opacity=data.faded(0.18),
                )
            )
        joined = base.mark_line(interpolate="step-after" if step else "linear", strokeWidth=1.8)
        layers.append(joined.encode(x=across, y=down, color=colour, opacity=data.faded()))
    if len(records) <= 200:
        points = base.mark_point(size=30, filled=True, opacity=1)
        layers.append(
            points.encode(x=across, y=down, color=colour, opacity=data.faded(), tooltip=data.tooltip(columns))
        )
    return data.layered([*_guides(alt, scales), *layers], records, height)


@dataclass(frozen=True)
class _Scale:
    """An axis with its magnitude, unit and title."""

    axis: Axis
    magnitude: Magnitude
    divisor: float
    title: str
    padding: int | None = None

    @classmethod
    def of(
        cls, axis: Axis, table: Table, rows: Sequence[Row], lines: Table | None, padding: int | None = None
    ) -> _Scale:
        every = [*rows, *(lines.rows if lines else ())]
        values = [value for row in every if (value := data.value_of(row.get(axis.key))) is not None]
        column = table.column(axis.key)
        divisor, unit = fmt.scale(max(map(abs, values), default=0.0), column.unit)
        limits = [limit / divisor for row in rows for limit in data.limits_of(row[axis.key]) if limit is not None]
        size = magnitude(
            [*(value / divisor for value in values), *(guide / divisor for guide in axis.guides)],
            limits,
            log=axis.log,
            zero=axis.zero,
        )
        title = axis.title or column.title
        return cls(axis, size, divisor, f"{title} ({unit})" if unit and unit not in title else title, padding)

    def options(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "scale": self.magnitude.scale(**({"padding": self.padding} if self.padding else {})),
            "axis": self.magnitude.axis(),
        }

    def channel(self, kind: Any) -> Any:
        return kind("x:Q" if kind is altair().X else "y:Q", **self.options())

    def at(self, value: float) -> float:
        return value / self.divisor

    def limit(self, value: float | None) -> float | None:
        return None if value is None else self.magnitude.limit(value / self.divisor)


def _ranges(
    records: Sequence[Mapping[str, Any]], scales: Sequence[_Scale], name: str, other: dict[str, Any]
) -> list[Any]:
    """Draw the intervals of one direction."""
    held = [dict(record) for record in records if record[f"{name}_low"] is not None]
    if not held:
        return []
    kind, scale = (altair().X, scales[0]) if name == "x" else (altair().Y, scales[1])
    far = altair().X2 if name == "x" else altair().Y2
    ends = {name: kind(f"{name}_low:Q", **scale.options()), f"{name}2": far(f"{name}_high:Q")}
    return [data.chart_of(held).mark_rule(style=RANGE).encode(**ends, **other, opacity=data.faded(0.5))]


def _known(row: Row, *keys: str) -> bool:
    return all(data.value_of(row.get(key)) is not None for key in keys)


def _record(row: Row, scales: Sequence[_Scale], series: str, columns: Sequence[Column]) -> dict[str, Any]:
    found = {"series": str(row.get(series)), "fill": 0.12 if row.get("noisy") else 1.0}
    for name, scale in zip("xy", scales, strict=True):
        found[name] = scale.at(data.value_of(row[scale.axis.key]) or 0.0)
        low, high = data.limits_of(row[scale.axis.key])
        found[f"{name}_low"], found[f"{name}_high"] = scale.limit(low), scale.limit(high)
    return {**found, **data.named(row), **data.tips(row, columns)}


def _shapes(painted: Mapping[str, str]) -> list[str]:
    return ["circle"] * len(painted) if len(painted) > len(_SHAPES) else list(_SHAPES[: len(painted)])


def _guides(alt: Any, scales: Sequence[_Scale]) -> list[Any]:
    found = []
    for name, scale in zip("xy", scales, strict=True):
        if scale.axis.guides:
            lines = data.chart_of([{name: scale.at(guide)} for guide in scale.axis.guides]).mark_rule(style=GUIDE)
            kind = alt.X if name == "x" else alt.Y
            found.append(lines.encode(**{name: scale.channel(kind)}))
    return found


def _curves(alt: Any, lines: Table | None, scales: Sequence[_Scale], series: str, colour: Any) -> list[Any]:
    if not lines:
        return []
    records = [
        {
            "series": str(row.get(series)),
            "line": str(row.get("line", row.get(series))),
            "dash": [4, 3] if row.get("dashed") else [1, 0],
            **{
                name: scale.at(data.value_of(row[scale.axis.key]) or 0.0)
                for name, scale in zip("xy", scales, strict=True)
            },
        }
        for row in lines.rows
    ]
    drawn = data.chart_of(records).mark_line(strokeWidth=1.6, opacity=0.8)
    across, down = scales[0].channel(alt.X), scales[1].channel(alt.Y)
    dash = alt.StrokeDash("dash:N", scale=None)
    return [drawn.encode(x=across, y=down, color=colour, detail=alt.Detail("line:N"), strokeDash=dash)]


def _names(
    rows: Sequence[Row],
    records: Sequence[Mapping[str, Any]],
    scales: Sequence[_Scale],
    key: str,
    across: Any,
    down: Any,
) -> list[Any]:
    """Write names beside points where they meet nothing, on as many as there is room for."""
    spots = _spots(records, scales)
    order = [at for at, row in enumerate(rows) if row.get(key)]
    lines = [
        ((low[0], spot[1]), (high[0], spot[1])) if way == 0 else ((spot[0], low[1]), (spot[0], high[1]))
        for record, spot in zip(records, spots, strict=True)
        for way, name in enumerate("xy")
        if record[f"{name}_low"] is not None and record[f"{name}_high"] is not None
        for low, high in [_ends(record, records, scales)]
    ]
    chosen = names.named(spots, [str(row.get(key) or "") for row in rows], order, _MOST_NAMES, names.lines(lines))
    layers = []
    for one in chosen:
        label = {**records[one.index], "label": str(rows[one.index][key]), "from": one.from_px}
        text = data.chart_of([label]).transform_calculate(said=f"width >= {one.from_px} ? datum.label : ''")
        place = {
            "align": "right" if one.right else "left",
            "baseline": "middle",
            "dx": -names.ACROSS if one.right else names.ACROSS,
            "dy": one.down * names.DOWN,
        }
        encoded = {"x": across, "y": down, "text": altair().Text("said:N"), "opacity": data.faded(left=0.5)}
        layers += [text.mark_text(style=style, **place).encode(**encoded) for style in (HALO, INK)]
    return layers


def _spots(records: Sequence[Mapping[str, Any]], scales: Sequence[_Scale]) -> list[names.Spot]:
    across, down = (_shares(records, name, scale.magnitude) for name, scale in zip("xy", scales, strict=True))
    return list(zip(across, down, strict=True))


def _shares(records: Sequence[Mapping[str, Any]], name: str, size: Magnitude) -> list[float]:
    """Return where values lie along an axis, which reaches as far as their intervals do."""
    keys = (name, f"{name}_low", f"{name}_high")
    reached = [size.position(record[key]) for record in records for key in keys if record[key] is not None]
    low, span = min(reached), (max(reached) - min(reached)) or 1.0
    return [(size.position(record[name]) - low) / span for record in records]


def _ends(
    record: Mapping[str, Any], records: Sequence[Mapping[str, Any]], scales: Sequence[_Scale]
) -> tuple[names.Spot, names.Spot]:
    found = []
    for end in ("low", "high"):
        moved = {
            **record,
            **{name: record[f"{name}_{end}"] for name in "xy" if record[f"{name}_{end}"] is not None},
        }
        found.append(_spots([*records, moved], scales)[-1])
    return found[0], found[1]


def _corners(alt: Any, corners: Mapping[tuple[str, str], str]) -> list[Any]:
    layers = []
    for (across, down), words in corners.items():
        right, top = across == "right", down == "top"
        text = data.chart_of([{"said": words}]).mark_text(
            style=FAINT, align="right" if right else "left", baseline="top" if top else "bottom"
        )
        x = alt.value(alt.ExprRef("width - 4")) if right else alt.value(4)
        y = alt.value(4) if top else alt.value(alt.ExprRef("height - 4"))
        layers.append(text.encode(x=x, y=y, text=alt.Text("said:N")))
    return layers


@data.built_unchecked
def spans(table: Table, begin: str, end: str, value: str, *, series: str, height: float = 170.0) -> Any:
    """Draw a bar from ``begin`` to ``end`` for each row, as high as its ``value``, coloured by ``series``."""
    alt = altair()
    rows = [row for row in table.rows if _known(row, begin, end, value)]
    painted = palette([str(row.get(series)) for row in rows])
    columns = data.shown_columns(table)
    records = [
        {
            "x": data.value_of(row[begin]),
            "right": data.value_of(row[end]),
            "y": data.value_of(row[value]),
            "zero": 0,
            "series": str(row.get(series)),
            **data.named(row),
            **data.tips(row, columns),
        }
        for row in rows
    ]
    hues = alt.Scale(domain=list(painted), range=list(painted.values()))
    held = table.column(value)
    drawn = (
        data.chart_of(records)
        .mark_rect(strokeWidth=0)
        .encode(
            x=alt.X("x:Q", title="Time (s)", scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(tickCount=10)),
            x2=alt.X2("right:Q"),
            y=alt.Y("y:Q", title=f"{held.title} ({held.unit})", scale=alt.Scale(zero=True)),
            y2=alt.Y2("zero:Q"),
            color=alt.Color("series:N", scale=hues, legend=data.legend(list(painted))),
            tooltip=data.tooltip(columns),
            opacity=data.faded(0.85),
        )
    )
    return data.layered([drawn], records, height)

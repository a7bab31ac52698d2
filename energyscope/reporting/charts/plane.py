"""Points in a plane with their intervals, names where there is room, and lines through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope import format as fmt
from energyscope.reporting.charts import data, names
from energyscope.reporting.charts.scales import Magnitude, magnitude
from energyscope.reporting.charts.theme import FAINT, GUIDE, HALO, INK, RANGE, altair, palette
from energyscope.reporting.table import Row, Table

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
    points = _Points(table, (x, y), series, lines, 30 if corners else None)
    colours, records = points.colours, points.records
    scale = data.colour_scale(colours)
    legend = data.legend(list(colours)) if 1 < len(colours) <= 10 else None
    colour = alt.Color("series:N", scale=scale, legend=legend)
    shapes = _SHAPES[: len(colours)] if len(colours) <= len(_SHAPES) else _SHAPES[:1] * len(colours)
    layers = [*points.guides(), *_curves(lines, points, colour), *points.ranges()]
    layers.append(
        data.chart_of(records)
        .mark_point(size=70, filled=True, strokeWidth=1.5)
        .encode(
            **points.place,
            color=colour,
            stroke=alt.Stroke("series:N", scale=scale, legend=legend),
            fillOpacity=alt.FillOpacity("fill:Q", scale=None),
            opacity=data.faded(),
            shape=alt.Shape("series:N", scale=alt.Scale(domain=list(colours), range=list(shapes)), legend=legend),
            tooltip=data.tooltip(points.columns),
        )
    )
    layers += _names(points, name) if name else []
    layers += _corners(corners or {})
    return data.layered(layers, records, height)


@data.built_unchecked
def curves(table: Table, x: Axis, y: Axis, *, series: str, height: float = 220.0) -> Any:
    """Draw a line for each series over x, with the intervals of its values as a band, and a point at each row."""
    alt = altair()
    points = _Points(table, (x, y), series)
    colours, records, place = points.colours, points.records, points.place
    legend = data.legend(list(colours), symbolOpacity=1) if len(colours) > 1 else None
    colour = alt.Color("series:N", scale=data.colour_scale(colours), legend=legend)
    base = data.chart_of(records)
    layers = points.guides()
    known = [record for record in records if record["y_low"] is not None]
    if known:
        low = alt.Y("y_low:Q", **points.scales[1].options())
        band = {"x": place["x"], "y": low, "y2": alt.Y2("y_high:Q")}
        area = data.chart_of(known).mark_area(opacity=0.18)
        layers.append(area.encode(**band, color=colour, opacity=data.faded(0.18)))
    line = base.mark_line(interpolate="linear", strokeWidth=1.8)
    layers.append(line.encode(**place, color=colour, opacity=data.faded()))
    if len(records) <= 200:
        dots = base.mark_point(size=30, filled=True, opacity=1)
        tooltip = data.tooltip(points.columns)
        layers.append(dots.encode(**place, color=colour, opacity=data.faded(), tooltip=tooltip))
    return data.layered(layers, records, height)


@data.built_unchecked
def spans(table: Table, begin: str, end: str, value: str, *, series: str, height: float = 170.0) -> Any:
    """Draw a bar from ``begin`` to ``end`` for each row, as high as its ``value``, coloured by ``series``."""
    alt = altair()
    rows = [row for row in table.rows if _known(row, begin, end, value)]
    colours = palette([str(row.get(series)) for row in rows])
    columns = data.shown_columns(table)
    records = [
        {
            "x": data.value_of(row[begin]),
            "right": data.value_of(row[end]),
            "y": data.value_of(row[value]),
            "zero": 0,
            "series": str(row.get(series)),
            **data.mark(row, columns),
        }
        for row in rows
    ]
    column = table.column(value)
    chart = (
        data.chart_of(records)
        .mark_rect(strokeWidth=0)
        .encode(
            x=alt.X("x:Q", title="Time (s)", scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(tickCount=10)),
            x2=alt.X2("right:Q"),
            y=alt.Y("y:Q", title=f"{column.title} ({column.unit})", scale=alt.Scale(zero=True)),
            y2=alt.Y2("zero:Q"),
            color=alt.Color("series:N", scale=data.colour_scale(colours), legend=data.legend(list(colours))),
            tooltip=data.tooltip(columns),
            opacity=data.faded(0.85),
        )
    )
    return data.layered([chart], records, height)


def _known(row: Row, *keys: str) -> bool:
    return all(data.value_of(row.get(key)) is not None for key in keys)


@dataclass(frozen=True)
class _Scale:
    """An axis with its magnitude, unit and title."""

    axis: Axis
    magnitude: Magnitude
    divisor: float
    title: str
    padding: int | None = None

    @classmethod
    def of(cls, axis: Axis, table: Table, rows: Sequence[Row], lines: Table | None, padding: int | None) -> _Scale:
        every = [*rows, *(lines.rows if lines else ())]
        values = [value for row in every if (value := data.value_of(row.get(axis.key))) is not None]
        column = table.column(axis.key)
        divisor, unit = fmt.scale(max(map(abs, values), default=0.0), column.unit)
        limits = [limit / divisor for row in rows for limit in data.limits_of(row[axis.key]) if limit is not None]
        sizes = [number / divisor for number in (*values, *axis.guides)]
        title = axis.title or column.title
        title = f"{title} ({unit})" if unit and unit not in title else title
        return cls(axis, magnitude(sizes, limits, log=axis.log, zero=axis.zero), divisor, title, padding)

    def options(self) -> dict[str, Any]:
        padding = {"padding": self.padding} if self.padding else {}
        return {"title": self.title, "scale": self.magnitude.scale(**padding), "axis": self.magnitude.axis()}

    def coordinate(self, row: Row) -> float:
        return (data.value_of(row[self.axis.key]) or 0.0) / self.divisor

    def limits(self, row: Row) -> list[float | None]:
        limits = data.limits_of(row[self.axis.key])
        return [self.magnitude.limit(None if limit is None else limit / self.divisor) for limit in limits]


class _Points:
    """The rows of a table that have both coordinates, as records of marks, with their axes and colours."""

    def __init__(
        self,
        table: Table,
        axes: tuple[Axis, Axis],
        series: str,
        lines: Table | None = None,
        padding: int | None = None,
    ) -> None:
        alt = altair()
        self.rows = [row for row in table.rows if _known(row, *(axis.key for axis in axes))]
        self.scales = [_Scale.of(axis, table, self.rows, lines, padding) for axis in axes]
        self.series = series
        self.columns = data.shown_columns(table)
        self.colours = palette([str(row.get(series)) for row in [*self.rows, *(lines.rows if lines else ())]])
        self.channels = {"x": alt.X, "y": alt.Y}
        self.place = {
            name: channel(f"{name}:Q", **scale.options())
            for (name, channel), scale in zip(self.channels.items(), self.scales, strict=True)
        }
        self.records = [self._record(row) for row in self.rows]

    def coordinates(self, row: Row) -> dict[str, float]:
        return {name: scale.coordinate(row) for name, scale in zip("xy", self.scales, strict=True)}

    def _record(self, row: Row) -> dict[str, Any]:
        record = {"series": str(row.get(self.series)), "fill": 0.12 if row.get("noisy") else 1.0}
        for name, scale in zip("xy", self.scales, strict=True):
            record[name] = scale.coordinate(row)
            record[f"{name}_low"], record[f"{name}_high"] = scale.limits(row)
        return {**record, **data.mark(row, self.columns)}

    def guides(self) -> list[Any]:
        """Draw the dashed lines of both axes."""
        layers = []
        for name, scale in zip("xy", self.scales, strict=True):
            if scale.axis.guides:
                values = [{name: guide / scale.divisor} for guide in scale.axis.guides]
                channel = self.channels[name](f"{name}:Q", **scale.options())
                layers.append(data.chart_of(values).mark_rule(style=GUIDE).encode(**{name: channel}))
        return layers

    def ranges(self) -> list[Any]:
        """Draw the intervals of both directions."""
        alt = altair()
        layers = []
        for (name, other), scale in zip((("x", "y"), ("y", "x")), self.scales, strict=True):
            known = [dict(record) for record in self.records if record[f"{name}_low"] is not None]
            if known:
                far = {"x": alt.X2, "y": alt.Y2}[name](f"{name}_high:Q")
                near = self.channels[name](f"{name}_low:Q", **scale.options())
                ends = {name: near, f"{name}2": far, other: self.place[other]}
                rule = data.chart_of(known).mark_rule(style=RANGE)
                layers.append(rule.encode(**ends, opacity=data.faded(0.5)))
        return layers

    def spots(self, records: Sequence[Mapping[str, Any]]) -> list[names.Spot]:
        """Return where points lie, as shares of the plot, whose axes reach as far as the intervals do."""
        shares = []
        for name, scale in zip("xy", self.scales, strict=True):
            position = scale.magnitude.position
            keys = (name, f"{name}_low", f"{name}_high")
            places = [position(record[key]) for record in records for key in keys if record[key] is not None]
            low, span = min(places), (max(places) - min(places)) or 1.0
            shares.append([(position(record[name]) - low) / span for record in records])
        return list(zip(*shares, strict=True))


def _curves(lines: Table | None, points: _Points, colour: Any) -> list[Any]:
    """Join the rows of each series, dashed where they say so."""
    if not lines:
        return []
    alt = altair()
    records = [
        {
            "series": str(row.get(points.series)),
            "line": str(row.get("line", row.get(points.series))),
            "dash": [4, 3] if row.get("dashed") else [1, 0],
            **points.coordinates(row),
        }
        for row in lines.rows
    ]
    line = data.chart_of(records).mark_line(strokeWidth=1.6, opacity=0.8)
    dash = alt.StrokeDash("dash:N", scale=None)
    return [line.encode(**points.place, color=colour, detail=alt.Detail("line:N"), strokeDash=dash)]


def _names(points: _Points, key: str) -> list[Any]:
    """Write names beside points where they meet nothing, on as many as there is room for."""
    rows, records = points.rows, points.records
    lines: list[names.Line] = []
    for record, (x, y) in zip(records, points.spots(records), strict=True):
        low, high = (_moved(points, record, end) for end in ("low", "high"))
        if record["x_low"] is not None and record["x_high"] is not None:
            lines.append(((low[0], y), (high[0], y)))
        if record["y_low"] is not None and record["y_high"] is not None:
            lines.append(((x, low[1]), (x, high[1])))
    labels = [str(row.get(key) or "") for row in rows]
    order = [index for index, row in enumerate(rows) if row.get(key)]
    taken = names.line_boxes(lines)
    layers = []
    for name in names.place_names(points.spots(records), labels, order, _MOST_NAMES, taken):
        label = {**records[name.index], "label": labels[name.index], "from": name.from_px}
        text = data.chart_of([label]).transform_calculate(said=f"width >= {name.from_px} ? datum.label : ''")
        place = {
            "align": "right" if name.right else "left",
            "baseline": "middle",
            "dx": -names.ACROSS if name.right else names.ACROSS,
            "dy": name.down * names.DOWN,
        }
        encoding = {**points.place, "text": altair().Text("said:N"), "opacity": data.faded(left=0.5)}
        layers += [text.mark_text(style=style, **place).encode(**encoding) for style in (HALO, INK)]
    return layers


def _moved(points: _Points, record: Mapping[str, Any], end: str) -> names.Spot:
    """Return where a point would lie at an end of its intervals."""
    moved = {name: record[f"{name}_{end}"] for name in "xy" if record[f"{name}_{end}"] is not None}
    return points.spots([*points.records, {**record, **moved}])[-1]


def _corners(corners: Mapping[tuple[str, str], str]) -> list[Any]:
    alt = altair()
    layers = []
    for (across, down), words in corners.items():
        right, top = across == "right", down == "top"
        align, baseline = "right" if right else "left", "top" if top else "bottom"
        text = data.chart_of([{"said": words}]).mark_text(style=FAINT, align=align, baseline=baseline)
        x = alt.value(alt.ExprRef("width - 4")) if right else alt.value(4)
        y = alt.value(4) if top else alt.value(alt.ExprRef("height - 4"))
        layers.append(text.encode(x=x, y=y, text=alt.Text("said:N")))
    return layers

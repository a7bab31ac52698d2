"""Bars and dots: one line for each row of a table, or one for each of several series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from energyscope import format as fmt
from energyscope.reporting.charts import data
from energyscope.reporting.charts.scales import magnitude
from energyscope.reporting.charts.theme import GUIDE, HALO, HOLLOW, INK, PALE, RANGE, altair, palette
from energyscope.reporting.table import Row, Table

_ROW_PX, _DOT_PX, _SERIES_PX, _MARGIN_PX = 27, 22, 15, 8
_LETTER_PX = 6.7  # mean width of a letter of the labels
_NAMES_PX, _SHORT_NAMES_PX, _LEAST_BARS_PX = 220, 90, 60
Record = dict[str, Any]


@data.built_unchecked
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

    Rows may hold ``label`` (the text at the bar's end; else the value), ``noisy`` (drawn hollow) and ``colour``,
    which otherwise follows from the column ``colour``, by default the row's kind. With ``series``, rows of one
    name stand together, coloured by that column, with a legend. Whiskers are 95 % intervals; nothing is scaled to
    a sum. ``reference`` draws a line, as at "no change".
    """
    alt = altair()
    lines = _Lines(table, by, value, series)
    group = series or colour or "kind"
    colours = palette(str(row.get(group)) for row in lines.rows)
    records, ends = [], []
    for row in lines.rows:
        shared = {"name": str(row[by]), **lines.mark(row, colours[str(row.get(group))])}
        shared |= {"series": str(row[series])} if series else {}
        records += [{**shared, **segment} for segment in _segments(row, lines, work)]
        ends.append({**shared, **_end(row, lines)})
    guide = None if reference is None else reference / lines.divisor
    labels_px = _labels_px(ends)
    y = lines.y(beside=labels_px)
    x = {"scale": _scale_with_room(records, ends, guide or 0.0, labels_px), "axis": None}
    solid = data.chart_of(records).mark_bar(strokeWidth=1.3, cornerRadius=1)
    layers = [
        solid.encode(
            **y,
            **lines.paint(colours),
            x=alt.X("start:Q", **x),
            x2=alt.X2("end:Q"),
            strokeDash=alt.StrokeDash("dash:N", scale=None),
        ),
        *_whiskers(ends, y, **x),
        *_guide(guide, **x),
        *_labels(ends, y, halo=guide is not None, **x),
    ]
    return lines.chart(layers, records, _ROW_PX, 8)


@data.built_unchecked
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
    lines = _Lines(table, by, value, series)
    names = [str(row[series]) if series else str(row.get("kind", row[by])) for row in lines.rows]
    colours = palette(names)
    colours |= {str(row[series]): row["colour"] for row in lines.rows if series and row.get("colour")}
    values = [lines.size(row) for row in lines.rows]
    limits = [limit for row in lines.rows for limit in lines.limits(row)]
    axis = magnitude(values + ([reference] if reference else []), limits, log=log)
    records = []
    for row, name, size in zip(lines.rows, names, values, strict=True):
        low, high = map(axis.limit, lines.limits(row))
        fill = HOLLOW if row.get("noisy") else 1.0
        mark = {"name": str(row[by]), "series": name, "at": size, "low": low, "high": high, "fill": fill}
        records.append({**mark, **lines.mark(row, colours[name])})
    y = lines.y(grid=True)
    heading = title or (f"{lines.column.title} ({lines.unit})" if lines.unit else lines.column.title)
    points = data.chart_of(records).mark_point(size=46, filled=True, strokeWidth=1.4)
    x = alt.X("at:Q", title=heading, scale=axis.scale(), axis=axis.axis())
    layers = [
        *_guide(reference, title=heading),
        *_whiskers(records, y, title=heading),
        points.encode(**y, **lines.paint(colours), x=x),
    ]
    return lines.chart(layers, records, _DOT_PX, 6)


class _Lines:
    """The rows that have a value, each on the line of its name, or on that of its series within the name."""

    def __init__(self, table: Table, by: str, value: str, series: str) -> None:
        self.by, self.value, self.series = by, value, series
        self.rows = [row for row in table.rows if data.value_of(row.get(value)) is not None]
        self.column = table.column(value)
        self.columns = data.shown_columns(table)
        sizes = [abs(data.value_of(row[value]) or 0.0) for row in self.rows]
        self.divisor, self.unit = fmt.scale(max(sizes, default=0.0), self.column.unit)

    def size(self, row: Row) -> float:
        """Return a row's value in the chart's unit."""
        return (data.value_of(row[self.value]) or 0.0) / self.divisor

    def limits(self, row: Row) -> list[float | None]:
        """Return the limits of a row's value in the chart's unit."""
        return [None if limit is None else limit / self.divisor for limit in data.limits_of(row[self.value])]

    def mark(self, row: Row, colour: str) -> Record:
        """Return what each mark of a row holds: its own colour or else this one, and its tooltip."""
        return {"colour": row.get("colour") or colour, **data.mark(row, self.columns)}

    def y(self, *, grid: bool = False, beside: float = 0.0) -> dict[str, Any]:
        """Return the encoding of the lines, in the order of the rows.

        Names are cut short where a narrow place would otherwise leave no room for bars and ``beside`` them,
        the labels' width (CSS pixels).
        """
        alt = altair()
        left = f"containerSize()[0] - {beside + _LEAST_BARS_PX:.0f}"
        limit = alt.ExprRef(f"clamp({left}, {_SHORT_NAMES_PX}, {_NAMES_PX})")
        axis = alt.Axis(ticks=False, domain=False, labelPadding=8, labelLimit=limit, grid=grid)
        y = {"y": alt.Y("name:N", sort=self._names(self.by), title=None, axis=axis)}
        return {**y, "yOffset": alt.YOffset("series:N", sort=self._names(self.series))} if self.series else y

    def paint(self, colours: Mapping[str, str]) -> dict[str, Any]:
        """Colour marks by their records; series have a legend, which needs a scale of their names."""
        alt = altair()
        colour = alt.Color("colour:N", scale=None)
        if self.series:
            colour = alt.Color("series:N", scale=data.colour_scale(colours), legend=data.legend(list(colours)))
        return {
            "color": colour,
            "fillOpacity": alt.FillOpacity("fill:Q", scale=None),
            "stroke": alt.Stroke("colour:N", scale=None),
            "opacity": data.faded(),
            "tooltip": data.tooltip(self.columns),
        }

    def chart(self, layers: Sequence[Any], records: Sequence[Record], row_px: float, gap_px: float) -> Any:
        """Return the chart of layers: a line for each name, or lines of its series with a gap between names."""
        pitch = _SERIES_PX * len(self._names(self.series)) + gap_px if self.series else row_px
        return data.layered(layers, records, pitch * len(self._names(self.by)) + _MARGIN_PX)

    def _names(self, key: str) -> list[str]:
        return list(dict.fromkeys(str(row[key]) for row in self.rows))


def _segments(row: Row, lines: _Lines, work: str | None) -> list[Record]:
    """Return a bar in its two parts where both are known and parts of it, else in one piece."""
    whole, part = lines.size(row), data.value_of(row.get(work)) if work else None
    noisy = bool(row.get("noisy"))
    solid, dash = (HOLLOW if noisy else 1.0), ([4, 3] if noisy else [1, 0])
    if part is None or not 0 <= part / lines.divisor <= whole:
        return [{"start": min(whole, 0.0), "end": max(whole, 0.0), "fill": solid, "dash": dash}]
    middle = part / lines.divisor
    return [
        {"start": 0.0, "end": middle, "fill": solid, "dash": dash},
        {"start": middle, "end": whole, "fill": HOLLOW / 2 if noisy else PALE, "dash": dash},
    ]


def _end(row: Row, lines: _Lines) -> Record:
    low, high = lines.limits(row)
    end = max(limit for limit in (lines.size(row), high, 0.0) if limit is not None)
    label = row.get("label", fmt.quantity(data.value_of(row[lines.value]), lines.column.unit))
    return {"low": low, "high": high, "end": end, "label": label}


def _whiskers(records: Sequence[Record], y: Mapping[str, Any], **options: Any) -> list[Any]:
    known = [dict(record) for record in records if record["low"] is not None and record["high"] is not None]
    if not known:
        return []
    x = {"x": altair().X("low:Q", **options), "x2": altair().X2("high:Q")}
    return [data.chart_of(known).mark_rule(style=RANGE).encode(**y, **x, opacity=data.faded(0.8))]


def _guide(value: float | None, **options: Any) -> list[Any]:
    if value is None:
        return []
    return [data.chart_of([{"at": value}]).mark_rule(style=GUIDE).encode(x=altair().X("at:Q", **options))]


def _labels(ends: list[Record], y: Mapping[str, Any], *, halo: bool, **options: Any) -> Iterator[Any]:
    """Yield the labels at the bars' ends, with a halo where a line may cross them."""
    encoding = {
        "x": altair().X("end:Q", **options),
        "text": altair().Text("label:N"),
        "opacity": data.faded(left=0.5),
    }
    for style in (HALO, INK) if halo else (INK,):
        text = data.chart_of(ends).mark_text(style=style, align="left", baseline="middle", dx=6)
        yield text.encode(**y, **encoding)


def _labels_px(ends: Sequence[Record]) -> float:
    """Return the width of the longest label at the bars' ends (CSS pixels)."""
    return max((len(str(end["label"])) for end in ends), default=0) * _LETTER_PX + 12


def _scale_with_room(records: Sequence[Record], ends: Sequence[Record], reference: float, labels_px: float) -> Any:
    """Leave room for the labels at the bars' ends, whatever the width."""
    alt = altair()
    least = min([0.0, *(end["low"] or 0.0 for end in ends), *(record["start"] for record in records)])
    most = max([*(end["end"] for end in ends), reference])
    span = f"({most:.6g} - ({least:.6g}))"
    right = alt.ExprRef(f"{least:.6g} + {span} * width / max(width - {labels_px:.0f}, 40)")
    return alt.Scale(domainMin=least, domainMax=right, nice=False, zero=False)

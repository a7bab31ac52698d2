"""The charts of a comparison, drawn of plain records; verdicts and runs have a colour and a shape each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.reporting.charts import grades, theme
from energyscope.reporting.charts.benchmark import PLAIN
from energyscope.runs.intervals import Interval

VERDICT_MARKS = {  # neither is good by itself: more tokens for a joule is, more joules is not
    "less": ("#0a7abf", "triangle-down"),
    "more": ("#d55e00", "triangle-up"),
    "no difference shown": ("#7b8794", "circle"),
    "not comparable": ("#b08a2e", "diamond"),
    "cannot be told": ("#9b6fb0", "square"),
}
RUN_COLOURS = ("#5f6c79", "#0a7abf", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#8b6bb5", "#56b4e9")
RUN_SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "triangle-right", "stroke")
_LEGEND_PX, _LETTER_PX, _SYMBOL_PX = 330, 6.7, 30
_PITCH = 27
_LABELS = 190
_FAR = 4.0  # a factor between ratios, from which their axis is logarithmic


@dataclass(frozen=True)
class Row:
    """A value in a row of its own, with what its tooltip says; ``weak`` ones are hollow."""

    label: str
    value: Interval
    verdict: str
    said: str
    weak: bool = False


@dataclass(frozen=True)
class Bar:
    """One run's value of one item."""

    item: str
    series: str
    value: Interval
    said: str
    weak: bool = False


def columns_of(names: Sequence[str], beside: Sequence[str] = ()) -> int:
    """Return in how many columns a legend has room on a telephone, where ``beside`` stand left of it."""
    longest = max((min(len(name), 38) for name in names), default=1)
    left = min(max((len(label) for label in beside), default=0) * _LETTER_PX, _LABELS)
    return max(1, min(4, int((_LEGEND_PX - left) / (longest * _LETTER_PX + _SYMBOL_PX))))


def run_colour(place: int) -> str:
    """Return the colour of a run by its place; the baseline's is grey."""
    return RUN_COLOURS[place % len(RUN_COLOURS)]


def forest(rows: Sequence[Row], title: str, description: str) -> Any:
    """Draw each row's ratio as a dot with its interval, beside a line at 1, where nothing differs."""
    alt = theme.altair()
    size = _ratios(ends_of(row.value for row in rows))
    x = alt.X("value:Q", title=title, scale=size.scale(), axis=axis_of(size))
    base = alt.Chart(theme.rows(_row_records(rows))).encode(
        y=_y([row.label for row in rows]), color=_verdicts(rows)
    )
    line = alt.Chart(theme.rows([{"at": 1.0}])).mark_rule(style=theme.FAINT_LINE).encode(x="at:Q")
    layers = [line, *_across(base.mark_rule(strokeWidth=2), rows, title), *_dots(base, rows, x)]
    return theme.finish(alt.layer(*layers), description, _PITCH * len(rows) + 46)


def _ratios(ends: Sequence[float]) -> theme.Magnitude:
    """Return an axis for ratios and 1: logarithmic where they lie far apart."""
    values = [*ends, 1.0]
    if min(values) <= 0 or max(values) / min(values) <= _FAR:
        return theme.Magnitude("linear", None)
    return theme.Magnitude("log", theme.log_ticks(min(values), max(values)))


def changes(rows: Sequence[Row], title: str, description: str) -> Any:
    """Draw each row's change as a bar from zero, with its interval: hollow without a verdict, dashed if weak."""
    alt = theme.altair()
    x = alt.X(
        "value:Q", title=title, scale=alt.Scale(nice=True, padding=10), axis=alt.Axis(tickCount=5, format=PLAIN)
    )
    base = alt.Chart(theme.rows(_row_records(rows))).encode(y=_y([row.label for row in rows]))
    colours = _verdicts(rows)
    bars = base.mark_bar(height={"band": 0.62}, strokeWidth=1.4).encode(
        x=x,
        color=colours,
        **grades.painted(alt.Stroke("paint:N", scale=None)),
        tooltip=_tips("component", "change"),
    )
    line = alt.Chart(theme.rows([{"at": 0.0}])).mark_rule(style=theme.FAINT_LINE).encode(x="at:Q")
    layers = [bars, line, *_across(base.mark_rule(style=theme.INK_LINE), rows, title)]
    return theme.finish(alt.layer(*layers), description, 22 * len(rows) + 46)


def grouped(bars: Sequence[Bar], series: Sequence[str], title: str, description: str) -> Any:
    """Draw a bar for each item and run with its interval, runs beside each other; weak ones hollow and dashed."""
    alt = theme.altair()
    items = list(dict.fromkeys(bar.item for bar in bars))
    records = [
        {"item": bar.item, "series": bar.series, "value": bar.value.value, "low": bar.value.low,
         "high": bar.value.high, "said": bar.said, "paint": run_colour(series.index(bar.series)),
         **grades.paint(hollow=bar.weak)}
        for bar in bars
    ]  # fmt: skip
    offset = alt.YOffset("series:N", sort=list(series), scale=alt.Scale(domain=list(series), paddingInner=0.12))
    scale = alt.Scale(domain=list(series), range=[run_colour(at) for at in range(len(series))])
    colour = alt.Color("series:N", scale=scale, legend=legend(series, items))
    base = alt.Chart(theme.rows(records)).encode(y=_y(items), yOffset=offset)
    drawn = base.mark_bar(strokeWidth=1).encode(
        x=alt.X("value:Q", title=title, axis=alt.Axis(tickCount=5, format=PLAIN)),
        color=colour,
        **grades.painted(alt.Stroke("paint:N", scale=None)),
        tooltip=[
            alt.Tooltip("item:N", title="part"),
            alt.Tooltip("series:N", title="run"),
            alt.Tooltip("said:N", title="share"),
        ],
    )
    layers = [drawn, *_across(base.mark_rule(style=theme.INK_LINE), bars, title)]
    return theme.finish(alt.layer(*layers), description, (13 * len(series) + 8) * len(items) + 56)


def _row_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {"item": row.label, "value": row.value.value, "low": row.value.low, "high": row.value.high,
         "verdict": row.verdict, "said": row.said,
         "paint": VERDICT_MARKS[row.verdict][0], "weak": _hollow(row), **_paint(row)}
        for row in rows
    ]  # fmt: skip


def _paint(row: Row) -> dict[str, Any]:
    """Return how a bar is painted: a dashed outline says "below grade C", and nothing else."""
    return {**grades.paint(hollow=_hollow(row)), "dash": grades.paint(hollow=row.weak)["dash"]}


def _dots(base: Any, rows: Sequence[Row], x: Any) -> list[Any]:
    alt = theme.altair()
    known = list(dict.fromkeys(row.verdict for row in rows))
    shapes = alt.Scale(domain=known, range=[VERDICT_MARKS[name][1] for name in known])
    placed = base.encode(
        x=x,
        shape=alt.Shape("verdict:N", scale=shapes, legend=legend(known, [row.label for row in rows])),
        tooltip=_tips("quantity", "other / baseline"),
    )
    return filled_and_hollow(placed, [_hollow(row) for row in rows], 85)


def filled_and_hollow(placed: Any, weak: Sequence[bool], size: int) -> list[Any]:
    """Return the points, those that are weak hollow."""
    return [
        placed.transform_filter(f"datum.weak === {json.dumps(which)}").mark_point(
            filled=not which, size=size, strokeWidth=1.8, opacity=1
        )
        for which in (False, True)
        if which in weak
    ]


def _across(mark: Any, items: Sequence[Row | Bar], title: str) -> list[Any]:
    """Return the intervals of values along x; nothing where none is known."""
    if not any(one.value.known for one in items):
        return []
    drawn = mark.transform_filter("datum.low !== null && datum.high !== null")
    return [drawn.encode(x=theme.altair().X("low:Q", title=title), x2="high:Q")]


def _hollow(row: Row) -> bool:
    return row.weak or row.verdict in {"not comparable", "cannot be told"}


def _tips(label: str, value: str) -> list[Any]:
    alt = theme.altair()
    return [
        alt.Tooltip("item:N", title=label),
        alt.Tooltip("said:N", title=value),
        alt.Tooltip("verdict:N", title="verdict"),
    ]


def _verdicts(rows: Sequence[Row]) -> Any:
    """Return the colours of the verdicts that occur, with a legend."""
    alt = theme.altair()
    known = list(dict.fromkeys(row.verdict for row in rows))
    scale = alt.Scale(domain=known, range=[VERDICT_MARKS[name][0] for name in known])
    return alt.Color("verdict:N", scale=scale, legend=legend(known, [row.label for row in rows]))


def legend(names: Sequence[str], beside: Sequence[str] = ()) -> Any:
    return theme.altair().Legend(orient="top", columns=columns_of(names, beside), symbolOpacity=1, title=None)


def _y(items: Sequence[str]) -> Any:
    alt = theme.altair()
    axis = alt.Axis(ticks=False, domain=False, grid=False, labelPadding=6, labelLimit=_LABELS)
    return alt.Y("item:N", sort=list(items), title=None, axis=axis)


def axis_of(size: theme.Magnitude) -> Any:
    alt = theme.altair()
    return alt.Axis(values=size.ticks, format=PLAIN) if size.ticks else alt.Axis(tickCount=5, format=PLAIN)


def ends_of(items: Any) -> list[float]:
    return [end for item in items for end in (item.value, item.low, item.high) if end is not None]

"""One chart for the page: points with intervals, the laws' curves, a band; and its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from energyscope.reporting import text
from energyscope.reporting.charts import grades, theme
from energyscope.reporting.charts.benchmark import PLAIN
from energyscope.runs.intervals import Interval

SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "stroke")
SERIES_COLOURS = (*theme.METHOD_COLOURS, "#8b6bb5", "#56b4e9", "#7b8794")
HOLLOW = " Hollow: below grade C."
HOLLOW_WHOLE = " Hollow: below grade C (the grades of parts are on the runs' own pages)."
BAND_COLOUR = "#009e73"
_FAR = 5.0  # a factor between the values, from which an axis is logarithmic
_LEGEND_PX, _LETTER_PX, _SYMBOL_PX = 330, 6.7, 30
_DASH = [3, 2]  # of a hollow point: one of a bar would not fit around it
_PAPER = (20, 5.0)  # size of a disc in the paper's colour, and the width of the outline that makes it
_MOST_TICKS, _FEWEST_TICKS = 10, 3
_FINE = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


@dataclass(frozen=True)
class Dot:
    """A value of a series at ``x``, with what its tooltip says; those of one ``line`` are joined.

    ``weak``: it is below grade C, and drawn hollow.
    """

    series: str
    x: float
    y: Interval
    said: str
    at: str
    line: str = ""
    weak: bool = False


@dataclass(frozen=True)
class Curve:
    """What a law says, in the units of the axes."""

    series: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


@dataclass(frozen=True)
class Segment:
    """A value that holds from one x to another, with its interval."""

    series: str
    start: float
    end: float
    y: Interval
    said: str


@dataclass(frozen=True)
class Plot:
    """What a chart draws. ``x`` is logarithmic: to base 10, or with a tick at each value.

    ``marks`` are rings around places, with what they mark; ``names`` are words above places; ``y_limits`` is what
    a linear axis is cut to.
    """

    titles: tuple[str, str]
    colours: dict[str, str]
    dots: Sequence[Dot] = ()
    curves: Sequence[Curve] = ()
    segments: Sequence[Segment] = ()
    x: Literal["log", "doublings", "places"] = "log"
    y: Literal["auto", "linear", "log"] = "auto"
    joined: bool = False
    band: tuple[float, float] | None = None
    reference: float | None = None
    marks: Sequence[tuple[str, float, float, str]] = ()
    names: Sequence[tuple[float, float, str]] = ()
    y_limits: tuple[float, float] | None = None
    height: float = 280
    shapes: dict[str, str] = field(default_factory=dict)


def palette(names: Sequence[str]) -> dict[str, str]:
    """Return a colour for each of some names that are no components."""
    return {name: SERIES_COLOURS[index % len(SERIES_COLOURS)] for index, name in enumerate(names)}


def hollow_said(dots: Sequence[Dot], said: str = HOLLOW) -> str:
    """Return what a caption says of hollow points; nothing where there is none."""
    return said if any(dot.weak for dot in dots) else ""


def flat_said(names: Sequence[str]) -> str:
    """Return what a caption says of those whose law is not drawn, as its k may be 0; nothing for none."""
    return f" No line of the two-term law, as the interval of k holds 0: {text.listed(names, 6)}." if names else ""


def draw(plot: Plot, description: str) -> Any:
    """Draw a plot."""
    alt = theme.altair()
    y, domain = _y(plot)
    x = _x(plot)
    names = list(plot.colours)
    legend = alt.Legend(orient="top", columns=_columns(names), symbolOpacity=1, title=None)
    scale = alt.Scale(domain=names, range=[plot.colours[name] for name in names])
    shown = legend if len(names) > 1 else None
    colour = alt.Color("series:N", scale=scale, legend=shown)
    base = alt.Chart(theme.rows(_records(plot.dots, domain))).encode(x=x, color=colour)
    layers = [*_behind(plot), *_curves(plot, x, y, colour)]
    if plot.joined:
        layers.append(base.mark_line(strokeWidth=1.6, opacity=0.7, clip=True).encode(y=y, detail="line:N"))
    layers += _segments(plot, x, y, colour, domain)
    if plot.dots:
        if any(dot.y.known for dot in plot.dots):
            known = base.transform_filter("datum.low !== null && datum.high !== null")
            bars = known.mark_rule(strokeWidth=2, opacity=0.8, clip=True)
            layers.append(bars.encode(y=alt.Y("low:Q"), y2="high:Q"))
        shapes = [plot.shapes.get(name) or SHAPES[index % len(SHAPES)] for index, name in enumerate(names)]
        placed = base.encode(
            y=y,
            shape=alt.Shape("series:N", scale=alt.Scale(domain=names, range=shapes), legend=shown),
            tooltip=[alt.Tooltip("series:N", title="of"), alt.Tooltip("at:N", title="at"),
                     alt.Tooltip("said:N", title="value")],
        )  # fmt: skip
        layers += _points(placed, alt.Chart(base.data).encode(x=x, y=y), [dot.weak for dot in plot.dots])
    return theme.finish(alt.layer(*layers, *_above(plot, x, y, colour)), description, plot.height)


def _points(placed: Any, plain: Any, weak: Sequence[bool]) -> list[Any]:
    """Return the points; those below grade C are hollow with a dashed outline, and no line shows through them."""
    solid = placed.mark_point(filled=True, size=55, opacity=1, clip=True)
    if not any(weak):
        return [solid]
    alone = placed.transform_filter("datum.weak === true")
    outlined = alone.mark_point(filled=False, size=80, opacity=1, strokeWidth=1.6, strokeDash=_DASH, clip=True)
    hollow = alone.mark_point(filled=True, size=80, opacity=grades.HOLLOW, clip=True)
    paper = plain.transform_filter("datum.weak === true").mark_point(
        style=theme.CUT, filled=True, fillOpacity=0, size=_PAPER[0], strokeWidth=_PAPER[1], opacity=1, clip=True
    )
    points = [paper, hollow, outlined]
    return points if all(weak) else [solid.transform_filter("datum.weak !== true"), *points]


def _records(dots: Sequence[Dot], domain: tuple[float, float] | None) -> list[dict[str, Any]]:
    return [
        {"series": dot.series, "x": dot.x, "y": dot.y.value, "said": dot.said, "at": dot.at,
         "line": f"{dot.series}|{dot.line}", "high": dot.y.high,
         "low": theme.on_log(dot.y.low, domain) if domain else dot.y.low, **({"weak": True} if dot.weak else {})}
        for dot in dots
    ]  # fmt: skip


def _values(plot: Plot) -> list[Interval]:
    curves = [Interval(value) for curve in plot.curves for _, value in curve.points]
    return [*(dot.y for dot in plot.dots), *(one.y for one in plot.segments), *curves]


def _y(plot: Plot) -> tuple[Any, tuple[float, float] | None]:
    """Return the vertical axis, and its ends where it is logarithmic."""
    alt = theme.altair()
    items = _values(plot)
    values = [item.value for item in items]
    positive = min(values, default=0.0) > 0
    log = plot.y == "log" or (plot.y == "auto" and positive and max(values) / min(values) > _FAR)
    if not log or not positive:
        limits = plot.y_limits
        if limits is None and min(values, default=-1.0) >= 0 and plot.names:
            limits = (0.0, max(end for one in items for end in (one.value, one.high) if end is not None) * 1.22)
        domain = alt.Scale(domain=list(limits), nice=False) if limits else alt.Scale(zero=True, nice=True)
        axis = alt.Axis(tickCount=5, format=PLAIN)
        return alt.Y("y:Q", title=plot.titles[1], scale=domain, axis=axis), None
    held = [plot.reference] if plot.reference else []
    low, high = theme.log_domain(values + held, [end for one in items for end in (one.low, one.high)])
    room = (high / low) ** (0.14 if plot.names else 0.04)
    scale = alt.Scale(type="log", domain=[low / 1.1, high * max(room, 1.1)], nice=False)
    axis = alt.Axis(values=_ticks(low, high), format=PLAIN, labelOverlap="greedy")
    return alt.Y("y:Q", title=plot.titles[1], scale=scale, axis=axis), (low, high)


def _x(plot: Plot) -> Any:
    alt = theme.altair()
    places = [dot.x for dot in plot.dots] + [end for one in plot.segments for end in (one.start, one.end)]
    places += [place for curve in plot.curves for place, _ in curve.points]
    if plot.x == "doublings":
        ticks = _thinned(sorted(set(places)))
        scale = alt.Scale(type="log", base=2, nice=False, padding=18)
        axis = alt.Axis(values=ticks, format=PLAIN, grid=False, labelOverlap=True)
    elif plot.x == "places":
        room = max(1.3, (max(places) / min(places)) ** 0.18)
        scale = alt.Scale(type="log", domain=[min(places) / room, max(places) * room], nice=False)
        axis = alt.Axis(values=sorted(set(places)), format=",.2~f", grid=False, labelOverlap=True)
    else:
        scale = alt.Scale(type="log", domain=[min(places) / 1.25, max(places) * 1.25], nice=False)
        ticks = _ticks(min(places) / 1.2, max(places) * 1.2)
        axis = alt.Axis(values=ticks, format=PLAIN, grid=False, labelOverlap="greedy", labelSeparation=5)
    return alt.X("x:Q", title=plot.titles[0], scale=scale, axis=axis)


def _ticks(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis: those of the theme, finer ones where these are fewer than three."""
    ticks = theme.log_ticks(low, high)
    if len(ticks) >= _FEWEST_TICKS:
        return ticks
    powers = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    return [tick for power in powers for factor in _FINE if low <= (tick := power * factor) <= high]


def _thinned(ticks: list[float]) -> list[float]:
    """Return at most ten of the ticks, evenly, with the last one."""
    step = math.ceil(len(ticks) / _MOST_TICKS)
    return ticks[::-1][::step][::-1]


def _columns(names: Sequence[str]) -> int:
    """Return in how many columns a legend has room on a telephone."""
    longest = max((len(name) for name in names), default=1)
    return max(1, min(4, int(_LEGEND_PX / (longest * _LETTER_PX + _SYMBOL_PX))))


def _behind(plot: Plot) -> list[Any]:
    """Return what lies under everything: the band and the line of reference."""
    alt = theme.altair()
    layers = []
    if plot.band:
        band = alt.Chart(theme.rows([{"low": plot.band[0], "high": plot.band[1]}]))
        layers.append(band.mark_rect(opacity=0.13, color=BAND_COLOUR).encode(y="low:Q", y2="high:Q"))
    if plot.reference is not None:
        line = alt.Chart(theme.rows([{"y": plot.reference}])).mark_rule(style=theme.FAINT_LINE)
        layers.append(line.encode(y="y:Q"))
    return layers


def _curves(plot: Plot, x: Any, y: Any, colour: Any) -> list[Any]:
    layers = []
    for dashed in (False, True):
        records = [
            {"series": curve.series, "x": place, "y": value}
            for curve in plot.curves
            if curve.dashed == dashed
            for place, value in curve.points
        ]
        if records:
            dashes = [5, 4] if dashed else [1, 0]
            line = theme.altair().Chart(theme.rows(records))
            mark = line.mark_line(strokeWidth=1.5, strokeDash=dashes, opacity=0.85, clip=True)
            layers.append(mark.encode(x=x, y=y, color=colour))
    return layers


def _segments(plot: Plot, x: Any, y: Any, colour: Any, domain: tuple[float, float] | None) -> list[Any]:
    if not plot.segments:
        return []
    alt = theme.altair()
    records = [
        {"series": one.series, "x": one.start, "end": one.end, "middle": math.sqrt(one.start * one.end),
         "y": one.y.value, "high": one.y.high, "said": one.said,
         "low": theme.on_log(one.y.low, domain) if domain else one.y.low}
        for one in plot.segments
    ]  # fmt: skip
    base = alt.Chart(theme.rows(records)).encode(color=colour)
    level = base.mark_rule(strokeWidth=3, opacity=0.9, clip=True).encode(
        x=x, x2="end:Q", y=y, tooltip=[alt.Tooltip("series:N", title="of"), alt.Tooltip("said:N", title="value")]
    )
    known = base.transform_filter("datum.low !== null && datum.high !== null")
    bars = known.mark_rule(strokeWidth=1.3, opacity=0.6, clip=True)
    return [bars.encode(x=alt.X("middle:Q"), y=alt.Y("low:Q"), y2="high:Q"), level]


def _above(plot: Plot, x: Any, y: Any, colour: Any) -> list[Any]:
    """Return what lies above everything: rings around marked points, and names."""
    alt = theme.altair()
    layers = []
    if plot.marks:
        records = [{"series": name, "x": place, "y": at, "word": word} for name, place, at, word in plot.marks]
        base = alt.Chart(theme.rows(records)).encode(x=x, y=y)
        layers.append(base.mark_point(filled=False, size=260, strokeWidth=2, opacity=1).encode(color=colour))
    if plot.names:
        records = [{"x": place, "y": at, "word": word} for place, at, word in plot.names]
        base = alt.Chart(theme.rows(records)).encode(x=x, y=y)
        layers.append(base.mark_text(style=theme.FAINT_TEXT, dy=-14).encode(text="word:N"))
    return layers

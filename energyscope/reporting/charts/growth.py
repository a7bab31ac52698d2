"""The energy of a decode step against its context, a line for each thing that it is spent on."""

from __future__ import annotations

import math
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.charts.benchmark import PLAIN
from energyscope.reporting.data.growth import ATTENTION, CACHE, CORE, MLP, PROJECTIONS, REST, STEP, Growth

_FAR = 5.0  # a factor between the lines
_APART = 0.006  # of the axis, between the intervals of two groups at one context
_COLOURS = {
    STEP: theme.colour("model"),
    CORE: theme.colour("attention"),
    ATTENTION: theme.colour("attention"),
    CACHE: theme.colour("attention.cache"),
    PROJECTIONS: theme.colour("attention.key"),
    MLP: theme.colour("mlp"),
    REST: theme.colour("norm"),
}
_SHAPES = {
    STEP: "triangle-down", CORE: "circle", ATTENTION: "circle", CACHE: "diamond", PROJECTIONS: "square",
    MLP: "triangle-up", REST: "cross",
}  # fmt: skip


def growth(found: Growth, description: str, word: str) -> Any:
    """Draw a line with intervals for each group and for the whole step; contexts lie on a logarithmic axis.

    Where energies do as well, an interval that reaches 0 begins at the axis' lower end.
    """
    alt = theme.altair()
    points = [*found.whole, *found.points]
    divisor, unit = text.scale_of(max(point.energy.value for point in points), "mJ")
    names = [STEP, *found.groups]
    apart = _APART * math.log2(max(point.context for point in points) / min(point.context for point in points))
    values = [point.energy.value / divisor for point in points]
    ends = [end for point in points for end in (point.energy.low, point.energy.high) if end is not None]
    size = _size(values)
    domain = theme.log_domain(values, [end / divisor for end in ends]) if size.type == "log" else None
    records = [
        {
            "group": point.group,
            "context": point.context,
            "at": point.context * 2 ** (apart * names.index(point.group)),
            "value": point.energy.value / divisor,
            "low": _low(point.energy.low, divisor, domain),
            "high": None if point.energy.high is None else point.energy.high / divisor,
            "said": text.with_limits(point.energy, "mJ"),
        }
        for point in points
    ]
    colours = alt.Scale(domain=names, range=[_COLOURS[name] for name in names])
    shapes = alt.Scale(domain=names, range=[_SHAPES[name] for name in names])
    legend = alt.Legend(orient="top", columns=3, symbolOpacity=1, title=None)
    ticks = theme.log_ticks(*domain) if domain else size.ticks
    axis = alt.Axis(values=ticks, format=PLAIN) if ticks else alt.Axis(tickCount=5, format=PLAIN)
    if domain:
        scale = alt.Scale(type="log", domain=[domain[0] / 1.1, domain[1] * 1.1], nice=False)
    else:
        scale = size.scale() if size.type != "linear" else alt.Scale(zero=True, nice=True)
    y = alt.Y("value:Q", title=f"{word} per step ({unit})", scale=scale, axis=axis)
    contexts = sorted({point.context for point in points})
    base = alt.Chart(theme.rows(records)).encode(
        x=alt.X(
            "at:Q",
            title="Tokens in the cache",
            scale=alt.Scale(type="log", base=2, nice=False, padding=16),
            axis=alt.Axis(values=contexts, format=",d", grid=False, labelOverlap=True),
        ),
        color=alt.Color("group:N", scale=colours, legend=legend),
    )
    layers = [base.mark_line(strokeWidth=1.8, opacity=0.75).encode(y=y)]
    if any(point.energy.known for point in points):
        bars = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=2)
        layers.append(bars.encode(y=alt.Y("low:Q"), y2="high:Q"))
    marks = base.mark_point(filled=True, size=75, opacity=1).encode(
        y=y,
        shape=alt.Shape("group:N", scale=shapes, legend=legend),
        tooltip=[alt.Tooltip("group:N"), alt.Tooltip("context:Q", format=",d"),
                 alt.Tooltip("said:N", title="energy per step")],
    )  # fmt: skip
    return theme.finish(alt.layer(*layers, marks), description, 280)


def _size(values: list[float]) -> theme.Magnitude:
    """Choose a logarithmic axis earlier than other charts do: what grows most is the smallest to begin with."""
    low, high = min(values), max(values)
    if low > 0 and high / low > _FAR:
        return theme.Magnitude("log", theme.log_ticks(low, high))
    return theme.magnitude(values)


def _low(limit: float | None, divisor: float, domain: tuple[float, float] | None) -> float | None:
    """Return where an interval is drawn from: on a logarithmic axis, no lower than where that begins."""
    low = None if limit is None else limit / divisor
    return theme.on_log(low, domain) if domain else low

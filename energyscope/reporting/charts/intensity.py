"""Power against arithmetic intensity: what each kind of component draws for how much work per byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.charts.benchmark import PLAIN
from energyscope.reporting.data.intensity import IntensityPoint

_SHAPES = ("circle", "diamond", "square", "triangle-up", "cross")
_SIDE_BY_SIDE = 20  # characters of a name beyond which two of them do not fit on a telephone
_AREA = (40.0, 900.0)  # of the smallest and of the largest mark


def intensity(points: Sequence[IntensityPoint], description: str, word: str) -> Any:
    """Draw a mark for each kind in each moment: its size is energy, its shape the moment, its colour the kind."""
    alt = theme.altair()
    moments = list(dict.fromkeys(point.moment for point in points))
    kinds = list(dict.fromkeys(point.kind for point in points))
    most = max(point.energy.value for point in points)
    records = [
        {
            "kind": point.kind,
            "colour": theme.colour(point.kind),
            "moment": point.moment,
            "intensity": point.intensity,
            "power": point.power_w.value,
            "low": point.power_w.low,
            "high": point.power_w.high,
            "area": _AREA[0] + (_AREA[1] - _AREA[0]) * point.energy.value / most,
            "said": text.with_limits(point.energy, "mJ"),
            "watts": text.with_limits(point.power_w, "W"),
            "per": f"{text.number(point.intensity)} FLOP/byte",
        }
        for point in sorted(points, key=lambda point: -point.energy.value)  # small ones stay visible
    ]
    ends = [point.intensity for point in points]
    x = alt.X(
        "intensity:Q",
        title="FLOPs per byte of the least traffic",
        scale=alt.Scale(type="log", domain=[min(ends) / 1.6, max(ends) * 1.6], nice=False),
        axis=alt.Axis(format=PLAIN, values=_ticks(min(ends), max(ends)), labelOverlap=True),
    )
    y = alt.Y("power:Q", title="Power (W)", scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=5))
    colours = alt.Scale(domain=kinds, range=[theme.colour(kind) for kind in kinds])
    legend = alt.Legend(orient="bottom", columns=2, symbolType="circle")
    base = alt.Chart(theme.rows(records)).encode(x=x)
    rules = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1.5)
    rules = rules.encode(color=alt.Color("colour:N", scale=None), opacity=theme.faded(0.6))
    marks = base.mark_point(strokeWidth=1.6).encode(
        y=y,
        fill=alt.Fill("kind:N", title=None, scale=colours, legend=legend),
        stroke=alt.Stroke("colour:N", scale=None),
        fillOpacity=alt.value(0.35),  # marks that lie on each other stay apart
        opacity=theme.faded(),
        size=alt.Size("area:Q", scale=None, legend=None),
        shape=alt.Shape(
            "moment:N",
            title=None,
            scale=alt.Scale(domain=moments, range=[_SHAPES[i % len(_SHAPES)] for i in range(len(moments))]),
            legend=alt.Legend(orient="top", columns=_columns(moments), symbolOpacity=1,
                              symbolFillColor=theme.colour("model"), symbolStrokeWidth=0),
        ),
        tooltip=["kind:N", "moment:N", alt.Tooltip("said:N", title=word.lower()),
                 alt.Tooltip("watts:N", title="power"), alt.Tooltip("per:N", title="intensity")],
    )  # fmt: skip
    layers = alt.layer(rules.encode(y=alt.Y("low:Q"), y2="high:Q"), marks)
    return theme.finish(theme.linked(layers, kinds), description, min(320, 130 + 25 * len(points)))


def _columns(names: Sequence[str]) -> int:
    """Return in how many columns a legend shows its names in full, on a telephone as well."""
    return 2 if max(map(len, names)) <= _SIDE_BY_SIDE else 1


def _ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten, or of two where there are few of those, that lie about these ends."""
    tens = [10.0**exponent for exponent in range(-4, 7)]
    inside = [tick for tick in tens if low / 1.6 <= tick <= high * 1.6]
    twos = [2.0**exponent for exponent in range(-12, 20)]
    return inside if len(inside) > 2 else [tick for tick in twos if low / 1.6 <= tick <= high * 1.6]

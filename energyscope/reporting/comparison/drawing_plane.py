"""A plane with a point for each run: one quantity against another, with both intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.reporting.charts import theme
from energyscope.reporting.comparison.drawing import (
    RUN_SHAPES,
    axis_of,
    ends_of,
    filled_and_hollow,
    legend,
    run_colour,
)
from energyscope.runs.intervals import Interval

_NEAR = (0.12, 0.1)  # of the width and the height
_PER_CENT = "format(datum.value * 100, '.0f') + '\u00a0%'"  # of an axis of shares, as numbers elsewhere
_NAMED = 12  # points, up to which each has its name beside it


@dataclass(frozen=True)
class Place:
    """One run's point in a plane."""

    series: str
    x: Interval
    y: Interval
    name: str
    said: str
    weak: bool = False
    label: str = ""  # stands beside the point where there is room


def plane(
    places: Sequence[Place], series: Sequence[str], titles: tuple[str, str], description: str, *,
    joined: bool = False, frontier: Sequence[tuple[float, float]] = (), span: tuple[float, float] | None = None,
) -> Any:  # fmt: skip
    """Draw points with both intervals; ``joined`` ones of a run in a line, ``frontier`` as a dashed one."""
    alt = theme.altair()
    sizes = [
        theme.magnitude(ends_of(place.x for place in places)),
        theme.magnitude(ends_of(place.y for place in places)),
    ]
    across = alt.Scale(domain=list(span), nice=False) if span else sizes[0].scale()
    quarters = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], labelExpr=_PER_CENT, grid=False)
    axis = quarters if span else axis_of(sizes[0])
    x = alt.X("x:Q", title=titles[0], scale=across, axis=axis)
    y = alt.Y("y:Q", title=titles[1], scale=sizes[1].scale(), axis=axis_of(sizes[1]))
    names = list(series)
    scale = alt.Scale(domain=names, range=[run_colour(at) for at in range(len(names))])
    shapes = alt.Scale(domain=names, range=[RUN_SHAPES[at % len(RUN_SHAPES)] for at in range(len(names))])
    base = alt.Chart(theme.rows(_place_records(places))).encode(
        color=alt.Color("series:N", scale=scale, legend=legend(names))
    )
    layers = []
    if len(frontier) > 1:
        steps = alt.Chart(theme.rows([{"x": one, "y": two} for one, two in frontier]))
        layers.append(steps.mark_line(style=theme.FAINT_LINE).encode(x=x, y=y, order="x:Q"))
    if joined:
        layers.append(base.mark_line(strokeWidth=1.5, opacity=0.7).encode(x=x, y=y))
    if any(one.y.known for one in places):
        up = base.transform_filter("datum.y_low !== null && datum.y_high !== null")
        layers.append(up.mark_rule(strokeWidth=1.6, opacity=0.7).encode(x=x, y=alt.Y("y_low:Q"), y2="y_high:Q"))
    if any(one.x.known for one in places):
        side = base.transform_filter("datum.x_low !== null && datum.x_high !== null")
        layers.append(side.mark_rule(strokeWidth=1.6, opacity=0.7).encode(y=y, x=alt.X("x_low:Q"), x2="x_high:Q"))
    placed = base.encode(
        x=x, y=y, shape=alt.Shape("series:N", scale=shapes, legend=legend(names)),
        tooltip=[alt.Tooltip("series:N", title="run"), alt.Tooltip("name:N", title="at"),
                 alt.Tooltip("said:N", title="value")],
    )  # fmt: skip
    dots = filled_and_hollow(placed, [one.weak for one in places], 70)
    records = [one for one in _place_records(places) if one["shown"]]
    named = alt.Chart(theme.rows(records)).mark_text(style=theme.FAINT_TEXT, dy=-12)
    labels = [named.encode(x=x, y=y, text="shown:N")] if records else []
    return theme.finish(alt.layer(*layers, *dots, *labels), description, 300)


def _place_records(places: Sequence[Place]) -> list[dict[str, Any]]:
    return [
        {"series": one.series, "x": one.x.value, "x_low": one.x.low, "x_high": one.x.high, "y": one.y.value,
         "y_low": one.y.low, "y_high": one.y.high, "name": one.name, "said": one.said,
         "shown": one.label if _alone(one, places) else "", "weak": one.weak}
        for one in places
    ]  # fmt: skip


def _alone(one: Place, places: Sequence[Place]) -> bool:
    """Whether a name beside a point can be read as no other point's."""
    if len(places) > _NAMED:
        return False
    width, height = (_reach([getattr(place, axis) for place in places]) for axis in ("x", "y"))
    return not any(
        abs(other.x.value - one.x.value) < _NEAR[0] * width
        and abs(other.y.value - one.y.value) < _NEAR[1] * height
        for other in places
        if other is not one
    )


def _reach(items: Sequence[Interval]) -> float:
    ends = ends_of(items)
    return max(ends) - min(ends)

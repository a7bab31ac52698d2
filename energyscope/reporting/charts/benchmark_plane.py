"""Precisions in the plane: one quantity against another, and how they change with batch size or length."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.reporting.charts import theme
from energyscope.reporting.charts.benchmark import PLAIN
from energyscope.runs.intervals import Interval

_SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "stroke")
_PLACES = {  # where a name stands: its alignment, and how far it is moved across and down
    "right": ("left", 9, 0),
    "left": ("right", -9, 0),
    "above right": ("left", 9, -15),
    "below right": ("left", 9, 15),
    "above left": ("right", -9, -15),
    "below left": ("right", -9, 15),
}
_NEAR = (0.06, 0.08)  # of the width and the height: points that are this near to each other have no names
_POINT, _LINE = (0.02, 0.03), 0.004  # of the width and the height: half a point, half of an interval's line
_LABEL_ROOM = (0.022, 0.065)  # of the width for a character, of the height for a line


@dataclass(frozen=True)
class Spot:
    """One precision in the plane, in the units of the axes, with what its tooltip says."""

    precision: str
    title: str
    x: Interval
    y: Interval
    said: str
    weak: bool = False
    inner: tuple[float, float] | None = None  # limits of the difference from the baseline, around y


def plane(
    spots: Sequence[Spot], titles: tuple[str | list[str], str], description: str, height: float = 300
) -> Any:
    """Draw precisions as points with both intervals; those below grade C are hollow.

    A legend of colours and shapes names all of them; a name also stands beside its point where nothing else is
    near, so that it cannot be read as another point's.
    """
    alt = theme.altair()
    across = _ends([spot.x for spot in spots])
    up = [*_ends([spot.y for spot in spots]), *(end for spot in spots for end in spot.inner or ())]
    x, y = alt.X("x:Q", title=titles[0], **_axis(across)), alt.Y("y:Q", title=titles[1], **_axis(up))
    records = _records(spots, across, up)
    names = list(dict.fromkeys(spot.title for spot in spots))
    legend = alt.Legend(orient="top", columns=4, symbolOpacity=1, title=None)
    base = alt.Chart(theme.rows(records)).encode(color=_colours(spots, names, legend))
    placed = base.encode(
        x=x,
        y=y,
        shape=alt.Shape("title:N", scale=alt.Scale(domain=names, range=_shapes_of(names)), legend=legend),
        tooltip=[alt.Tooltip("title:N", title="precision"), alt.Tooltip("said:N", title="values")],
    )
    points = [
        placed.transform_filter(f"datum.weak === {json.dumps(weak)}").mark_point(
            filled=not weak, size=90, strokeWidth=2, opacity=1
        )
        for weak in (False, True)
        if any(spot.weak == weak for spot in spots)
    ]
    named = alt.Chart(theme.rows(records)).encode(x=x, y=y, text="title:N")
    labels = [
        named.transform_filter(f"datum.place === '{place}'").mark_text(
            style=theme.INK_TEXT, align=align, dx=dx, dy=dy
        )
        for place, (align, dx, dy) in _PLACES.items()
        if any(record["place"] == place for record in records)
    ]
    return theme.finish(alt.layer(*_limits(spots, base, x, y), *points, *labels), description, height)


def _colours(items: Sequence[Spot | Step], names: list[str], legend: Any) -> Any:
    """Return the colours of the precisions by their titles, with a legend."""
    alt = theme.altair()
    colours = [theme.precision_colour(next(s.precision for s in items if s.title == name)) for name in names]
    return alt.Color("title:N", scale=alt.Scale(domain=names, range=colours), legend=legend)


def _shapes_of(names: list[str]) -> list[str]:
    return [_SHAPES[index % len(_SHAPES)] for index in range(len(names))]


def _records(spots: Sequence[Spot], across: list[float], up: list[float]) -> list[dict[str, Any]]:
    positions = zip(
        _shares([spot.x.value for spot in spots], across),
        _shares([spot.y.value for spot in spots], up),
        strict=True,
    )
    places = _placed(list(positions), [spot.title for spot in spots], _lines(spots, across, up))
    return [
        {"title": spot.title, "said": spot.said, "weak": spot.weak, "place": place,
         "colour": theme.precision_colour(spot.precision), "x": spot.x.value, "y": spot.y.value,
         "x_low": spot.x.low, "x_high": spot.x.high, "y_low": spot.y.low, "y_high": spot.y.high,
         "inner_low": spot.inner and spot.inner[0], "inner_high": spot.inner and spot.inner[1]}
        for spot, place in zip(spots, places, strict=True)
    ]  # fmt: skip


def _limits(spots: Sequence[Spot], base: Any, x: Any, y: Any) -> list[Any]:
    """Return the intervals of both quantities, and thick those of the difference from the baseline."""
    alt = theme.altair()
    layers = []
    if any(spot.x.known for spot in spots):
        sideways = base.transform_filter("datum.x_low !== null && datum.x_high !== null").mark_rule(opacity=0.6)
        layers.append(sideways.encode(x=alt.X("x_low:Q"), x2="x_high:Q", y=y))
    if any(spot.y.known for spot in spots):
        upright = base.transform_filter("datum.y_low !== null && datum.y_high !== null").mark_rule(opacity=0.6)
        layers.append(upright.encode(x=x, y=alt.Y("y_low:Q"), y2="y_high:Q"))
    if any(spot.inner for spot in spots):
        thick = base.transform_filter("datum.inner_low !== null").mark_rule(strokeWidth=5, opacity=0.75)
        layers.append(thick.encode(x=x, y=alt.Y("inner_low:Q"), y2="inner_high:Q"))
    return layers


def _ends(items: Sequence[Interval]) -> list[float]:
    return [end for item in items for end in (item.value, item.low, item.high) if end is not None]


def _axis(values: list[float]) -> dict[str, Any]:
    """Return a scale and an axis for values and their limits, with ticks that have no powers of ten."""
    alt = theme.altair()
    size = theme.magnitude(values)
    axis = alt.Axis(values=size.ticks, format=PLAIN) if size.ticks else alt.Axis(tickCount=5, format=PLAIN)
    return {"scale": size.scale(), "axis": axis}


def _shares(values: list[float], ends: list[float]) -> list[float]:
    """Return where values lie along an axis that reaches over ``ends``, from 0 to 1."""
    size = theme.magnitude(ends)
    low, high = size.position(min(ends)), size.position(max(ends))
    return [(size.position(value) - low) / (high - low) if high > low else 0.5 for value in values]


def _lines(spots: Sequence[Spot], across: list[float], up: list[float]) -> list[_Box]:
    """Return the room that the intervals take, where they are longer than a point."""
    found: list[_Box] = []
    for spot in spots:
        x, left, right = _shares(_reach(spot.x), across)
        y, bottom, top = _shares(_reach(spot.y, spot.inner), up)
        found += [(left, y - _LINE, right, y + _LINE)] if right - left > 2 * _POINT[0] else []
        found += [(x - _LINE, bottom, x + _LINE, top)] if top - bottom > 2 * _POINT[1] else []
    return found


def _reach(item: Interval, inner: tuple[float, float] | None = None) -> list[float]:
    """Return a value and both ends of what is drawn of its limits, which are the value where none is known."""
    ends = [item.value, *(end for end in (item.low, item.high) if item.known and end is not None), *(inner or ())]
    return [item.value, min(ends), max(ends)]


def _placed(spots: list[tuple[float, float]], names: list[str], lines: list[_Box]) -> list[str | None]:
    """Choose on which side of its point each name stands; None where it would meet a point, a line or a name.

    Nor may another point be nearer to the middle of a name than its own is.
    """
    points = [(x - _POINT[0], y - _POINT[1], x + _POINT[0], y + _POINT[1]) for x, y in spots]
    taken: list[_Box] = []
    chosen: list[str | None] = []
    for index, ((x, y), name) in enumerate(zip(spots, names, strict=True)):
        obstacles = [*points[:index], *points[index + 1 :], *lines, *taken]
        boxes = {place: _box(x, y, len(name), place) for place in _PLACES}
        others = [*spots[:index], *spots[index + 1 :]]
        alone = not any(abs(x - left) < _NEAR[0] and abs(y - up) < _NEAR[1] for left, up in others)
        free = (
            place
            for place, box in boxes.items()
            if alone
            and not _outside(box)
            and not any(_overlap(box, one) for one in obstacles)
            and _own(box, (x, y), others)
        )
        best = next(free, None)
        chosen.append(best)
        if best:
            taken.append(boxes[best])
    return chosen


def _own(box: _Box, own: tuple[float, float], others: list[tuple[float, float]]) -> bool:
    """Whether no other point is as near to the middle of a name as its own."""
    middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    return all(math.dist(middle, own) < math.dist(middle, other) for other in others)


_Box = tuple[float, float, float, float]  # left, bottom, right and top, in shares of the plane


def _box(x: float, y: float, letters: int, place: str) -> _Box:
    width, height = letters * _LABEL_ROOM[0], _LABEL_ROOM[1]
    left = x + 0.025 if place.endswith("right") else x - 0.025 - width
    middle = y + {"above": 0.055, "below": -0.055}.get(place.split(maxsplit=1)[0], 0.0)
    return left, middle - height / 2, left + width, middle + height / 2


def _overlap(one: _Box, other: _Box) -> float:
    """Return which share of a name is covered."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return width * height / ((one[2] - one[0]) * (one[3] - one[1])) if width > 0 and height > 0 else 0.0


def _outside(box: _Box) -> float:
    """Return by how much a name leaves the plane, beyond its padding."""
    return 3 * sum(max(0.0, excess) for excess in (-0.06 - box[0], box[2] - 1.06, -0.08 - box[1], box[3] - 1.08))


@dataclass(frozen=True)
class Step:
    """One precision at one batch size or length: ``along`` is which, ``value`` in the unit of the axis."""

    precision: str
    title: str
    along: int
    value: Interval
    said: str


def sweep(steps: Sequence[Step], titles: tuple[str | list[str], str], description: str) -> Any:
    """Draw a line for each precision over batch sizes or lengths, with intervals; shapes tell them apart too."""
    alt = theme.altair()
    names = list(dict.fromkeys(step.title for step in steps))
    over = titles[0] if isinstance(titles[0], str) else titles[0][0]
    axis, ends = _axis_of_steps(steps)
    records = [
        {"title": step.title, "along": step.along, "value": step.value.value, "said": step.said,
         "low": theme.on_log(step.value.low, ends) if ends else step.value.low, "high": step.value.high}
        for step in steps
    ]  # fmt: skip
    ticks = sorted({step.along for step in steps})
    wide = ticks[-1] / ticks[0] >= 2
    x = alt.X(
        "along:Q",
        title=titles[0],
        scale=alt.Scale(type="log", base=2, nice=False, padding=14) if wide else alt.Scale(zero=False, padding=14),
        axis=alt.Axis(values=ticks, format="d", grid=False, labelOverlap=True),
    )
    y = alt.Y("value:Q", title=titles[1], **axis)
    legend = alt.Legend(orient="top", columns=4, symbolOpacity=1, title=None)
    base = alt.Chart(theme.rows(records)).encode(x=x, color=_colours(steps, names, legend))
    layers = [base.mark_line(strokeWidth=1.8, opacity=0.8).encode(y=y)]
    if any(step.value.known for step in steps):
        limits = base.transform_filter("datum.low !== null && datum.high !== null").mark_rule(strokeWidth=2)
        layers.append(limits.encode(y=alt.Y("low:Q"), y2="high:Q"))
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=y,
        shape=alt.Shape("title:N", scale=alt.Scale(domain=names, range=_shapes_of(names)), legend=legend),
        tooltip=[alt.Tooltip("title:N", title="precision"), alt.Tooltip("along:Q", title=over),
                 alt.Tooltip("said:N", title=titles[1])],
    )  # fmt: skip
    return theme.finish(alt.layer(*layers, points), description, 240)


def _axis_of_steps(steps: Sequence[Step]) -> tuple[dict[str, Any], tuple[float, float] | None]:
    """Return a scale and an axis for the steps; its ends too if it is logarithmic and a limit of 0 lies beyond."""
    values = [step.value.value for step in steps]
    found = _axis(values)
    limits = [end for step in steps for end in (step.value.low, step.value.high) if end is not None]
    if theme.magnitude(values).type != "log" or min(limits, default=1.0) > 0:
        return found, None
    low, high = theme.log_domain(values, limits)
    ends = low, high * (high / low) ** 0.05
    return {**found, "scale": theme.altair().Scale(type="log", domain=list(ends), nice=False)}, ends

"""Drawings of a tree of parts: the flow from the whole to its parts, and parts below what they are parts of.

Both read a table whose rows are in depth-first order: ``depth`` says how far down a row is, ``rest`` marks what is
no component (overhead between parts, unexplained), ``noisy`` what is unreliable. Nothing is scaled: parts
that exceed their whole reach beyond it, and what is below 0 has no width but is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from energyscope import format as fmt
from energyscope.reporting.charts import data
from energyscope.reporting.charts.theme import CUT, HALO, HOLLOW, INK, altair, is_dark, palette
from energyscope.reporting.table import Column, Row, Table

_LABEL_PX, _LETTER_PX = 20.0, 6.4
_FLOW_PX, _LOW_PX, _FEW = 300.0, 200.0, 8  # height of the whole in a flow, and where it has few parts
_POINTS = 15  # on each edge of a band
_BOX = 0.012  # width of a box, of the drawing's
_NARROW_PX = 620  # of a flow: below it labels are short
_LEVEL_PX, _GAP = 40, 0.07


@dataclass
class _Part:
    """One row with its parts; ``size`` is its value in the chart's unit."""

    row: Row
    size: float
    depth: int
    parts: list[_Part] = field(default_factory=list)
    x: float = 0.0
    top: float = 0.0

    def walk(self) -> Iterator[_Part]:
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def width(self) -> float:
        """What it and its parts need: more than its own where parts exceed it."""
        return max(self.size, sum(part.width for part in self.parts), 0.0)


@data.built_unchecked
def flow(table: Table, value: str) -> Any:
    """Draw bands from the whole, at the left, to its parts and theirs, each as high as its ``value``."""
    alt = altair()
    root = _tree(table, value)
    parts = list(root.walk())
    whole_px = _FLOW_PX if len(parts) > _FEW else _LOW_PX
    height = _place(root, 0.0, max(root.size, 1e-12) * _LABEL_PX / whole_px)
    depth = max(part.depth for part in parts)
    width = depth + min(0.25 + 0.25 * depth, 0.9)
    box_width = _BOX * width
    colours = palette(str(part.row["kind"]) for part in parts)
    columns = data.shown_columns(table)
    place = {
        "x": alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False)),
        "y": alt.Y("top:Q", axis=None, scale=alt.Scale(domain=[0, height], reverse=True, nice=False)),
    }
    points = [point for part in parts for point in _bands(part, box_width, colours)]
    boxes = [_box(part, box_width, colours, columns) for part in parts]
    layers = []
    if points:
        bands = data.chart_of(points).mark_area(strokeWidth=0)
        detail = {"y2": alt.Y2("bottom:Q"), "detail": alt.Detail("band:N")}
        layers.append(bands.encode(**place, **detail, **_fill(alt), opacity=data.faded()))
    bars = data.chart_of(boxes).mark_bar(strokeWidth=1.2)
    ends = {"x2": alt.X2("right:Q"), "y2": alt.Y2("bottom:Q")}
    tooltip = data.tooltip(columns)
    outline = {
        "stroke": alt.Stroke("colour:N", scale=None),
        "strokeDash": alt.StrokeDash("dash:N", scale=None),
    }
    layers.append(bars.encode(**place, **ends, **_fill(alt), **outline, tooltip=tooltip, opacity=data.faded()))
    labels = [_flow_label(part, root, table.column(value), box_width) for part in parts]
    layers += _flow_labels(labels, place, width)
    return data.layered(layers, boxes, round(height / max(root.size, 1e-12) * whole_px))


@data.built_unchecked
def strip(table: Table, value: str) -> Any:
    """Draw the whole at full width, its parts below it and theirs below them, each as wide as its ``value``.

    The parameters ``from`` and ``to`` are the ends of what is shown: the page sets them to zoom into a part.
    """
    alt = altair()
    root = _tree(table, value)
    _spread(root, 0.0)
    parts = [part for part in root.walk() if part.width > 0]
    colours = palette(str(part.row["kind"]) for part in parts)
    columns = data.shown_columns(table)
    unit = table.column(value).unit
    records = [_cell(part, root, value, unit, colours, columns) for part in parts]
    levels = 1 + max(part.depth for part in parts)
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[alt.ExprRef("from"), alt.ExprRef("to")], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[0, levels], reverse=True, nice=False))
    ends = {"x2": alt.X2("right:Q"), "y2": alt.Y2("bottom:Q")}
    base = data.chart_of(records)
    cells = base.mark_rect(clip=True, style=CUT, cursor="pointer").encode(
        x=x, y=y, **ends, **_fill(alt), tooltip=data.tooltip(columns), opacity=data.faded()
    )
    room = "width * (min(datum.right, to) - max(datum.x, from)) / (to - from)"
    base = base.transform_calculate(room=room, middle="(min(datum.right, to) + max(datum.x, from)) / 2")
    long = f"datum.room > length(datum.long) * {_LETTER_PX} + 8"
    short = f"datum.room > length(datum.short) * {_LETTER_PX} + 6 ? datum.short : ''"
    base = base.transform_calculate(label=f"{long} ? datum.long : {short}")
    words = (
        base.transform_filter("datum.label != ''")
        .mark_text(baseline="middle", fontSize=12)
        .encode(
            x=alt.X("middle:Q", axis=None),
            y=alt.Y("line:Q", axis=None),
            text=alt.Text("label:N"),
            color=alt.Color("ink:N", scale=None),
            opacity=data.faded(left=0.6),
        )
    )
    zoom = (alt.param("from", value=0.0), alt.param("to", value=root.width))
    return data.layered([cells, words], records, _LEVEL_PX * levels, *zoom)


def _tree(table: Table, value: str) -> _Part:
    """Return the tree of a table's rows, those without a value left out with what is below them."""
    sizes = [abs(data.value_of(row.get(value)) or 0.0) for row in table.rows]
    divisor, _ = fmt.scale(max(sizes, default=0.0), table.column(value).unit)
    path: list[_Part] = []
    root: _Part | None = None
    for row in table.rows:
        size, depth = data.value_of(row.get(value)), int(row["depth"])
        del path[depth:]
        if size is None or len(path) < depth:
            continue
        part = _Part(row, size / divisor, depth)
        if path:
            path[-1].parts.append(part)
        path.append(part)
        root = root or part
    if root is None:
        raise ValueError("a tree needs a first row with a value")
    return root


def _place(part: _Part, top: float, room: float) -> float:
    """Place a part and all below it, each with ``room`` for its label; return the height that it takes."""
    height = 0.0  # of all parts
    for child in part.parts:
        height += _place(child, top + height, room)
    taken = max(height, part.size + 0.35 * room, room)
    part.top = top + (taken - max(part.size, 0.0)) / 2
    shift = (taken - height) / 2
    for child in part.parts:
        for below in child.walk():
            below.top += shift
    return taken


def _bands(part: _Part, box_width: float, colours: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Follow the band to each part of a part along a smooth step."""
    leaving = part.top
    for child in part.parts:
        height = max(child.size, 0.0)
        left, right = part.depth + box_width, float(child.depth)
        for step in range(_POINTS if height else 0):
            t = step / (_POINTS - 1)
            top = leaving + (child.top - leaving) * (3 * t**2 - 2 * t**3)
            yield {
                "band": f"{child.depth}, {child.top:.5g}",
                "x": round(left + (right - left) * t, 3),
                "top": float(f"{top:.5g}"),
                "bottom": float(f"{top + height:.5g}"),
                "colour": colours[str(child.row["kind"])],
                "fill": 0.2 if child.row.get("rest") else 0.36,
                **data.identity(child.row),
            }
        leaving += height


def _box(part: _Part, box_width: float, colours: Mapping[str, str], columns: Sequence[Column]) -> dict[str, Any]:
    return {
        "x": part.depth,
        "right": part.depth + box_width,
        "top": part.top,
        "bottom": part.top + max(part.size, 0.0),
        "colour": colours[str(part.row["kind"])],
        **_look(part.row),
        **data.mark(part.row, columns),
    }


def _look(row: Row) -> dict[str, Any]:
    if row.get("noisy"):
        return {"fill": HOLLOW, "dash": [4, 3]}
    return {"fill": 0.35 if row.get("rest") else 1.0, "dash": [3, 2] if row.get("rest") else [1, 0]}


def _fill(alt: Any) -> dict[str, Any]:
    return {"fill": alt.Fill("colour:N", scale=None), "fillOpacity": alt.FillOpacity("fill:Q", scale=None)}


def _share(part: _Part, root: _Part) -> str:
    """Return a part's share of the whole, to stand behind its name; nothing for the whole."""
    share = fmt.quantity(part.size / root.size if root.size else None, "share")
    return "" if part is root else f" \u00b7 {share}"


def _flow_label(part: _Part, root: _Part, value: Column, box_width: float) -> dict[str, Any]:
    name, amount = str(part.row["part"]), fmt.quantity(data.value_of(part.row[value.key]), value.unit)
    share = _share(part, root)
    return {
        "x": part.depth + box_width,
        "top": part.top + max(part.size, 0.0) / 2,
        "long": f"{name} \u00b7 {amount}{share}",
        "short": amount if not share else name if part.parts else f"{name}{share}",
        "over": bool(part.parts) and part is not root,
        **data.identity(part.row),
    }


def _flow_labels(records: list[dict[str, Any]], place: Mapping[str, Any], width: float) -> list[Any]:
    """Write labels beside boxes, short where the chart is narrow, with a halo where bands lie beneath."""
    needed = max(len(label["long"]) * _LETTER_PX * width / (width - label["x"]) + 12 for label in records)
    wide = max(needed, _NARROW_PX)
    labels = data.chart_of(records).transform_calculate(label=f"width < {wide:.0f} ? datum.short : datum.long")
    encoding = {**place, "text": altair().Text("label:N"), "opacity": data.faded(left=0.5)}
    style = {"align": "left", "baseline": "middle", "dx": 5}
    halo = labels.transform_filter("datum.over").mark_text(style=HALO, **style).encode(**encoding)
    return [halo, labels.mark_text(style=INK, **style).encode(**encoding)]


def _spread(part: _Part, left: float) -> None:
    part.x = left
    for child in part.parts:
        _spread(child, left)
        left += child.width


def _cell(
    part: _Part, root: _Part, value: str, unit: str, colours: Mapping[str, str], columns: Sequence[Column]
) -> dict[str, Any]:
    look, colour = _look(part.row), colours[str(part.row["kind"])]
    name, amount = str(part.row["part"]), fmt.quantity(data.value_of(part.row[value]), unit)
    solid = look["fill"] == 1.0
    return {
        "x": part.x,
        "right": part.x + max(part.size, 0.0),
        "y": part.depth,
        "bottom": part.depth + 1 - _GAP,
        "line": part.depth + 0.5 - _GAP / 2,
        "long": f"{name} \u00b7 {amount}{_share(part, root)}",
        "short": name,
        "colour": colour,
        "ink": "#ffffff" if solid and is_dark(colour) else "#10161d" if solid else "gray",
        **look,
        **data.mark(part.row, columns),
    }

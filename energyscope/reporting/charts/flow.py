"""The energy flow as a Sankey diagram: Vega-Lite has none, so its bands are areas with computed edges."""

from __future__ import annotations

from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.data.energy import UNATTRIBUTED, UNEXPLAINED
from energyscope.reporting.data.flow import Band, Box, FlowLayout, FlowNode, flow_layout

_BOX_SHARE = 0.0115  # of the width
_POINTS = 15  # on each edge of a band
_LABEL_PX = 19.0
_TREE_PX, _LOW_PX, _FEW = 380.0, 240.0, 8  # height of the model itself, and where it has few parts
_SHORTER = {UNEXPLAINED: "unexpl.", UNATTRIBUTED: "not attr."}
_NARROW_PX = 560  # below this width there is room for short labels only
_ROOMY, _CLOSE = (5.8, 12.0), (5.3, 6.0)  # width of a letter and beside a label, with and without room to spare


def sankey(root: FlowNode, description: str) -> Any:
    """Draw the flow from the model to its parts, glue and unexplained energy among them."""
    alt = theme.altair()
    tall = _TREE_PX if sum(1 for _ in root.walk()) > _FEW else _LOW_PX
    layout = flow_layout(root, room_mj=root.energy.value * _LABEL_PX / tall)
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, _across(layout)], nice=False))
    y = alt.Y("top:Q", axis=None, scale=alt.Scale(domain=[0, layout.height], reverse=True, nice=False))
    bands = _bands(alt, layout, x, y)
    boxes = _boxes(alt, layout, x, y)
    parents = {id(band.child): band.parent.node for band in layout.bands}
    written = [_label(box, root, parents.get(id(box)), _box_width(layout)) for box in layout.boxes]
    narrow = max(_NARROW_PX, _fits_px([one["middle"] for one in written], written, layout, _CLOSE))
    wide = max(narrow, _fits_px([one["label"] for one in written], written, layout, _ROOMY))
    form = f"width < {narrow} ? datum.short : width < {wide} ? datum.middle : datum.label"
    labels = alt.Chart(theme.rows(written)).transform_calculate(said=form)
    labels = labels.encode(
        x=x,
        y=y,
        text="said:N",
        size=alt.condition(f"width < {narrow}", alt.value(10), alt.value(12)),
        opacity=theme.faded_text(),
    )
    written_over = {"align": "left", "baseline": "middle", "dx": 5}
    halos = labels.transform_filter("datum.crossed").mark_text(style=theme.HALO, **written_over)
    labels = labels.mark_text(style=theme.INK_TEXT, **written_over)
    height = round(layout.height / root.energy.value * tall)
    chart = theme.linked(alt.layer(*bands, *boxes, halos, labels), (node.kind for node in root.walk()))
    return theme.finish(chart, description, height)


def _across(layout: FlowLayout) -> float:
    """Return the width in columns, of which the last holds only labels: on a shallow flow they need less of it."""
    return layout.depth + min(0.2 + 0.25 * layout.depth, 0.95)


def _box_width(layout: FlowLayout) -> float:
    return _BOX_SHARE * _across(layout)


def _fits_px(said: list[str], written: list[dict[str, Any]], layout: FlowLayout, px: tuple[float, float]) -> int:
    """Return the width of the chart from which what is ``said`` fits; ``px`` of a letter, and beside a label."""
    across, (letter, beside) = _across(layout), px
    places = [across / (across - float(one["x"])) for one in written]
    widths = [(len(label) * letter + beside) * place for label, place in zip(said, places, strict=True)]
    return round(max(widths))


def _bands(alt: Any, layout: FlowLayout, x: Any, y: Any) -> list[Any]:
    points = [point for index, band in enumerate(layout.bands) for point in _edge(index, band, _box_width(layout))]
    if not points:
        return []
    areas = theme.compact(points).mark_area(strokeWidth=0.7, strokeOpacity=0.5)
    return [
        areas.encode(
            x=x,
            y=y,
            y2="bottom:Q",
            detail="band:N",
            **_colours(layout, "fill", "stroke"),
            fillOpacity=alt.FillOpacity("fill:Q", scale=None),
            opacity=theme.faded(),
        )
    ]


def _colours(layout: FlowLayout, *channels: str) -> dict[str, Any]:
    alt = theme.altair()
    kinds = list(dict.fromkeys(box.node.kind for box in layout.boxes))
    scale = alt.Scale(domain=kinds, range=[theme.colour(kind) for kind in kinds])
    make = {"fill": alt.Fill, "stroke": alt.Stroke}
    return {channel: make[channel]("kind:N", scale=scale, legend=None) for channel in channels}


def _edge(index: int, band: Band, box: float) -> list[dict[str, Any]]:
    """Follow a band from its parent to its child along a smooth step."""
    left, right = band.parent.x + box, float(band.child.x)
    found = []
    for step in range(_POINTS):
        t = step / (_POINTS - 1)
        top = band.start + (band.end - band.start) * (3 * t**2 - 2 * t**3)
        found.append(
            {
                "band": index,
                "x": round(left + (right - left) * t, 3),
                "top": float(f"{top:.5g}"),
                "bottom": float(f"{top + band.height:.5g}"),
                "kind": band.child.node.kind,
                "fill": 0.38 if band.child.node.role == "component" else 0.22,
            }
        )
    return found


def _boxes(alt: Any, layout: FlowLayout, x: Any, y: Any) -> list[Any]:
    width = _box_width(layout)
    records = [_box(box, width) for box in layout.boxes]
    tooltip = [alt.Tooltip("kind:N"), alt.Tooltip("said:N", title="energy"), alt.Tooltip("count:Q")]
    if any(box.node.invalid for box in layout.boxes):
        tooltip.append(alt.Tooltip("weak:N", title="below grade C"))
    base = alt.Chart(theme.rows(records)).encode(
        x=x, x2="right:Q", y=y, y2="bottom:Q", opacity=theme.faded(), **_colours(layout, "fill")
    )
    outlined = base.encode(**_colours(layout, "stroke"))
    drawn = [
        base.transform_filter("datum.drawn == 'solid'").mark_rect().encode(tooltip=tooltip),
        outlined.transform_filter("datum.drawn == 'rest'")
        .mark_rect(strokeDash=[3, 2], strokeWidth=1.2, fillOpacity=0.35)
        .encode(tooltip=tooltip),
    ]
    if any(record["drawn"] == "hollow" for record in records):
        hollow = outlined.transform_filter("datum.drawn == 'hollow'")
        hollow = hollow.mark_rect(strokeDash=[4, 3], strokeWidth=1.2, fillOpacity=0.15)
        drawn.append(hollow.encode(tooltip=tooltip))
    excess = [_excess(box, width) for box in layout.boxes if box.node.excess_mj > 0]
    if excess:
        over = alt.Chart(theme.rows(excess)).encode(x=x, x2="right:Q", y=y, y2="bottom:Q", tooltip=["said:N"])
        drawn.append(over.mark_rect(filled=False, stroke=theme.EXCESS_COLOUR, strokeDash=[3, 2], strokeWidth=1.6))
    return drawn


def _box(box: Box, width: float) -> dict[str, Any]:
    return {
        "x": box.x,
        "right": box.x + width,
        "top": box.top,
        "bottom": box.bottom,
        "kind": box.node.kind,
        "drawn": _drawn(box.node),
        "count": box.node.count,
        "weak": f"{box.node.invalid} of {box.node.count}",
        "said": text.with_limits(box.node.energy, "mJ"),
    }


def _drawn(node: FlowNode) -> str:
    """Return how a box is drawn: hollow where none of what it adds up is to be relied on."""
    if node.role != "component":
        return "rest"
    return "hollow" if node.invalid == node.count else "solid"


def _excess(box: Box, width: float) -> dict[str, Any]:
    amount = text.quantity(box.node.excess_mj, "mJ")
    return {
        "x": box.x,
        "right": box.x + width,
        "top": box.bottom,
        "bottom": box.bottom + box.node.excess_mj + min(box.node.energy.value, 0.0),
        "kind": box.node.kind,
        "said": f"what is drawn behind {box.node.kind} exceeds it by {amount}",
    }


def _label(box: Box, root: FlowNode, parent: FlowNode | None, width: float) -> dict[str, Any]:
    """Return what stands beside a box; the shorter forms leave out the parent's name, then the energy."""
    node = box.node
    times = f" \u00d7{node.count}" if node.count > 1 and node.role == "component" else ""
    weak = " \u2020" if node.invalid else ""
    energy = text.quantity(node.energy.value, "mJ")
    share = "" if node is root else text.percent(node.energy.value / root.energy.value)
    name = node.kind.removeprefix(f"{parent.kind}." if parent else ".")
    return {
        "x": box.x + width,
        "top": (box.top + box.bottom + node.excess_mj) / 2,
        "crossed": bool(node.children) and node is not root,
        "kind": node.kind,
        "label": f"{node.kind}{times} · {energy}" + (f" · {share}" if share else "") + weak,
        "middle": f"{name} · {energy}" + (f" · {share}" if share else "") + weak,
        "short": f"{_SHORTER.get(node.kind, name)} {share or energy}{weak}",
    }

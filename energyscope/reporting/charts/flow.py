"""The energy flow as a Sankey diagram: Vega-Lite has none, so its bands are areas with computed edges."""

from __future__ import annotations

from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.data.flow import Band, Box, FlowLayout, FlowNode, flow_layout

_BOX_WIDTH = 0.045  # of a column
_POINTS = 17  # on each edge of a band
_LABEL_PX = 19.0
_TREE_PX = 380.0  # height of the model itself


def sankey(root: FlowNode, description: str) -> Any:
    """Draw the flow from the model to its parts, glue and unexplained energy among them."""
    alt = theme.altair()
    layout = flow_layout(root, room_mj=root.energy.value * _LABEL_PX / _TREE_PX)
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, layout.depth + 0.95], nice=False))
    y = alt.Y("top:Q", axis=None, scale=alt.Scale(domain=[0, layout.height], reverse=True, nice=False))
    bands = _bands(alt, layout, x, y)
    boxes = _boxes(alt, layout, x, y)
    labels = (
        alt.Chart(theme.rows([_label(box, root) for box in layout.boxes]))
        .mark_text(style=theme.INK_TEXT, align="left", baseline="middle", dx=5)
        .encode(x=x, y=y, text="label:N")
    )
    height = round(layout.height / root.energy.value * _TREE_PX)
    return theme.finish(alt.layer(*bands, *boxes, labels), description, height)


def _bands(alt: Any, layout: FlowLayout, x: Any, y: Any) -> list[Any]:
    points = [point for index, band in enumerate(layout.bands) for point in _edge(index, band)]
    if not points:
        return []
    areas = alt.Chart(theme.rows(points)).mark_area(strokeWidth=0.7, strokeOpacity=0.5)
    return [
        areas.encode(
            x=x,
            y=y,
            y2="bottom:Q",
            detail="band:N",
            fill=alt.Fill("colour:N", scale=None),
            stroke=alt.Stroke("colour:N", scale=None),
            fillOpacity=alt.FillOpacity("opacity:Q", scale=None),
        )
    ]


def _edge(index: int, band: Band) -> list[dict[str, Any]]:
    """Follow a band from its parent to its child along a smooth step."""
    left, right = band.parent.x + _BOX_WIDTH, float(band.child.x)
    found = []
    for step in range(_POINTS):
        t = step / (_POINTS - 1)
        top = band.start + (band.end - band.start) * (3 * t**2 - 2 * t**3)
        found.append(
            {
                "band": index,
                "x": round(left + (right - left) * t, 5),
                "top": top,
                "bottom": top + band.height,
                "colour": theme.colour(band.child.node.kind),
                "opacity": 0.38 if band.child.node.role == "component" else 0.22,
            }
        )
    return found


def _boxes(alt: Any, layout: FlowLayout, x: Any, y: Any) -> list[Any]:
    records = [_box(box) for box in layout.boxes]
    tooltip = [alt.Tooltip("kind:N"), alt.Tooltip("said:N", title="energy"), alt.Tooltip("count:Q")]
    base = alt.Chart(theme.rows(records)).encode(x=x, x2="right:Q", y=y, y2="bottom:Q", tooltip=tooltip)
    drawn = [
        base.transform_filter("datum.role == 'component'")
        .mark_rect()
        .encode(fill=alt.Fill("colour:N", scale=None)),
        base.transform_filter("datum.role != 'component'")
        .mark_rect(strokeDash=[3, 2], strokeWidth=1.2, fillOpacity=0.35)
        .encode(fill=alt.Fill("colour:N", scale=None), stroke=alt.Stroke("colour:N", scale=None)),
    ]
    excess = [_excess(box) for box in layout.boxes if box.node.excess_mj > 0]
    if excess:
        over = alt.Chart(theme.rows(excess)).encode(x=x, x2="right:Q", y=y, y2="bottom:Q", tooltip=["said:N"])
        drawn.append(over.mark_rect(filled=False, stroke=theme.EXCESS_COLOUR, strokeDash=[3, 2], strokeWidth=1.6))
    return drawn


def _box(box: Box) -> dict[str, Any]:
    return {
        "x": box.x,
        "right": box.x + _BOX_WIDTH,
        "top": box.top,
        "bottom": box.bottom,
        "kind": box.node.kind,
        "role": box.node.role,
        "count": box.node.count,
        "colour": theme.colour(box.node.kind),
        "said": text.with_limits(box.node.energy, "mJ"),
    }


def _excess(box: Box) -> dict[str, Any]:
    amount = text.quantity(box.node.excess_mj, "mJ")
    return {
        "x": box.x,
        "right": box.x + _BOX_WIDTH,
        "top": box.bottom,
        "bottom": box.bottom + box.node.excess_mj,
        "said": f"the parts of {box.node.kind} exceed it by {amount}",
    }


def _label(box: Box, root: FlowNode) -> dict[str, Any]:
    node = box.node
    times = f" \u00d7{node.count}" if node.count > 1 and node.role == "component" else ""
    share = f" · {text.percent(node.energy.value / root.energy.value)}" if node is not root else ""
    middle = (box.top + box.bottom + node.excess_mj) / 2
    label = f"{node.kind}{times} · {text.quantity(node.energy.value, 'mJ')}{share}"
    return {"x": box.x + _BOX_WIDTH, "top": middle, "label": label}

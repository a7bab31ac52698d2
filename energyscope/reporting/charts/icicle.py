"""The icicle: each component a cell below what it is a part of, as wide as its joules, like a flame graph."""

from __future__ import annotations

from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.data.icicle import IcicleCell, IcicleLayout, IcicleNode, icicle_layout

NARROW = 1 / 700  # of the whole: about a pixel of a page's width; what is narrower stands together
_ROW_PX, _GAP = 38, 0.06  # height of a level, and which share of it stays free below a cell
_LETTER_PX, _PAD_PX = 6.6, 10  # mean width of a letter with 12 px, and what stays free beside a label
_LEAST_LABELLED = 0.012  # of the whole: narrower cells have no room for a label at any width
_LIGHT_INK, _DARK_INK = "#ffffff", "#10161d"
TOGETHER = "narrow parts together"


def icicle(root: IcicleNode, description: str) -> Any:
    """Draw the tree from the model down; rests are pale and dashed, what is below grade C hollow and dashed."""
    alt = theme.altair()
    layout, whole = icicle_layout(root, NARROW), root.energy.value
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, layout.width], nice=False))
    down = alt.Scale(domain=[0, layout.depth], reverse=True, nice=False)
    y = alt.Y("y:Q", axis=None, scale=down)
    records = [_record(cell, root, layout) for cell in layout.cells]
    base = theme.compact(records).transform_calculate(**_DEFAULTS)
    base = base.transform_calculate(
        of=f"format({_SHARE.format(whole=f'{whole:.7g}')}, '.1%') + ' of the model' + datum.up"
    )
    base = base.encode(x=x, x2="x2:Q", y=y, y2="y2:Q", opacity=theme.faded(), tooltip=_tooltip())
    kinds = dict.fromkeys(record.get("kind", _SEVERAL) for record in records)
    colours = {kind: theme.colour(kind) for kind in kinds}
    palette = alt.Scale(domain=list(colours), range=list(colours.values()))
    fill = alt.Fill("paint:N", scale=palette, legend=None)
    layers = [base.transform_filter("datum.drawn == null").mark_rect(style=theme.CUT).encode(fill=fill)]
    layers += [
        base.transform_filter(f"datum.drawn == '{drawn}'")
        .mark_rect(strokeDash=dash, strokeWidth=1, fillOpacity=opacity)
        .encode(fill=fill, stroke=alt.Stroke("paint:N", scale=palette, legend=None))
        for drawn, (dash, opacity) in _OUTLINED.items()
        if any(record.get("drawn") == drawn for record in records)
    ]
    excess = [_excess(cell, layout) for cell in layout.cells if cell.node and cell.node.excess_mj > 0]
    if excess:
        over = alt.Chart(theme.rows(excess)).encode(x=x, x2="x2:Q", y=y, y2="y2:Q", tooltip=["said:N"])
        layers.append(over.mark_rect(filled=False, stroke=theme.EXCESS_COLOUR, strokeDash=[3, 2], strokeWidth=1.6))
    chart = theme.linked(alt.layer(*layers, *_labels(alt, records, (x, down), layout.width)), _kinds(records))
    return theme.finish(chart, description, _ROW_PX * layout.depth)


_DEFAULTS = {  # what follows of the other fields, or most cells would say, and so do not hold
    "name": "datum.name == null ? datum.component : datum.name",
    "y2": f"datum.y + {1 - _GAP}",
    "up": "datum.up == null ? '' : ', ' + format(datum.up, '.1%') + ' of what it is in'",
    "paint": "datum.kind == null ? 'other' : datum.kind",  # of several kinds, which no click can mean
    "own": "datum.own == null ? (datum.drawn == 'together' ? '' : 'all of it') : datum.own",
    "measured": "datum.measured == null ? (datum.drawn == 'together' ? '' : 'by itself') : datum.measured",
}
_SHARE = "(datum.share == null ? (datum.x2 - datum.x) / {whole} : datum.share)"  # widths leave out what is below 0
_SEVERAL = "other"  # the colour of a cell of several kinds
_RESTS = {
    "glue": "with the parts bypassed",
    "unexplained": "as what is left",
    "unattributed": "as what is left",
}
_OUTLINED = {"rest": ([3, 2], 0.3), "hollow": ([4, 3], 0.15), "together": ([1, 0], 0.25)}


def _record(cell: IcicleCell, root: IcicleNode, layout: IcicleLayout) -> dict[str, Any]:
    """Return a cell as a row of the data; what most cells lack is left out, since there may be a thousand."""
    place: dict[str, Any] = {"x": cell.left, "x2": cell.right, "y": cell.depth}
    node = cell.node
    if node is None:
        return {**place, **_together(cell, root)}
    found = {
        **place,
        "kind": node.kind,
        "said": text.with_limits(node.energy, "mJ") + (" \u2020" if node.invalid else ""),
    }
    if node.energy.value < 0:
        found["share"] = round(node.energy.value / root.energy.value, 5)
    if cell.parent is not None and cell.parent is not root and cell.parent.energy.value > 0:
        found["up"] = round(node.energy.value / cell.parent.energy.value, 4)
    if node.component is not None:
        found["component"] = node.component
    else:
        found["name"] = _name(node, cell.parent)
    if node.role != "component" or node.invalid == node.count:
        found["drawn"] = "hollow" if node.invalid == node.count else "rest"
    if node.children:
        found["own"] = _own(node)
    measured = _RESTS.get(node.role, node.origin or ("added up" if node.count > 1 else None))
    if measured is not None:
        found["measured"] = measured
    if cell.right - cell.left >= _LEAST_LABELLED * layout.width:
        found |= _label(node, cell.parent, root)
    return found


def _name(node: IcicleNode, parent: IcicleNode | None) -> str:
    """Return what a cell is called in its tooltip that is not one component."""
    if node.role != "component":
        of = (parent.component or parent.kind) if parent else ""
        return f"{node.kind} of {of}"
    return f"{node.kind} \u00d7{node.count}"


def _own(node: IcicleNode) -> str:
    """Return what a component with parts takes beside them, as its tooltip says it."""
    if node.stack:
        return ""
    return "not known" if node.own is None else text.with_limits(node.own, "mJ")


def _together(cell: IcicleCell, root: IcicleNode) -> dict[str, Any]:
    """Return what a cell of several parts says: how many, of which kinds, their sum, and what is weak in it.

    It has no kind: what it stands for is no one thing that other charts could highlight.
    """
    kinds = list(dict.fromkeys(node.kind for node in cell.nodes))
    energy, weak = sum(node.energy.value for node in cell.nodes), sum(node.invalid for node in cell.nodes)
    return {
        "name": f"{len(cell.nodes)} {TOGETHER}: {text.listed(kinds, 6)}",
        "drawn": "together",
        "said": text.quantity(energy, "mJ") + (f", {weak} below grade C" if weak else ""),
        "share": round(energy / root.energy.value, 5),
    }


def _kinds(records: list[dict[str, Any]]) -> list[str]:
    return [record["kind"] for record in records if "kind" in record]


def _label(node: IcicleNode, parent: IcicleNode | None, root: IcicleNode) -> dict[str, str]:
    """Return the labels of a cell, of which the longest that fits is written."""
    layer = None if node.kind != "layer" else node.layer
    name = node.kind if layer is None else f"layer {layer}"
    if node.count > 1 and node.role == "component":
        name += f" \u00d7{node.count}"
    energy = text.quantity(node.energy.value, "mJ")
    share = energy if node is root else text.percent(node.energy.value / root.energy.value)
    tail = name if parent is None else name.removeprefix(f"{parent.kind}.")
    weak = " \u2020" if node.invalid else ""
    return {
        "long": " \u00b7 ".join(dict.fromkeys([name, energy, share])) + weak,
        "middle": f"{tail} \u00b7 {share}{weak}",
        "short": (tail if layer is None else str(layer)) + weak,
        "ink": _LIGHT_INK if _is_dark(theme.colour(node.kind)) else _DARK_INK,
    }


def _is_dark(colour: str) -> bool:
    """Whether white text reads better on a colour than black text (contrast as in WCAG 2)."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05


def _excess(cell: IcicleCell, layout: IcicleLayout) -> dict[str, Any]:
    node = cell.nodes[0]
    amount = text.quantity(node.excess_mj, "mJ")
    return {
        "x": cell.right,
        "x2": min(cell.right + node.excess_mj + min(node.energy.value, 0.0), layout.width),
        "y": cell.depth,
        "y2": cell.depth + 1 - _GAP,
        "said": f"what is drawn below {node.component or node.kind} exceeds it by {amount}",
    }


def _tooltip() -> list[Any]:
    alt = theme.altair()
    titles = {"name": "component", "said": "energy", "of": "share", "own": "self", "measured": "measured"}
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in titles.items()]


def _labels(alt: Any, records: list[dict[str, Any]], axes: tuple[Any, Any], across: float) -> list[Any]:
    """Return the labels on solid cells, in black or white, and those on pale ones in the theme's ink."""
    room = f"((datum.x2 - datum.x) / {across:.7g} * width - {_PAD_PX}) / {_LETTER_PX}"
    fits = " : ".join(f"datum.room >= length(datum.{name}) ? datum.{name}" for name in ("long", "middle", "short"))
    written = (
        theme.compact(records)
        .transform_filter("datum.short != null")
        .transform_calculate(room=room, middle_y=f"datum.y + {(1 - _GAP) / 2}")
        .transform_calculate(label=f"{fits} : ''")
        .encode(
            x=axes[0], y=alt.Y("middle_y:Q", scale=axes[1], axis=None), text="label:N", opacity=theme.faded_text()
        )
    )
    solid = written.transform_filter("datum.drawn == null").mark_text(
        align="left", baseline="middle", dx=5, fontSize=12
    )
    pale = written.transform_filter("datum.drawn != null")
    pale = pale.mark_text(style=theme.INK_TEXT, align="left", baseline="middle", dx=5)
    return [solid.encode(color=alt.Color("ink:N", scale=None)), pale]

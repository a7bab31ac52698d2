"""Where the energy goes: bars by kind, bars by layer, and the layer x component heatmap."""

from __future__ import annotations

from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.data.energy import Cell, KindEnergy

_ROW_PX = 25
_SOLID, _DASHED = [1, 0], [4, 3]


def by_kind(kinds: list[KindEnergy], description: str, word: str = "Energy") -> Any:
    """Draw a bar for each kind, split into static and dynamic where known, with its 95 % interval."""
    alt = theme.altair()
    divisor, unit = text.scale_of(max(abs(entry.energy.value) for entry in kinds), "mJ")
    order = [entry.kind for entry in kinds]
    y = alt.Y("kind:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False, labelPadding=6))
    right = max(entry.energy.high or entry.energy.value for entry in kinds) / divisor
    left = min(0.0, *(entry.energy.low or entry.energy.value for entry in kinds)) / divisor
    x = alt.X(
        "start:Q",
        title=f"{word} per forward pass ({unit})",
        scale=alt.Scale(domain=[left, right * 1.62], nice=False),
    )
    parts = [part for entry in kinds for part in _bar_parts(entry, divisor)]
    bars = alt.Chart(theme.rows(parts)).mark_bar(height={"band": 0.66})
    bars = bars.encode(
        x=x,
        x2="end:Q",
        y=y,
        color=alt.Color("colour:N", scale=None),
        fillOpacity=alt.FillOpacity("fill:Q", scale=None),
        stroke=alt.Stroke("colour:N", scale=None),
        strokeDash=alt.StrokeDash("dash:N", scale=None),
        tooltip=[alt.Tooltip("kind:N"), alt.Tooltip("part:N"), alt.Tooltip("said:N", title="energy")],
    )
    totals = alt.Chart(theme.rows([_bar_total(entry, divisor) for entry in kinds])).encode(y=y)
    errors = totals.mark_rule(style=theme.INK_LINE).encode(x="low:Q", x2="high:Q")
    labels = totals.mark_text(style=theme.INK_TEXT, align="left", dx=7).encode(x="edge:Q", text="label:N")
    return theme.finish(alt.layer(bars, errors, labels), description, 27 * len(kinds))


def _bar_parts(entry: KindEnergy, divisor: float) -> list[dict[str, Any]]:
    said = text.with_limits(entry.energy, "mJ")
    solid = entry.role == "component"
    shared = {
        "kind": entry.kind,
        "colour": theme.colour(entry.kind),
        "said": said,
        "dash": _SOLID if solid else _DASHED,
    }
    value = entry.energy.value / divisor
    if entry.static_mj is None or entry.dynamic_mj is None or value < 0:
        return [{**shared, "part": "all", "start": 0.0, "end": value, "fill": 0.92 if solid else 0.3}]
    static = entry.static_mj / divisor
    faint, full = (0.42, 0.95) if solid else (0.15, 0.35)
    return [
        {**shared, "part": f"static {text.quantity(entry.static_mj, 'mJ')}", "start": 0.0, "end": static,
         "fill": faint},
        {**shared, "part": f"dynamic {text.quantity(entry.dynamic_mj, 'mJ')}", "start": static, "end": value,
         "fill": full},
    ]  # fmt: skip


def _bar_total(entry: KindEnergy, divisor: float) -> dict[str, Any]:
    low, high = entry.energy.low, entry.energy.high
    share = f"  ·  {text.percent(entry.share.value)}" if entry.share else ""
    weak = " \u2020" if entry.invalid else ""
    return {
        "kind": entry.kind,
        "low": None if low is None else low / divisor,
        "high": None if high is None else high / divisor,
        "edge": max(high if high is not None else entry.energy.value, 0.0) / divisor,
        "label": text.quantity(entry.energy.value, "mJ") + share + weak,
    }


def by_layer(layers: list[Cell], description: str, word: str = "Energy") -> Any:
    """Draw a bar for each layer as measured by itself, with its 95 % interval; invalid ones are hollow."""
    alt = theme.altair()
    known = [(cell, cell.energy) for cell in layers if cell.energy]
    divisor, unit = text.scale_of(max(energy.value for _, energy in known), "mJ")
    records = [
        {
            "layer": cell.layer,
            "component": cell.component,
            "value": energy.value / divisor,
            "low": None if energy.low is None else energy.low / divisor,
            "high": None if energy.high is None else energy.high / divisor,
            "said": text.with_limits(energy, "mJ"),
            "reused": _measured(cell, "measured on this layer"),
            "fill": 0.15 if cell.invalid else 0.8,
            "dash": _DASHED if cell.invalid else _SOLID,
        }
        for cell, energy in known
    ]
    base = alt.Chart(theme.rows(records)).encode(
        x=alt.X("layer:O", title="Layer", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        tooltip=["component:N", alt.Tooltip("said:N", title="energy"), alt.Tooltip("reused:N", title="value")],
    )
    bars = base.mark_bar(color=theme.colour("layer"), stroke=theme.colour("layer")).encode(
        y=alt.Y("value:Q", title=f"{word} ({unit})", axis=alt.Axis(tickCount=4)),
        fillOpacity=alt.FillOpacity("fill:Q", scale=None),
        strokeDash=alt.StrokeDash("dash:N", scale=None),
    )
    errors = base.mark_rule(style=theme.INK_LINE).encode(y="low:Q", y2="high:Q")
    return theme.finish(alt.layer(bars, errors), description, 170)


def _measured(cell: Cell, here: str) -> str:
    where = cell.origin or here
    return f"{where}, invalid" if cell.invalid else where


def heatmap(cells: list[Cell], description: str, word: str = "Energy") -> Any:
    """Draw a cell for each component of each layer; a stroke marks one of other layers, a cross an invalid one."""
    known = [(cell, cell.energy) for cell in cells if cell.energy]
    divisor, unit = text.scale_of(max(energy.value for _, energy in known), "mJ")
    records = [
        {
            "row": cell.row,
            "layer": cell.layer,
            "component": cell.component,
            "value": energy.value / divisor,
            "said": text.with_limits(energy, "mJ"),
            "measured": _measured(cell, "on this layer"),
            "reused": cell.reused,
            "invalid": cell.invalid,
        }
        for cell, energy in known
    ]
    order = list(dict.fromkeys(cell.row for cell in cells))
    return grid(records, order, f"{word} ({unit})", theme.altair().Scale(scheme="viridis"), description)


def _hatch(columns: int) -> dict[str, Any]:
    """Return the strokes that mark a cell, as many as fit into its width."""
    room = 800 / max(columns, 1)
    half = min(_ROW_PX * 0.4, room * 0.4)
    strokes = max(min(int(room / (half * 3.2)), 7), 1)
    starts = [2 * index - strokes + 1 for index in range(strokes)]
    return {"shape": " ".join(f"M{x - 1},1L{x + 1},-1" for x in starts), "size": (2 * half) ** 2}


def grid(records: list[dict[str, Any]], order: list[str], title: str, scale: Any, description: str) -> Any:
    """Draw a layer x row heatmap.

    The records hold ``row``, ``layer``, ``value``, ``component``, ``said``, ``measured``, ``reused``, ``invalid``.
    """
    alt = theme.altair()
    values = [record["value"] for record in records]
    middle = (min(values) + max(values)) / 2
    for record in records:
        record["stroke"] = "#ffffff" if record["value"] < middle else "#000000"
    base = alt.Chart(theme.rows(records)).encode(
        x=alt.X(
            "layer:O", title="Layer", axis=alt.Axis(labelAngle=0, labelOverlap=True, domain=False, ticks=False)
        ),
        y=alt.Y("row:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False, labelPadding=6)),
        tooltip=["component:N", alt.Tooltip("said:N", title=title), alt.Tooltip("measured:N")],
    )
    legend = alt.Legend(orient="top", gradientLength=180, gradientThickness=10, titleLimit=360)
    rects = base.mark_rect(cornerRadius=2).encode(
        color=alt.Color("value:Q", title=title, scale=scale, legend=legend)
    )
    strokes = base.transform_filter("datum.reused").mark_point(
        strokeWidth=1.1, filled=False, opacity=0.6, **_hatch(len({record["layer"] for record in records}))
    )
    strokes = strokes.encode(stroke=alt.Stroke("stroke:N", scale=None))
    crosses = base.transform_filter("datum.invalid").mark_point(
        strokeWidth=1.6, filled=False, opacity=0.9, shape="M-1,-1L1,1M-1,1L1,-1", size=(_ROW_PX * 0.4) ** 2
    )
    crosses = crosses.encode(stroke=alt.Stroke("stroke:N", scale=None))
    return theme.finish(alt.layer(rects, strokes, crosses), description, _ROW_PX * len(order))

"""Energy against impact: a point for each leaf component, with both intervals and the quadrants' limits."""

from __future__ import annotations

from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.charts.theme import Magnitude
from energyscope.reporting.data.correlate import UNDECIDED, CorrelationData, Point, impact_title

_MOST_LABELS = 9
_LABEL_ROOM = (0.17, 0.055)  # of the width and the height


def scatter(data: CorrelationData, description: str, word: str = "Energy") -> Any:
    """Draw the scatter; points whose interval crosses a limit are hollow, since their quadrant is undecided."""
    alt = theme.altair()
    divisor, unit = text.scale_of(max(abs(point.energy.value) for point in data.points), "mJ")
    records = [_record(point, divisor) for point in data.points]
    kinds = sorted({point.kind for point in data.points})
    across = theme.magnitude([record["energy"] for record in records])
    up = theme.magnitude([record["impact"] for record in records])
    title = f"{word} per forward pass ({unit})"
    x = alt.X("energy:Q", title=title, scale=across.scale(), axis=across.axis())
    y = alt.Y("impact:Q", title=impact_title(data.impact), scale=up.scale(), axis=up.axis())
    base = alt.Chart(theme.rows(records)).encode(
        color=alt.Color(
            "kind:N",
            title=None,
            sort=kinds,
            scale=alt.Scale(domain=kinds, range=[theme.colour(kind) for kind in kinds]),
            legend=alt.Legend(
                orient="bottom", columns=4, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=4
            ),
        )
    )
    tooltip = [
        "component:N",
        "kind:N",
        alt.Tooltip("energy_said:N", title="energy"),
        alt.Tooltip("impact_said:N", title="impact"),
        "quadrant:N",
    ]
    sideways = base.mark_rule(opacity=0.55).encode(x=alt.X("energy_low:Q"), x2="energy_high:Q", y=y)
    upright = base.mark_rule(opacity=0.55).encode(x=x, y=alt.Y("impact_low:Q"), y2="impact_high:Q")
    points = base.mark_point(size=75, strokeWidth=2, opacity=1).encode(
        x=x,
        y=y,
        fill=alt.Fill("colour:N", scale=None),
        fillOpacity=alt.condition("datum.quadrant == 'undecided'", alt.value(0.0), alt.value(0.9)),
        tooltip=tooltip,
    )  # fmt: skip
    named = alt.Chart(theme.rows(_labelled(data.points, records, across, up))).encode(x=x, y=y, text="label:N")
    labels = [
        named.transform_filter("!datum.right").mark_text(style=theme.FAINT_TEXT, align="left", dx=8, dy=-8),
        named.transform_filter("datum.right").mark_text(style=theme.FAINT_TEXT, align="right", dx=-8, dy=-8),
    ]
    layers = [*_limits(alt, data, divisor), sideways, upright, points, *labels]
    return theme.finish(alt.layer(*layers), description, 420)


def _record(point: Point, divisor: float) -> dict[str, Any]:
    energy, impact = point.energy, point.impact
    return {
        "component": point.component,
        "kind": point.kind,
        "colour": theme.colour(point.kind),
        "energy": energy.value / divisor,
        "energy_low": _shown(energy.low, energy.value) / divisor,
        "energy_high": (energy.value if energy.high is None else energy.high) / divisor,
        "impact": impact.value,
        "impact_low": _shown(impact.low, impact.value),
        "impact_high": impact.value if impact.high is None else impact.high,
        "energy_said": text.with_limits(energy, "mJ"),
        "impact_said": text.with_limits(impact, ""),
        "quadrant": point.quadrant,
    }


def _shown(low: float | None, value: float) -> float:
    """Return the lower end of a drawn interval; a logarithmic axis cannot show one that reaches zero."""
    if low is None:
        return value
    return value * 1e-2 if low <= 0 < value else low


def _limits(alt: Any, data: CorrelationData, divisor: float) -> list[Any]:
    drawn = []
    if data.energy_threshold_mj is not None:
        line = alt.Chart(theme.rows([{"energy": data.energy_threshold_mj / divisor}]))
        drawn.append(line.mark_rule(style=theme.FAINT_LINE).encode(x="energy:Q"))
    if data.impact_threshold is not None:
        line = alt.Chart(theme.rows([{"impact": data.impact_threshold}]))
        drawn.append(line.mark_rule(style=theme.FAINT_LINE).encode(y="impact:Q"))
    return drawn


def _labelled(
    points: list[Point], records: list[dict[str, Any]], x: Magnitude, y: Magnitude
) -> list[dict[str, Any]]:
    """Choose the points to name: the largest, then the most unequal, as long as their labels do not meet."""
    across = _between([x.position(record["energy"]) for record in records])
    up = _between([y.position(record["impact"]) for record in records])
    order = sorted(range(len(points)), key=lambda index: -(across[index] + up[index]))[:3]
    order += sorted(range(len(points)), key=lambda index: -abs(across[index] - up[index]))
    chosen: list[int] = []
    for index in dict.fromkeys(order):
        meets = any(
            abs(across[index] - across[other]) < _LABEL_ROOM[0] and abs(up[index] - up[other]) < _LABEL_ROOM[1]
            for other in chosen
        )
        if not meets and points[index].quadrant != UNDECIDED and len(chosen) < _MOST_LABELS:
            chosen.append(index)
    return [{**records[index], "label": _label(points[index]), "right": across[index] > 0.8} for index in chosen]


def _label(point: Point) -> str:
    return point.kind if point.layer is None else f"{point.kind} {point.layer}"


def _between(positions: list[float]) -> list[float]:
    """Shift and scale positions to 0 to 1."""
    low, width = min(positions), max(positions) - min(positions)
    return [(position - low) / width if width else 0.5 for position in positions]

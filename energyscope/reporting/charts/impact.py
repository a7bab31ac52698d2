"""What the components are worth: impact by kind and method, and the layer x component heatmap."""

from __future__ import annotations

from typing import Any

from energyscope.reporting.charts import theme
from energyscope.reporting.charts.profile import grid
from energyscope.reporting.data.impact import ImpactData, ImpactPoint, method_title, metric_title, value_text


def by_kind(data: ImpactData, metric: str, description: str) -> Any:
    """Draw each kind's mean impact as a dot, its components from smallest to largest as a line, by method."""
    alt = theme.altair()
    entries = data.of_metric(metric)
    records = [
        {
            "kind": entry.kind,
            "method": method_title(entry.method),
            "mean": entry.mean,
            "low": entry.low,
            "high": entry.high,
            "said": value_text(entry.mean, metric),
            "range": f"{value_text(entry.low, metric)} to {value_text(entry.high, metric)}",
            "count": entry.count,
        }
        for entry in entries
    ]
    size = theme.magnitude([value for entry in entries for value in (entry.low, entry.mean, entry.high)])
    methods = [method_title(method) for method in data.methods]
    base = alt.Chart(theme.rows(records)).encode(
        y=alt.Y(
            "kind:N",
            sort=list(dict.fromkeys(entry.kind for entry in entries)),
            title=None,
            axis=alt.Axis(ticks=False, domain=False, grid=True, labelPadding=6),
        ),
        yOffset=alt.YOffset("method:N", sort=methods, scale=alt.Scale(paddingOuter=0.4)),
        color=alt.Color(
            "method:N",
            sort=methods,
            title=None,
            scale=alt.Scale(domain=methods, range=list(theme.METHOD_COLOURS[: len(methods)])),
            legend=alt.Legend(orient="top", symbolOpacity=1),
        ),
        tooltip=[
            "kind:N",
            "method:N",
            alt.Tooltip("said:N", title="mean"),
            alt.Tooltip("range:N", title="components"),
            alt.Tooltip("count:Q", title="components averaged"),
        ],
    )
    lines = base.mark_rule(strokeWidth=2, opacity=0.45).encode(
        x=alt.X("low:Q", scale=size.scale(), axis=size.axis(), title=metric_title(metric)), x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="mean:Q", shape=alt.Shape("method:N", sort=methods, legend=None)
    )
    zero = alt.Chart(theme.rows([{"x": 0}])).mark_rule(style=theme.FAINT_LINE).encode(x="x:Q")
    layers = [zero, lines, dots] if min(entry.low for entry in entries) <= 0 else [lines, dots]
    return theme.finish(alt.layer(*layers), description, 16 * len(entries) + 12)


def heatmap(points: list[ImpactPoint], metric: str, description: str) -> Any:
    """Draw the impact of each component of each layer, coloured by the cube root so that small ones show."""
    inside = [point for point in points if point.layer is not None and point.metric == metric]
    records = [
        {
            "row": point.row,
            "layer": point.layer,
            "component": point.component,
            "value": point.value.value,
            "said": value_text(point.value.value, metric),
            "measured": "on this layer",
            "reused": False,
            "invalid": False,
        }
        for point in inside
    ]
    order = list(dict.fromkeys(point.row for point in inside))
    positive = min(point.value.value for point in inside) >= 0
    alt = theme.altair()
    scale = alt.Scale(scheme="magma", type="pow", exponent=1 / 3) if positive else alt.Scale(scheme="magma")
    return grid(records, order, metric_title(metric), scale, description)

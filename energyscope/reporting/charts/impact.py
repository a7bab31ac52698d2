"""What the components are worth: impact by kind and method, heat maps by layer, and own against final change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from energyscope.reporting.charts import theme
from energyscope.reporting.data.cascade import Cascade
from energyscope.reporting.data.impact import HEAD_KINDS, ImpactData, ImpactPoint
from energyscope.reporting.data.impact_words import limited_text, method_title, short_title, value_text

ATTENTION = "attention"
ROW_PX, LOW_ROW_PX, FEW_ROWS = 25, 14, 24
MOST_METHODS = len(theme.METHOD_COLOURS)
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")  # one for each of METHOD_COLOURS
_NOISE = 1e-3  # values that are negative by less than this share of the largest are all but zero


def by_kind(data: ImpactData, metric: str, description: str, methods: Sequence[str] | None = None) -> Any:
    """Draw each kind's mean impact as a dot, its components from smallest to largest as a line, by method.

    ``methods`` are those to draw, at most `MOST_METHODS`, for which there are colours.
    """
    alt = theme.altair()
    chosen = list(data.methods if methods is None else methods)[:MOST_METHODS]
    entries = [entry for entry in data.of_metric(metric) if entry.method in chosen]
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
    titles = [method_title(method) for method in chosen]
    base = alt.Chart(theme.rows(records)).encode(
        y=alt.Y(
            "kind:N",
            sort=list(dict.fromkeys(entry.kind for entry in entries)),
            title=None,
            axis=alt.Axis(ticks=False, domain=False, grid=True, labelPadding=6),
        ),
        yOffset=alt.YOffset("method:N", sort=titles, scale=alt.Scale(paddingOuter=0.4)),
        color=_method_colours(titles),
        tooltip=[
            "kind:N",
            "method:N",
            alt.Tooltip("said:N", title="mean"),
            alt.Tooltip("range:N", title="components"),
            alt.Tooltip("count:Q", title="components averaged"),
        ],
    )
    lines = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", scale=size.scale(), axis=size.axis(), title=short_title(metric)),
        x2="high:Q",
        opacity=theme.faded(0.45),
    )
    dots = base.mark_point(filled=True, size=70 if len(titles) < 4 else 50).encode(
        x="mean:Q", shape=shapes("method", titles), opacity=theme.faded()
    )
    zero = alt.Chart(theme.rows([{"x": 0}])).mark_rule(style=theme.FAINT_LINE).encode(x="x:Q")
    layers = [zero, lines, dots] if min(entry.low for entry in entries) <= 0 else [lines, dots]
    pitch = 16 if len(titles) < 4 else 12
    chart = theme.linked(alt.layer(*layers), (entry.kind for entry in entries))
    return theme.finish(chart, description, pitch * len(entries) + 12)


def _method_colours(titles: list[str]) -> Any:
    alt = theme.altair()
    return alt.Color(
        "method:N",
        sort=titles,
        title=None,
        scale=alt.Scale(domain=titles, range=list(theme.METHOD_COLOURS[: len(titles)])),
        legend=_legend(),
    )


def shapes(field: str, titles: list[str]) -> Any:
    """Return the shapes of marks whose colours tell the same apart, so that one legend shows both."""
    alt = theme.altair()
    scale = alt.Scale(domain=titles, range=list(_SHAPES[: len(titles)]))
    return alt.Shape(f"{field}:N", sort=titles, title=None, scale=scale, legend=_legend())


def _legend() -> Any:
    return theme.altair().Legend(orient="top", symbolOpacity=1, columns=1)


def heatmap(points: list[ImpactPoint], metric: str, description: str) -> Any:
    """Draw the impact of each component of each layer."""
    inside = [point for point in points if point.layer is not None and point.metric == metric]
    records = [
        {
            "column": point.layer,
            "row": point.row,
            "kind": point.kind,
            "component": point.component,
            "value": point.value.value,
            "said": limited_text(point.value, metric),
        }
        for point in inside
    ]
    rows = list(dict.fromkeys(point.row for point in inside))
    return cells(records, rows, ("Layer", None), short_title(metric), description)


def heads(points: list[ImpactPoint], metric: str, description: str) -> Any:
    """Draw the impact of each attention head, or group of heads, of each layer."""
    records = [
        {
            "column": point.layer,
            "row": head_number(point),
            "name": point.component,
            "kind": ATTENTION,
            "component": attention_of(point),
            "value": point.value.value,
            "said": limited_text(point.value, metric),
        }
        for point in points
    ]
    rows = sorted({head_number(point) for point in points})
    title = "Head" if points[0].kind == HEAD_KINDS[0] else "Key-value group"
    return cells(records, rows, ("Layer", title), short_title(metric), description)


def attention_of(point: ImpactPoint) -> str:
    """Return the attention that a head, or group of heads, is part of: the charts of energy go no deeper."""
    return point.component.rsplit(".", 2)[0]


def head_number(point: ImpactPoint) -> int:
    """Return which head, or group of heads, of its layer a point is about: its name ends with it."""
    return int(point.component.rpartition(".")[2])


def cells(
    records: list[dict[str, Any]],
    rows: Sequence[Any],
    axes: tuple[str, str | None],
    title: str,
    description: str,
    groups: Sequence[theme.Group] = (),
) -> Any:
    """Draw a heat map; ``axes`` are the titles of its columns and rows, ``title`` that of its colours.

    The records hold ``column``, ``row``, ``kind``, ``value`` and ``said``, and the ``component`` or the ``group``
    that links them; where they are called otherwise, ``name``. Those with ``mark`` get a dot.
    Where the values span decades the colours are logarithmic, with zeros at the dark end.
    """
    alt = theme.altair()
    scale, ticks = colours([record["value"] for record in records])
    pitch = ROW_PX if len(rows) <= FEW_ROWS else LOW_ROW_PX
    kinds = {record["kind"] for record in records}
    name = "name" if any("name" in record for record in records) else "component"
    base = theme.compact(records).encode(
        x=alt.X(
            "column:O", title=axes[0], axis=alt.Axis(labelAngle=0, labelOverlap=True, domain=False, ticks=False)
        ),
        y=alt.Y(
            "row:O",
            sort=list(rows),
            title=axes[1],
            axis=alt.Axis(domain=False, ticks=False, labelPadding=6, labelOverlap=pitch == LOW_ROW_PX),
        ),
        tooltip=[alt.Tooltip(f"{name}:N", title="component"), alt.Tooltip("said:N", title=title)],
    )
    legend = alt.Legend(
        orient="top", gradientLength=170, gradientThickness=10, titleLimit=220, format=theme.PLAIN,
        labelExpr=theme.LABEL,
        **({"values": ticks} if ticks else {}),
    )  # fmt: skip
    rects = base.mark_rect(cornerRadius=2).encode(
        color=alt.Color("value:Q", title=title, scale=scale, legend=legend),
        opacity=theme.faded(),
    )
    dots = (
        base.transform_filter("datum.mark")
        .mark_point(filled=True, size=40, fill="#ffffff", stroke="#000000", strokeWidth=1)
        .encode(opacity=theme.faded())
    )
    drawn = alt.layer(rects, dots) if any(record.get("mark") for record in records) else alt.layer(rects)
    return theme.finish(theme.linked(drawn, kinds, groups), description, pitch * len(rows))


def colours(values: list[float]) -> tuple[Any, list[float] | None]:
    """Return the colour scale of a heat map and its ticks, None where the scale's own will do.

    Values of both signs get two hues that meet at zero.
    """
    alt = theme.altair()
    size = theme.magnitude(values)
    options: dict[str, Any] = {} if size.type == "linear" else {"type": size.type}
    if size.type == "symlog":
        options["constant"] = size.constant
    most = max(map(abs, values))
    if min(values) < -_NOISE * most:
        return alt.Scale(scheme="purpleorange", domain=[-most, most], **options), _thinned(size.ticks)
    return alt.Scale(scheme="magma", **options), _thinned(size.ticks)


def _thinned(ticks: list[float] | None) -> list[float] | None:
    """Leave as many ticks as can be read beneath a gradient."""
    return ticks[:: -(-len(ticks) // 4)] if ticks else None


def cascade(found: list[Cascade], description: str) -> Any:
    """Draw each component's relative change of its own output against its effect at the model's end, by kind."""
    alt = theme.altair()
    kinds = sorted({item.kind for item in found})
    records = [
        {
            "component": item.component,
            "kind": item.kind,
            "own": item.own,
            "end": item.end.value,
            "low": item.end.low,
            "high": item.end.high,
            "said": limited_text(item.end, "kl"),
            "changed": value_text(item.own, "output_change"),
        }
        for item in found
    ]
    across = theme.magnitude([item.own for item in found])
    ends = [value for item in found for value in (item.end.value, item.end.low, item.end.high)]
    up = theme.magnitude([value for value in ends if value is not None])
    base = alt.Chart(theme.rows(records)).encode(
        x=alt.X("own:Q", scale=across.scale(), axis=across.axis(), title="Relative change of the own output"),
        color=alt.Color(
            "kind:N",
            title=None,
            scale=alt.Scale(domain=kinds, range=[theme.colour(kind) for kind in kinds]),
            legend=alt.Legend(orient="top", symbolOpacity=1, columns=2),
        ),
        tooltip=[
            "component:N",
            "kind:N",
            alt.Tooltip("changed:N", title="own output"),
            alt.Tooltip("said:N", title=short_title("kl")),
        ],
    )
    y = alt.Y("end:Q", scale=up.scale(), axis=up.axis(), title=short_title("kl"))
    dots = base.mark_point(filled=True, size=45).encode(y=y, opacity=theme.faded(0.85))
    if not any(item.end.known for item in found):
        return theme.finish(theme.linked(dots, kinds), description, 320)
    limits = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("low:Q", scale=up.scale(), axis=up.axis(), title=short_title("kl")),
        y2="high:Q",
        opacity=theme.faded(0.5),
    )
    return theme.finish(theme.linked(alt.layer(limits, dots), kinds), description, 320)

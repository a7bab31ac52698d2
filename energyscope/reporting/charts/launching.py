"""Eager execution and a CUDA graph side by side, for each kind of component."""

from __future__ import annotations

from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.data.execution import CUDA_GRAPH, EAGER, name_of
from energyscope.reporting.data.launching import Launched
from energyscope.runs.intervals import Interval

COLOURS = {name_of(EAGER): "#0a7abf", name_of(CUDA_GRAPH): "#e69f00"}
_SOLID, _DASHED = [1, 0], [4, 3]
_ROW_PX, _NARROW_PX = 40, 300  # below that width, a graph's bar has its share alone beside it


def by_execution(kinds: list[Launched], description: str, word: str, unit_of: str) -> Any:
    """Draw two bars for each kind, eager above the graph's, with their 95 % intervals; hollow: below grade C."""
    alt = theme.altair()
    both = [item for entry in kinds for item in (entry.eager, entry.graph)]
    divisor, unit = text.scale_of(max(abs(item.value) for item in both), "mJ")
    right = max(item.value if item.high is None else item.high for item in both) / divisor
    left = min(0.0, *(item.value if item.low is None else item.low for item in both)) / divisor
    records = [
        _record(entry, name, item, divisor)
        for entry in kinds
        for name, item in ((EAGER, entry.eager), (CUDA_GRAPH, entry.graph))
    ]
    order = [entry.kind for entry in kinds]
    base = alt.Chart(theme.rows(records)).encode(
        y=alt.Y("kind:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False, labelPadding=6)),
        yOffset=alt.YOffset("execution:N", sort=list(COLOURS)),
    )
    bars = base.mark_bar().encode(
        x=alt.X(
            "zero:Q",
            title=f"{word} per {unit_of} ({unit})",
            scale=alt.Scale(domain=[left, right * 1.62], nice=False),
            axis=alt.Axis(tickCount=7, labelOverlap=True),
        ),
        x2="value:Q",
        color=alt.Color(
            "execution:N",
            scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
            legend=alt.Legend(title=None, orient="top"),
        ),
        fillOpacity=alt.FillOpacity("fill:Q", scale=None),
        strokeDash=alt.StrokeDash("dash:N", scale=None),
        opacity=theme.faded(),
        tooltip=[alt.Tooltip("kind:N"), alt.Tooltip("execution:N"), alt.Tooltip("said:N", title="energy")],
    )
    errors = base.transform_filter("datum.low != null").mark_rule(style=theme.INK_LINE)
    errors = errors.encode(x="low:Q", x2="high:Q", opacity=theme.faded())
    shown = f"width < {_NARROW_PX} ? datum.short : datum.label"  # a value that is cut off reads as another one
    labels = base.transform_calculate(shown=shown).mark_text(style=theme.INK_TEXT, align="left", dx=7)
    labels = labels.encode(x="edge:Q", text="shown:N", opacity=theme.faded_text())
    chart = theme.linked(alt.layer(bars, errors, labels), order)
    return theme.finish(chart, description, _ROW_PX * len(kinds))


def _record(entry: Launched, execution: str, item: Interval, divisor: float) -> dict[str, Any]:
    share = entry.share if execution == CUDA_GRAPH else None
    said = text.quantity(item.value, "mJ")
    return {
        "kind": entry.kind,
        "execution": name_of(execution),
        "zero": 0.0,
        "value": item.value / divisor,
        "low": None if item.low is None else item.low / divisor,
        "high": None if item.high is None else item.high / divisor,
        "edge": max(item.value if item.high is None else item.high, 0.0) / divisor,
        "label": f"{said}  ·  {text.percent(share.value)}" if share else said,
        "short": text.percent(share.value) if share else said,
        "said": text.with_limits(item, "mJ"),
        "fill": 0.2 if execution in entry.invalid else 0.88,
        "dash": _DASHED if execution in entry.invalid else _SOLID,
    }

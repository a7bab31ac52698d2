"""Eager execution and a CUDA graph side by side, for each kind of component."""

from __future__ import annotations

from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import grades, theme
from energyscope.reporting.charts.split import fills, split_bar
from energyscope.reporting.data.execution import CUDA_GRAPH, EAGER, name_of
from energyscope.reporting.data.launching import Launched
from energyscope.runs.intervals import Interval

COLOURS = {name_of(EAGER): "#0a7abf", name_of(CUDA_GRAPH): "#e69f00"}
_ROW_PX, _NARROW_PX = 40, 300  # below that width, a graph's bar has its share alone beside it


def by_execution(kinds: list[Launched], description: str, word: str, unit_of: str) -> Any:
    """Draw two bars for each kind, eager above the graph's, with their 95 % intervals; hollow: below grade C.

    Where the dynamic part is known it comes first, solid, so that the work of both is compared from zero; the
    rest, idle power times time, is pale; a bar that cannot be split is neither.
    """
    alt = theme.altair()
    both = [item for entry in kinds for item in (entry.eager, entry.graph)]
    divisor, unit = text.scale_of(max(abs(item.value) for item in both), "mJ")
    right = max(item.value if item.high is None else item.high for item in both) / divisor
    left = min(0.0, *(item.value if item.low is None else item.low for item in both)) / divisor
    split = any(entry.work(name) is not None for entry in kinds for name in (EAGER, CUDA_GRAPH))
    drawn = [
        (entry, name, item) for entry in kinds for name, item in ((EAGER, entry.eager), (CUDA_GRAPH, entry.graph))
    ]
    parts = [part for one in drawn for part in _parts(*one, divisor, split=split)]
    totals = [_total(*one, divisor) for one in drawn]
    order = [entry.kind for entry in kinds]
    rows = {
        "y": alt.Y("kind:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False, labelPadding=6)),
        "yOffset": alt.YOffset("execution:N", sort=list(COLOURS)),
    }
    base = alt.Chart(theme.rows(totals)).encode(**rows)
    bars = (
        alt.Chart(theme.rows(parts))
        .mark_bar()
        .encode(
            **rows,
            x=alt.X(
                "start:Q",
                title=f"{word} per {unit_of} ({unit})",
                scale=alt.Scale(domain=[left, right * 1.62], nice=False),
                axis=alt.Axis(tickCount=7, labelOverlap=True),
            ),
            x2="end:Q",
            color=alt.Color(
                "execution:N",
                scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
                legend=alt.Legend(title=None, orient="top"),
            ),
            **grades.painted(alt.Stroke("colour:N", scale=None)),
            opacity=theme.faded(),
            tooltip=[
                alt.Tooltip("kind:N"),
                alt.Tooltip("execution:N"),
                alt.Tooltip("part:N"),
                alt.Tooltip("said:N", title="energy"),
            ],
        )
    )
    errors = base.transform_filter("datum.low != null").mark_rule(style=theme.INK_LINE)
    errors = errors.encode(x="low:Q", x2="high:Q", opacity=theme.faded())
    shown = f"width < {_NARROW_PX} ? datum.short : datum.label"  # a value that is cut off reads as another one
    labels = base.transform_calculate(shown=shown).mark_text(style=theme.INK_TEXT, align="left", dx=7)
    labels = labels.encode(x="edge:Q", text="shown:N", opacity=theme.faded_text())
    chart = theme.linked(alt.layer(bars, errors, labels), order)
    return theme.finish(chart, description, _ROW_PX * len(kinds))


def _parts(
    entry: Launched, execution: str, item: Interval, divisor: float, *, split: bool
) -> list[dict[str, Any]]:
    hollow = execution in entry.hollow
    shared = {
        "kind": entry.kind,
        "execution": name_of(execution),
        "colour": COLOURS[name_of(execution)],
        "said": text.with_limits(item, "mJ"),
        **grades.paint(hollow=hollow),
    }
    dynamic = entry.work(execution)
    if dynamic is None:
        rest = {"fill": grades.REST, "dash": grades.REST_DASH} if split and not hollow else {}
        return [{**shared, **rest, "part": "all", "start": 0.0, "end": item.value / divisor}]
    return split_bar(shared, item.value, dynamic, divisor, fills(hollow=hollow))


def _total(entry: Launched, execution: str, item: Interval, divisor: float) -> dict[str, Any]:
    share = entry.share if execution == CUDA_GRAPH else None
    said = text.quantity(item.value, "mJ")
    said += grades.dagger(weak=execution in entry.invalid)
    ratio = text.percent(share.value) + grades.dagger(weak=bool(entry.invalid)) if share else ""
    return {
        "kind": entry.kind,
        "execution": name_of(execution),
        "low": None if item.low is None else item.low / divisor,
        "high": None if item.high is None else item.high / divisor,
        "edge": max(item.value if item.high is None else item.high, 0.0) / divisor,
        "label": f"{said}  ·  {ratio}" if ratio else said,
        "short": ratio or said,
    }

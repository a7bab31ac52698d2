"""Components removed together: kinds beside the sums of their single removals, and pairs of layers."""

from __future__ import annotations

from typing import Any

from energyscope.relating.joint import METRIC, MORE
from energyscope.reporting.charts import theme
from energyscope.reporting.charts.impact import cells, shapes
from energyscope.reporting.data.impact_words import limited_text, short_title
from energyscope.reporting.data.joint import LayerPair, Together
from energyscope.runs.intervals import Interval

TOGETHER, SUM = "removed together", "sum of the single removals"
LAYER = "layer"
_COLOURS = (theme.METHOD_COLOURS[4], theme.METHOD_COLOURS[0])


def kinds(found: list[Together], description: str) -> Any:
    """Draw the effect of removing each kind in all layers, and below it the sum of the single ones."""
    alt = theme.altair()
    records = [
        {
            "name": item.name,
            "kind": item.kind,
            **({"group": group_title(item)} if group_title(item) else {}),
            "what": what,
            "value": value.value,
            "low": value.low,
            "high": value.high,
            "said": limited_text(value, METRIC),
            "is": item.verdict or item.reason or "",
        }
        for item in found
        for what, value in ((TOGETHER, item.effect), (SUM, item.single))
        if value is not None
    ]
    known = [value for item in found for value in (item.effect, item.single) if value is not None]
    ends = [end for value in known for end in (value.value, value.low, value.high)]
    size = theme.magnitude([end for end in ends if end is not None])
    base = alt.Chart(theme.rows(records)).encode(
        y=alt.Y(
            "name:N",
            sort=list(dict.fromkeys(item.name for item in found)),
            title=None,
            axis=alt.Axis(ticks=False, domain=False, grid=True, labelPadding=6),
        ),
        yOffset=alt.YOffset("what:N", sort=[TOGETHER, SUM], scale=alt.Scale(paddingOuter=0.4)),
        color=alt.Color(
            "what:N",
            sort=[TOGETHER, SUM],
            title=None,
            scale=alt.Scale(domain=[TOGETHER, SUM], range=list(_COLOURS)),
            legend=alt.Legend(orient="top", symbolOpacity=1, columns=1),
        ),
        tooltip=[alt.Tooltip("name:N", title="kind"), "what:N", alt.Tooltip("said:N", title="KL (nats)"),
                 alt.Tooltip("is:N", title="together is")],
    )  # fmt: skip
    title = short_title(METRIC)
    limits = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=2)
    limits = limits.encode(
        x=alt.X("low:Q", scale=size.scale(), axis=size.axis(), title=title), x2="high:Q", opacity=theme.faded(0.45)
    )
    dots = base.mark_point(filled=True, size=70).encode(
        x=alt.X("value:Q", scale=size.scale(), axis=size.axis(), title=title),
        shape=shapes("what", [TOGETHER, SUM]),
        opacity=theme.faded(),
    )
    groups = [theme.Group(name, item.kind, item.parts) for item in found if (name := group_title(item))]
    chart = theme.linked(alt.layer(limits, dots), (item.kind for item in found), groups)
    return theme.finish(chart, description, 16 * len(records) + 12)


def group_title(item: Together) -> str | None:
    """Return what a joint removal's components are called; None where they are all that layers have of a kind."""
    return None if item.name == item.kind else f"{item.name} in all layers"


def pairs(found: list[LayerPair], description: str) -> Any:
    """Draw the effect of leaving out each pair of layers, single layers on the diagonal, as a triangle."""
    records = [
        {
            "column": pair.first,
            "row": pair.second,
            "name": pair_title(pair),
            "kind": LAYER,
            **({"component": pair.components[0]} if len(pair.components) == 1 else {"group": pair_title(pair)}),
            "value": pair.effect.value,
            "said": f"{limited_text(pair.effect, METRIC)}{_beside(pair.single, pair.verdict)}",
            "mark": pair.verdict == MORE,
        }
        for pair in found
    ]
    rows = sorted({pair.second for pair in found})
    groups = [theme.Group(pair_title(pair), LAYER, pair.components) for pair in found if len(pair.components) > 1]
    return cells(records, rows, ("Layer", "Layer"), short_title(METRIC), description, groups)


def pair_title(pair: LayerPair) -> str:
    """Return what is left out, such as ``"layers 1 and 2"``."""
    return f"layer {pair.first}" if pair.first == pair.second else f"layers {pair.first} and {pair.second}"


def _beside(single: Interval | None, verdict: str | None) -> str:
    return "" if single is None else f"; single: {limited_text(single, METRIC)}; {verdict or 'no verdict'}"

"""How far to trust the numbers: what simpler methods would have said, and the anchors over the passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.data.passes import PassRow
from energyscope.reporting.data.simpler import METHODS, SimplerRow

_SHAPES = {"proportional_mj": "diamond", "naive_mj": "cross"}


def simpler(rows: Sequence[SimplerRow], description: str) -> Any:
    """Draw, for each kind, what every method says relative to this one (%), whose interval is the band."""
    alt = theme.altair()
    order = [row.kind for row in rows]
    y = alt.Y("kind:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False, labelPadding=6))
    x = alt.X(
        "low:Q",
        title="Difference from this method (%)",
        scale=alt.Scale(nice=False, padding=14),
        axis=alt.Axis(tickCount=7, format="+~r"),
    )
    bands = (
        alt.Chart(theme.rows([_band(row) for row in rows]))
        .mark_bar(height={"band": 0.56}, fillOpacity=0.3)
        .encode(
            x=x,
            x2="high:Q",
            y=y,
            fill=alt.Fill("colour:N", scale=None),
            opacity=theme.faded(),
            tooltip=["kind:N", "said:N"],
        )
    )
    titles = list(METHODS.values())
    points = (
        alt.Chart(theme.rows(_points(rows)))
        .mark_point(filled=True, size=85)
        .encode(
            x="apart:Q",
            y=y,
            opacity=theme.faded(),
            color=alt.Color(
                "method:N",
                title=None,
                scale=alt.Scale(domain=titles, range=list(theme.METHOD_COLOURS[: len(titles)])),
                legend=alt.Legend(orient="top", columns=1, symbolOpacity=1),
            ),
            shape=alt.Shape("method:N", title=None, scale=alt.Scale(domain=titles, range=list(_SHAPES.values()))),
            tooltip=["kind:N", "method:N", alt.Tooltip("said:N", title="says"), alt.Tooltip("change:N")],
        )
    )
    zero = alt.Chart(theme.rows([{"x": 0}])).mark_rule(style=theme.INK_LINE).encode(x="x:Q")
    return theme.finish(theme.linked(alt.layer(bands, zero, points), order), description, 27 * len(rows) + 12)


def _band(row: SimplerRow) -> dict[str, Any]:
    """Return this method's interval relative to its value (%); a kind without one has a band of no width."""
    value, low, high = row.energy.value, row.energy.low, row.energy.high
    known = row.energy.known and value > 0
    return {
        "kind": row.kind,
        "colour": theme.colour(row.kind),
        "low": ((low or value) / value - 1) * 100 if known else 0.0,
        "high": ((high or value) / value - 1) * 100 if known else 0.0,
        "said": text.with_limits(row.energy, "mJ"),
    }


def _points(rows: Sequence[SimplerRow]) -> list[dict[str, Any]]:
    return [
        {
            "kind": row.kind,
            "method": title,
            "apart": apart * 100,
            "said": text.quantity(row.value(method), "mJ"),
            "change": text.signed_percent(apart),
        }
        for row in rows
        for method, title in METHODS.items()
        if (apart := row.apart(method)) is not None
    ]


def anchors(passes: Sequence[PassRow], description: str, word: str) -> Any:
    """Draw the whole model's energy at each pass, with its interval where one is known, and their mean."""
    alt = theme.altair()
    known = [(row, row.anchor) for row in passes if row.anchor]
    divisor, unit = text.scale_of(max(anchor.value for _, anchor in known), "mJ")
    records = [
        {
            "pass": row.index,
            "value": anchor.value / divisor,
            "low": None if anchor.low is None else anchor.low / divisor,
            "high": None if anchor.high is None else anchor.high / divisor,
            "said": text.with_limits(anchor, "mJ"),
        }
        for row, anchor in known
    ]
    x = alt.X("pass:O", title="Pass", axis=alt.Axis(labelAngle=0, labelOverlap=True))
    y = alt.Y("value:Q", title=f"{word} ({unit})", scale=alt.Scale(zero=False, padding=14))
    base = alt.Chart(theme.rows(records)).encode(x=x)
    mean = sum(anchor.value for _, anchor in known) / divisor / len(known)
    layers = [
        alt.Chart(theme.rows([{"value": mean}])).mark_rule(style=theme.FAINT_LINE).encode(y=y),
        base.mark_line(color=theme.colour("model"), opacity=0.6).encode(y=y),
        base.mark_point(filled=True, size=70, color=theme.colour("attention"), opacity=1).encode(
            y=y, tooltip=["pass:O", alt.Tooltip("said:N", title="energy")]
        ),
    ]
    if any(anchor.known for _, anchor in known):
        layers.insert(2, base.mark_rule(style=theme.INK_LINE).encode(y=alt.Y("low:Q"), y2="high:Q"))
    return theme.finish(alt.layer(*layers), description, 170)

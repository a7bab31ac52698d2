"""What changing one thing does to the joules per token, relative to the run's own setting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import grades, theme
from energyscope.reporting.charts.benchmark import PLAIN
from energyscope.reporting.data.choices import Choice
from energyscope.runs.intervals import Interval

COLOURS = {
    "batch_size": "#0a7abf",
    "context_length": "#009e73",
    "kv_cache": "#7d6fd0",
    "execution": "#e69f00",
    "attention": "#cc79a7",
    "precision": "#d55e00",
}
_ROW_PX = 26
_WIDE = 3.0  # a span of ratios beyond which the axis is logarithmic


def choices(rows: Sequence[Choice], description: str, word: str) -> Any:
    """Draw a bar from 1, the run's own setting, to each ratio, with its interval; hollow: below grade C."""
    alt = theme.altair()
    known = [(row, row.ratio) for row in rows if row.ratio is not None and row.ratio.value > 0]
    values = [1.0, *(item.value for _, item in known)]
    limits = [end for _, item in known for end in (item.low, item.high) if end is not None]
    low, high = theme.log_domain(values, limits)
    wide = high > _WIDE * low
    low = low if wide else min([*values, *limits])
    records = [_record(row, item, low) for row, item in known]
    order = [record["title"] for record in records]
    y = alt.Y("title:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False, labelPadding=6))
    if wide:
        span = high / low
        scale = alt.Scale(type="log", domain=[low / span**0.04, high * span**0.34], nice=False)
    else:
        pad = max(high - low, 0.02)
        scale = alt.Scale(domain=[low - 0.06 * pad, high + 0.42 * pad], nice=False, zero=False)
    axis = alt.Axis(values=_ticks(low, high), format=PLAIN) if wide else alt.Axis(tickCount=6, format=PLAIN)
    x = alt.X("one:Q", title=f"{word} per token, as a multiple of the run's own setting", scale=scale, axis=axis)
    base = alt.Chart(theme.rows(records)).encode(y=y)
    bars = base.mark_bar(height={"band": 0.62}).encode(
        x=x,
        x2="value:Q",
        color=alt.Color("colour:N", scale=None),
        **grades.painted(alt.Stroke("colour:N", scale=None)),
        tooltip=[alt.Tooltip("title:N", title="changed to"), alt.Tooltip("said:N", title="ratio"),
                 alt.Tooltip("joules:N", title="energy per token"), alt.Tooltip("time:N"), "quality:N"],
    )  # fmt: skip
    errors = base.transform_filter("datum.low !== null").mark_rule(style=theme.INK_LINE)
    errors = errors.encode(x="low:Q", x2="high:Q")
    labels = base.mark_text(style=theme.INK_TEXT, align="left", dx=7).encode(x="edge:Q", text="label:N")
    line = alt.Chart(theme.rows([{"one": 1.0}])).mark_rule(style=theme.FAINT_LINE).encode(x=x)
    return theme.finish(alt.layer(line, bars, errors, labels), description, _ROW_PX * len(records))


def _record(row: Choice, ratio: Interval, lowest: float) -> dict[str, Any]:
    """Return a bar's record; ``lowest`` is where an interval that reaches on below the axis is drawn from."""
    low = None if ratio.low is None else max(ratio.low, lowest)
    label = f"\u00d7 {text.number(ratio.value)}"
    label += f"  \u00b7  {text.quantity(row.per_token.value, 'mJ')}" if row.per_token else ""
    return {
        "title": row.title,
        "colour": COLOURS.get(row.what, theme.colour("other")),
        "one": 1.0,
        "value": ratio.value,
        "low": low,
        "high": ratio.high if low is not None else None,
        "edge": max(1.0, ratio.value, (ratio.high or 0.0) if low is not None else 0.0),
        "label": label if ratio.known else f"{label}  \u00b7  no interval",
        "said": text.with_limits(ratio, ""),
        "joules": text.with_limits(row.per_token, "mJ"),
        "time": text.with_limits(row.time_us, "us"),
        "quality": row.quality,
        **grades.paint(hollow=row.weak),
    }


def _ticks(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis of ratios, 1 among them."""
    span = high / low
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if span < 8 else (1.0, 2.0, 5.0) if span < 200 else (1.0,)
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [factor * 10.0**exponent for exponent in tens for factor in steps
            if low <= factor * 10.0**exponent <= high]  # fmt: skip

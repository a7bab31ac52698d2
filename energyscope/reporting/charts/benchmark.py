"""What each precision takes: bars with intervals, quality as dots, and quality against speed.

All of them are small enough for a third of a page: precisions lie along the vertical axis, and each value is
written beside its mark. The baseline's value is a dashed line, its name is bold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import grades, theme
from energyscope.reporting.charts.split import fills

_ROW_PX = 27
PLAIN = theme.PLAIN
_LABEL_SHARE, _LETTER_SHARE = (
    0.1,
    0.045,
)  # of the values' width, free for any label, for each letter


@dataclass(frozen=True)
class Bar:
    """One precision's value in the unit of its axis; ``low`` and ``high`` are None where no interval is known.

    ``inner`` are the limits of the difference from the baseline, around this value, where they are sharper.
    ``work`` is the part from zero that stays solid where the rest is drawn pale, ``behind`` the length of a pale
    bar behind a slim solid one; ``weak`` marks a value below grade C; ``label`` is written beside the bar and
    ``said`` in the tooltip.
    """

    precision: str
    title: str
    value: float
    low: float | None
    high: float | None
    label: str
    said: str
    inner: tuple[float, float] | None = None
    work: float | None = None
    behind: float | None = None
    weak: bool = False
    baseline: bool = False

    @property
    def edge(self) -> float:
        """Where the drawing of the bar ends."""
        ends = (self.value, self.high, self.behind, self.inner and self.inner[1])
        return max(end for end in ends if end is not None)

    def record(self) -> dict[str, Any]:
        """Return it as a row of the chart's data."""
        return {
            "title": self.title,
            "colour": theme.precision_colour(self.precision),
            "value": self.value,
            "low": self.low if self.high is not None else None,
            "high": self.high,
            "inner_low": self.inner and self.inner[0],
            "inner_high": self.inner and self.inner[1],
            "edge": self.edge,
            "label": self.label + grades.dagger(weak=self.weak),
            "said": self.said,
        }


def bars(items: Sequence[Bar], title: str | list[str], description: str, mark: float | None = None) -> Any:
    """Draw a bar for each precision from zero, its interval, and a dashed line at ``mark`` or the baseline."""
    alt = theme.altair()
    right = max(item.edge for item in items) * (1 + _room(items))
    scale = alt.Scale(domain=[0.0, right], nice=False)
    x = alt.X("start:Q", title=title, scale=scale, axis=_linear_axis())
    split = any(item.work is not None for item in items)
    parts = [part for item in items for part in _parts(item, split=split)]
    drawn = alt.Chart(theme.rows(parts)).encode(
        x=x,
        x2="end:Q",
        y=_names(items),
        color=alt.Color("colour:N", scale=None),
        **grades.painted(alt.Stroke("colour:N", scale=None)),
        strokeOpacity=alt.StrokeOpacity("line:Q", scale=None),
        tooltip=_tooltip(title),
    )
    layers = [drawn.transform_filter("!datum.slim").mark_bar(height={"band": 0.66})]
    if any(part["slim"] for part in parts):
        layers.append(drawn.transform_filter("datum.slim").mark_bar(height={"band": 0.34}))
    line = _marked(items) if mark is None else mark
    return _finished([*_line(items, line), *layers, *_beside(items, line, right)], items, description)


def _parts(item: Bar, *, split: bool) -> list[dict[str, Any]]:
    drawn = grades.paint(hollow=item.weak)
    shared = {**item.record(), "dash": drawn["dash"], "line": 1.0 if item.weak else 0.0}
    full, faint = fills(hollow=item.weak)
    if item.behind is not None:
        return [
            {**shared, "start": 0.0, "end": item.behind, "fill": faint, "slim": False},
            {**shared, "start": 0.0, "end": item.value, "fill": full, "slim": True},
        ]
    if item.work is None:
        rest = {"fill": grades.REST, "dash": grades.REST_DASH, "line": 1.0} if split and not item.weak else {}
        return [{**shared, "start": 0.0, "end": item.value, "fill": full, **rest, "slim": False}]
    return [
        {**shared, "start": 0.0, "end": item.work, "fill": full, "slim": False},
        {**shared, "start": item.work, "end": item.value, "fill": faint, "slim": False},
    ]


def dots(items: Sequence[Bar], title: str, description: str) -> Any:
    """Draw a dot for each precision with its interval, on an axis that need not begin at zero."""
    alt = theme.altair()
    axis = _dots_axis(items)
    x = alt.X("value:Q", title=title, **axis)
    inner = [item for item in items if item.inner is not None]
    base = alt.Chart(theme.rows([item.record() for item in items])).encode(y=_names(items))
    points = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=x, color=alt.Color("colour:N", scale=None), tooltip=_tooltip(title)
    )
    layers = _line(items, _marked(items))
    if inner:
        thick = alt.Chart(theme.rows([item.record() for item in inner])).mark_rule(strokeWidth=5, opacity=0.75)
        layers.append(
            thick.encode(
                y=_names(items), x="inner_low:Q", x2="inner_high:Q", color=alt.Color("colour:N", scale=None)
            )
        )
    left, right = axis["scale"].domain
    beside = _beside(items, _marked(items), right - left)
    return _finished([*layers, *beside, points], items, description)


def _dots_axis(items: Sequence[Bar]) -> dict[str, Any]:
    """Return the scale and the axis: linear, or logarithmic where the values span decades."""
    alt = theme.altair()
    size = theme.magnitude([item.value for item in items])
    low = min(end for item in items for end in (item.value, item.low, *(item.inner or ())) if end is not None)
    high = max(item.edge for item in items)
    if size.type == "log" and low > 0:
        domain = [low / (high / low) ** 0.06, high * (high / low) ** _room(items)]
        return {"scale": alt.Scale(type="log", domain=domain, nice=False), "axis": size.axis()}
    span = high - low or abs(high) or 1.0
    domain = [low - 0.08 * span, high + _room(items) * span]
    return {"scale": alt.Scale(domain=domain, nice=False, zero=False), "axis": _linear_axis()}


def _linear_axis() -> Any:
    """Return an axis of few ticks; where the numbers at them would run into each other, every second one goes."""
    return theme.altair().Axis(tickCount=4, format=PLAIN, labelOverlap=True, labelSeparation=8)


def _room(items: Sequence[Bar]) -> float:
    """Return which share of the values' width the labels need to the right of it."""
    return _LABEL_SHARE + _LETTER_SHARE * max(len(item.label) + 2 * item.weak for item in items)


def _names(items: Sequence[Bar]) -> Any:
    """Return the axis of the precisions in their order, the baseline's name bold."""
    alt = theme.altair()
    base = json.dumps(next((item.title for item in items if item.baseline), None))
    axis = alt.Axis(
        ticks=False,
        domain=False,
        labelPadding=6,
        labelFontWeight=alt.condition(f"datum.value === {base}", alt.value(700), alt.value(400)),
    )
    return alt.Y("title:N", sort=[item.title for item in items], title=None, axis=axis)


def _beside(items: Sequence[Bar], mark: float | None, across: float) -> list[Any]:
    """Return the intervals and what is written beside them, beyond the line at ``mark`` where it would meet it.

    ``across`` is the width of the axis in its own unit.
    """
    records = [item.record() for item in items]
    for record in records:
        width = across * (0.04 + 0.032 * len(record["label"]))
        if mark is not None and record["edge"] < mark < record["edge"] + width:
            record["edge"] = mark
    base = theme.altair().Chart(theme.rows(records)).encode(y=_names(items))
    errors = base.transform_filter("datum.low !== null").mark_rule(style=theme.INK_LINE)
    labels = base.mark_text(style=theme.INK_TEXT, align="left", dx=6)
    known = [errors.encode(x="low:Q", x2="high:Q")] if any(item.low is not None for item in items) else []
    return [*known, labels.encode(x="edge:Q", text="label:N")]


def _marked(items: Sequence[Bar]) -> float | None:
    return next((item.value for item in items if item.baseline), None)


def _line(items: Sequence[Bar], mark: float | None) -> list[Any]:
    """Return a dashed line at a value; nothing where there is nothing to compare with it."""
    if mark is None or len(items) < 2:
        return []
    base = theme.altair().Chart(theme.rows([{"mark": mark}]))
    return [base.mark_rule(style=theme.FAINT_LINE).encode(x="mark:Q")]


def _tooltip(title: str | list[str]) -> list[Any]:
    alt = theme.altair()
    named = title if isinstance(title, str) else title[0]
    return [alt.Tooltip("title:N", title="precision"), alt.Tooltip("said:N", title=named)]


def _finished(layers: list[Any], items: Sequence[Bar], description: str) -> Any:
    return theme.finish(theme.altair().layer(*layers), description, _ROW_PX * len(items) + 6)


def values_label(*values: float | None) -> str:
    """Return what is written beside a mark: its values with three digits, those unknown left out."""
    return " / ".join(text.number(value) for value in values if value is not None)


def described(items: Sequence[Bar], what: str, unit: str) -> str:
    """Return the bars in a sentence, for readers who do not see them."""
    return f"{what}: " + "; ".join(f"{item.title} {item.label} {unit}".rstrip() for item in items)

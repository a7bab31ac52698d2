"""Things set beside each other: the costliest components of a run, and two runs, item by item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import grades, theme
from energyscope.runs.intervals import Interval

SERIES = (("circle", theme.METHOD_COLOURS[0]), ("diamond", theme.METHOD_COLOURS[1]))  # shape and colour
_PITCH, _COSTLIEST_PITCH = 17, 19


@dataclass(frozen=True)
class Costly:
    """A component, or equal ones measured as their mean: the energy of one, mJ per forward pass."""

    label: str
    kind: str
    energy: Interval
    share: float | None
    invalid: bool = False


@dataclass(frozen=True)
class Compared:
    """One value of one series: a dot with its interval in the row ``item``, hollow where it is ``invalid``."""

    item: str
    series: str
    value: Interval
    invalid: bool = False


def costliest(found: Sequence[Costly], description: str, word: str = "Energy") -> Any:
    """Draw a bar for each component with its 95 % interval, its energy and its share; invalid ones are hollow."""
    alt = theme.altair()
    divisor, unit = text.scale_of(max(entry.energy.value for entry in found), "mJ")
    records: list[dict[str, Any]] = [
        {
            "label": entry.label,
            "colour": theme.colour(entry.kind),
            "value": entry.energy.value / divisor,
            "low": None if entry.energy.low is None else entry.energy.low / divisor,
            "high": None if entry.energy.high is None else entry.energy.high / divisor,
            "edge": max(entry.energy.high or 0.0, entry.energy.value) / divisor,
            "said": text.quantity(entry.energy.value, "mJ")
            + (f"  \u00b7  {text.percent(entry.share)}" if entry.share is not None else ""),
            **grades.paint(hollow=entry.invalid),
        }
        for entry in found
    ]
    right = max(record["edge"] for record in records)
    base = alt.Chart(theme.rows(records)).encode(
        y=alt.Y(
            "label:N",
            sort=[entry.label for entry in found],
            title=None,
            axis=alt.Axis(ticks=False, domain=False, labelPadding=6),
        )
    )
    bars = base.mark_bar(height={"band": 0.66}).encode(
        x=alt.X(
            "value:Q",
            title=f"{word} of one ({unit})",
            scale=alt.Scale(domain=[0, right * 1.72], nice=False),
            axis=alt.Axis(tickCount=5),
        ),
        color=alt.Color("colour:N", scale=None),
        **grades.painted(alt.Stroke("colour:N", scale=None)),
    )
    errors = base.mark_rule(style=theme.INK_LINE).encode(x="low:Q", x2="high:Q")
    labels = base.mark_text(style=theme.INK_TEXT, align="left", dx=7).encode(x="edge:Q", text="said:N")
    return theme.finish(alt.layer(bars, errors, labels), description, _COSTLIEST_PITCH * len(records))


def side_by_side(
    found: Sequence[Compared],
    series: Sequence[str],
    title: str,
    description: str,
    reference: float | None = None,
    span: tuple[float, float] | None = None,
    *,
    from_zero: bool = False,
) -> Any:
    """Draw a row for each item with a dot for each series and its 95 % interval; shape and colour tell them apart.

    ``reference`` is where a dashed line stands, such as 1 for ratios; ``span`` the ends of an axis that values of
    any run share. ``from_zero`` begins a linear axis at 0. The legend is the sheet's.
    """
    alt = theme.altair()
    names = list(series)
    scale, axis = _axis_of(found, reference, span, from_zero=from_zero)
    records = [
        {
            "item": one.item,
            "series": one.series,
            "value": one.value.value,
            "low": one.value.low,
            "high": one.value.high,
            "invalid": one.invalid,
        }
        for one in found
    ]
    items = list(dict.fromkeys(one.item for one in found))
    base = alt.Chart(theme.rows(records)).encode(
        y=alt.Y(
            "item:N", sort=items, title=None, axis=alt.Axis(ticks=False, domain=False, grid=True, labelPadding=6)
        ),
        yOffset=alt.YOffset("series:N", sort=names, scale=alt.Scale(domain=names, paddingOuter=0.4)),
        color=alt.Color(
            "series:N", legend=None, scale=alt.Scale(domain=names, range=[colour for _, colour in SERIES])
        ),
    )
    x = alt.X("value:Q", title=title, scale=scale, axis=axis)
    dots = base.mark_point(size=75, strokeWidth=1.8, opacity=1).encode(
        x=x,
        fill=alt.Fill("series:N", legend=None, scale=alt.Scale(domain=names, range=[c for _, c in SERIES])),
        fillOpacity=alt.condition("datum.invalid", alt.value(0.0), alt.value(1.0)),
        shape=alt.Shape(
            "series:N", legend=None, scale=alt.Scale(domain=names, range=[shape for shape, _ in SERIES])
        ),
    )
    layers = [dots]
    if any(one.value.known for one in found):
        limits = base.mark_rule(strokeWidth=1.6).encode(
            x=alt.X("low:Q", title=title, scale=scale, axis=axis), x2="high:Q"
        )
        layers.insert(0, limits)
    if reference is not None:
        line = alt.Chart(theme.rows([{"x": reference}])).mark_rule(style=theme.FAINT_LINE).encode(x="x:Q")
        layers.insert(0, line)
    return theme.finish(alt.layer(*layers), description, _PITCH * max(len(items), 2) * len(names) + 8)


def _axis_of(
    found: Sequence[Compared], reference: float | None, span: tuple[float, float] | None, *, from_zero: bool
) -> tuple[Any, Any]:
    """Return the scale and the axis that hold all values, their limits and the reference."""
    if span is not None:
        return _spanned(*span)
    ends = [
        end
        for one in found
        for end in (one.value.value, one.value.low, one.value.high, reference)
        if end is not None
    ]
    size = theme.magnitude(ends)
    zero = from_zero and size.type == "linear"
    return theme.altair().Scale(zero=True, nice=True) if zero else size.scale(), size.axis()


def _spanned(low: float, high: float) -> tuple[Any, Any]:
    """Return a linear scale between two ends and its axis, ticks at a quarter of it."""
    alt = theme.altair()
    ticks = [low + (high - low) * quarter / 4 for quarter in range(5)]
    return alt.Scale(domain=[low, high], nice=False), alt.Axis(values=ticks, format=theme.PLAIN)

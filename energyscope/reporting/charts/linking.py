"""Linked charts: what is picked in one of them stays, in all of them, and the rest recedes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from energyscope.reporting.charts.records import altair

PICKED, PICKABLE = "picked", "pickable"
_FADED = 0.16  # how much of a mark's opacity is left where something else was picked
_FADED_TEXT = 0.45
_MATCHES = (
    f"{PICKED} == null || indexof({PICKABLE}, {PICKED}.kind) < 0 || "
    f"(datum.component != null && {PICKED}.component != null ? datum.component == {PICKED}.component"
    f" : datum.kind == {PICKED}.kind)"
)


def linked(chart: Any, kinds: Iterable[str]) -> Any:
    """Let a chart show what is picked on the page: its parameter ``picked`` is null, or a kind and a component.

    The page sets it to ``{"kind": ..., "component": ... or null}`` in all charts that have it; marks with `faded`
    opacity that do not match then recede. ``kinds`` are those of the chart's marks: where another is picked, the
    chart stays as it is.
    """
    alt = altair()
    return chart.add_params(alt.param(PICKED, value=None), alt.param(PICKABLE, value=sorted(set(kinds))))


def faded(opacity: float = 1.0, matches: str = _MATCHES, left: float = _FADED) -> Any:
    """Return the opacity of marks in a `linked` chart, full where nothing is picked or the mark is what is picked.

    A mark's record has ``kind`` and, where it is one component, ``component``; ``matches`` is another condition.
    ``left`` is the share of the opacity that others keep.
    """
    alt = altair()
    return alt.condition(matches, alt.value(opacity), alt.value(round(opacity * left, 3)))


def faded_text() -> Any:
    """Return the opacity of names and numbers in a `linked` chart, which can still be read where they recede."""
    return faded(left=_FADED_TEXT)

"""Linked charts: what is picked in one of them stays, in all of them, and the rest recedes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from energyscope.reporting.charts.records import altair

PICKED, PICKABLE, GROUPS = "picked", "pickable", "groups"
_FADED = 0.16  # how much of a mark's opacity is left where something else was picked
_FADED_TEXT = 0.45
_MATCHES = (
    f"{PICKED} == null || indexof({PICKABLE}, {PICKED}.kind) < 0 || "
    f"({PICKED}.components == null ? datum.kind == {PICKED}.kind"
    f" : datum.group != null ? indexof({PICKED}.groups, datum.group) >= 0"
    f" : datum.component != null ? indexof({PICKED}.components, datum.component) >= 0"
    f" : datum.kind == {PICKED}.kind)"
)
# A layer is picked with whatever is in it; a kind is in all of them.
IN_LAYER = (
    f"{PICKED} == null || {PICKED}.components == null || "
    f"indexof('\\n' + join({PICKED}.components, '.\\n') + '.', '\\n' + datum.component + '.') >= 0"
)


@dataclass(frozen=True)
class Group:
    """Components that one mark stands for together, such as two layers; they are of one kind."""

    name: str
    kind: str
    components: Sequence[str]


def linked(chart: Any, kinds: Iterable[str], groups: Iterable[Group] = ()) -> Any:
    """Let a chart show what is picked on the page: its parameter ``picked`` is null, or a kind and what of it.

    The page sets it to ``{"kind": ..., "components": [...] or null, "groups": [...]}`` in all charts that have it;
    marks with `faded` opacity that do not match then recede. ``kinds`` are those of the chart's marks: where
    another is picked, the chart stays as it is. ``groups`` are those that its marks name, for the page to pick.
    """
    alt = altair()
    together = [asdict(group) for group in groups]
    chart = chart.add_params(alt.param(PICKED, value=None), alt.param(PICKABLE, value=sorted(set(kinds))))
    return chart.add_params(alt.param(GROUPS, value=together)) if together else chart


def faded(opacity: float = 1.0, matches: str = _MATCHES, left: float = _FADED) -> Any:
    """Return the opacity of marks in a `linked` chart, full where nothing is picked or the mark is what is picked.

    A mark's record has ``kind`` and, where it is one component, ``component``, where it is several of them, the
    name of their ``group``; ``matches`` is another condition.
    ``left`` is the share of the opacity that others keep.
    """
    alt = altair()
    return alt.condition(matches, alt.value(opacity), alt.value(round(opacity * left, 3)))


def faded_text() -> Any:
    """Return the opacity of names and numbers in a `linked` chart, which can still be read where they recede."""
    return faded(left=_FADED_TEXT)

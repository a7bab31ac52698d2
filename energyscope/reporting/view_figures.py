"""Figures that show their subject in several ways, of which a switch on the page chooses one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from energyscope.reporting.data.columns import Column
from energyscope.reporting.figure import Figure, View

JOULES, MEASURE = "joules", "measure"
TOTAL = "Total"
COLUMN_TITLES: dict[Column, str] = {"dynamic": "Dynamic", "static": "Static"}
COLUMN_SAID: dict[Column, str] = {
    "dynamic": "Dynamic energy alone: what is left when idle power times time is taken away. No interval is known "
    "of it, and shares are of the model's dynamic energy.",
    "static": "Static energy alone: idle power times time. No interval is known of it, and shares are of the "
    "model's static energy.",
}


def with_views(own: Figure, switch: str, shows: str, others: Sequence[tuple[str, str, Figure]]) -> Figure:
    """Return a figure with other drawings of its subject, each with its key and its label on the switch.

    ``shows`` is the figure's own label there. Without another drawing, there is no switch.
    """
    if not others:
        return own
    views = [
        View(key, label, one.caption, one.summary, one.chart, one.table, one.notes, one.title)
        for key, label, one in others
    ]
    return replace(own, switch=switch, shows=shows, views=views)


def with_columns(own: Figure, others: Mapping[Column, Figure | None]) -> Figure:
    """Return a figure of energy with those of its dynamic and static part, which the switch of joules shows."""
    named = [(column, COLUMN_TITLES[column], one) for column, one in others.items() if one is not None]
    return with_views(own, JOULES, TOTAL, named)

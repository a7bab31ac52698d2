"""What a publication figure is made of, before it is drawn: panels in rows, and what has to be said beside them.

Sizes are in points (1/72 inch). The charts are the report's, whose text is 12 pixels high; `SCALE` makes that
7.5 points, and shrinks lines and marks with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SINGLE, DOUBLE = 252.0, 510.0  # widths of one column and of two in most journals
SCALE = 0.625
FONT_SIZE, LETTER_SIZE = 7.5, 8.0


@dataclass(frozen=True)
class Panel:
    """One chart of a sheet with its title; ``said`` are lines between the title and the chart.

    ``height`` is that of the plot in the chart's own pixels, where the chart's own will not do; ``share`` is the
    panel's width relative to the others of its row.
    """

    title: str
    chart: Any
    said: list[str] = field(default_factory=list)
    height: float | None = None
    share: float = 1.0


@dataclass(frozen=True)
class Key:
    """A line of a legend that all panels share: a series' name, its colour and its shape."""

    name: str
    colour: str
    shape: str


@dataclass(frozen=True)
class Sheet:
    """One publication figure. ``stem`` is its file name without the format; ``width`` is in points.

    ``notes`` stand below the panels; ``left_out`` says which panels are missing and why.
    """

    stem: str
    title: str
    rows: list[list[Panel]]
    width: float
    notes: list[str] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    scale: float = SCALE

    @property
    def panels(self) -> list[Panel]:
        """The panels in the order of their letters."""
        return [panel for row in self.rows for panel in row]


@dataclass(frozen=True)
class Missing:
    """A figure that cannot be drawn of a run, and why."""

    stem: str
    reason: str

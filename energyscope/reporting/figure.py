"""What a chart is made of in a report: its words, its drawing and the numbers behind it as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table as text: the words above its columns, and its rows."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class View:
    """Another drawing of a figure's subject (its dynamic energy, say), shown in its place by a switch.

    ``key`` is unique in the figure and the same wherever the same thing is shown ("dynamic"); ``label`` is the
    word on the switch. ``title`` stands in the place of the figure's own; empty: that one stays.
    """

    key: str
    label: str
    caption: str
    summary: str
    chart: Any
    table: Table
    notes: list[str] = field(default_factory=list)
    title: str = ""


@dataclass(frozen=True)
class Figure:
    """One chart. ``name`` is unique in a report; ``chart`` an Altair chart; ``summary`` says what it shows.

    ``switch`` names what the ``views`` differ in (figures of one switch change together), and ``shows`` is the
    label of the figure's own drawing on it; a figure without other views has neither.
    """

    name: str
    section: str
    title: str
    caption: str
    summary: str
    chart: Any
    table: Table
    notes: list[str] = field(default_factory=list)
    switch: str | None = None
    shows: str = ""
    views: list[View] = field(default_factory=list)

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
class Figure:
    """One chart. ``name`` is unique in a report; ``chart`` an Altair chart; ``summary`` says what it shows."""

    name: str
    section: str
    title: str
    caption: str
    summary: str
    chart: Any
    table: Table
    notes: list[str] = field(default_factory=list)

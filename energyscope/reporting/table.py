"""A table of typed columns: the one shape in which numbers reach a page, the terminal, a file or a chart.

A row is a mapping from column keys to raw values: numbers in the column's unit, `Interval`, text, bool, reasons.
What is written of a value follows from the column's unit alone, so a number reads the same wherever it stands.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from energyscope import format as fmt
from energyscope import reasons
from energyscope.intervals import Interval, finite
from energyscope.metering.grades import QUALITIES
from energyscope.runs.files import inert

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Row = Mapping[str, Any]
_TEXTS = frozenset({"text", "grade", "reasons", "code"})
_ENDINGS = {"mJ": "mj", "J": "j", "pJ": "pj", "us": "us", "s": "s", "W": "w", "bytes": "bytes", "FLOP": "flops"}
_PADDING, _BETWEEN = 2, 3  # spaces between two columns of a terminal: one is the box's


@dataclass(frozen=True)
class Amount(Interval):
    """A value with a unit of its own, for columns whose rows are of several quantities."""

    unit: str = ""

    @classmethod
    def of(cls, item: Interval | None, unit: str) -> Amount | None:
        """Give a value its unit."""
        return None if item is None else cls(item.value, item.low, item.high, unit)


@dataclass(frozen=True)
class Column:
    """One column: the ``key`` of its values in a row, its ``title``, and the ``unit`` that they are in.

    Units are those of `format`, and ``text``, ``grade`` (A, B, C or invalid), ``reasons`` (of
    `energyscope.reasons`) and ``code`` (shown in monospace). ``hint`` explains the title. Where a table is too
    wide for a terminal, columns of the highest ``rank`` are left out first, and never those of rank 0.
    """

    key: str
    title: str
    unit: str = "text"
    hint: str = ""
    rank: int = 0

    @property
    def name(self) -> str:
        """What files and machines know it by: the key with its unit, as ``energy_mj``."""
        ending = _ENDINGS.get(self.unit, "")
        return f"{self.key}_{ending}" if ending and not self.key.endswith(ending) else self.key

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers, which stand to the right."""
        return self.unit not in _TEXTS

    def text(self, value: Any) -> str:
        """Write a value."""
        if value is None or value != value:  # noqa: PLR0124 - NaN, and pandas' missing value, differ from themselves
            return fmt.UNKNOWN
        if isinstance(value, Interval):
            return fmt.measured(value, value.unit if isinstance(value, Amount) else self.unit)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self.unit == "reasons":
            return reasons.words(value)
        if self.unit == "grade":
            return fmt.grade(str(value))
        return fmt.quantity(float(value), self.unit) if self.numeric and not isinstance(value, str) else str(value)

    def sort_key(self, value: Any) -> float | None:
        """Return the number by which a value sorts; None where it sorts by its text, or not at all."""
        if self.unit == "grade":
            return float(QUALITIES.index(str(value))) if value in QUALITIES else None
        return finite(value.value if isinstance(value, Interval) else value) if self.numeric else None


@dataclass(frozen=True)
class Table:
    """Columns and rows. Rows may hold more than the columns show: what a chart of them needs.

    ``more`` counts rows that were left out, which a terminal says below the table.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    notes: Sequence[str] = ()
    more: int = 0

    def __bool__(self) -> bool:
        """Whether it has a row."""
        return bool(self.rows)

    def column(self, key: str) -> Column:
        """Return the column of a key."""
        return next(column for column in self.columns if column.key == key)

    def filled(self) -> Table:
        """Return the table without columns that no row has a value in."""
        columns = [
            column
            for column in self.columns
            if any(column.text(row.get(column.key)) not in {fmt.UNKNOWN, ""} for row in self.rows)
        ]
        return replace(self, columns=columns)

    def head(self, most: int) -> Table:
        """Return the first rows alone."""
        return replace(self, rows=self.rows[:most], more=self.more + max(len(self.rows) - most, 0))

    def marked(self, *, modelled: bool) -> Table:
        """Return the table with a column that says MODELLED where it is: no title does so in files and pipes."""
        if not modelled:
            return self
        rows = [{**row, "meter": "MODELLED"} for row in self.rows]
        return replace(self, columns=[*self.columns, Column("meter", "Meter")], rows=rows)

    def texts(self) -> list[list[str]]:
        """Return what is written in every cell."""
        return [[column.text(row.get(column.key)) for column in self.columns] for row in self.rows]

    def records(self) -> list[dict[str, Any]]:
        """Return the raw values by column name, as JSON holds them: an interval as ``{value, low, high}``."""
        return [{column.name: _plain(row.get(column.key)) for column in self.columns} for row in self.rows]

    def delimited(self, delimiter: str = "\t", clean: Callable[[str], str] = str) -> str:
        """Return the raw values as lines of cells; an interval takes ``key``, ``_low`` and ``_high``.

        ``clean`` is applied to each text, to keep a terminal from obeying a name.
        """
        wide = {
            column.key
            for column in self.columns
            if any(isinstance(row.get(column.key), Interval) for row in self.rows)
        }
        ends = {column.key: ("", "_low", "_high") if column.key in wide else ("",) for column in self.columns}
        out = io.StringIO()
        writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        writer.writerow([f"{column.name}{end}" for column in self.columns for end in ends[column.key]])
        for row in self.rows:
            cells = [
                cell for column in self.columns for cell in _cells(row.get(column.key), wide=column.key in wide)
            ]
            writer.writerow([inert(clean(cell)) if isinstance(cell, str) else cell for cell in cells])
        return out.getvalue()

    def fitted(self, width: int) -> Table:
        """Return the table without the columns for which a terminal of this width has no room."""
        columns = list(self.columns)
        texts = {column.key: [column.text(row.get(column.key)) for row in self.rows] for column in columns}
        widths = {column.key: max(map(len, [column.title, *texts[column.key]])) + _BETWEEN for column in columns}
        while sum(widths[column.key] for column in columns) - _BETWEEN > width:
            least = max(reversed(columns), key=lambda column: column.rank, default=None)
            if least is None or not least.rank:
                break
            columns.remove(least)
        return replace(self, columns=columns)

    def rich(self, width: int) -> RichTable:
        """Draw the table for a terminal of this width."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        fitted = self.fitted(width)
        table = RichTable(
            title=Text(self.title) if self.title else None,
            title_justify="left",
            title_style="bold",
            caption=Text(f"and {self.more} more") if self.more else None,
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, _PADDING, 0, 0),
        )
        for column in fitted.columns:
            justify: Literal["left", "right"] = "right" if column.numeric else "left"
            table.add_column(Text(column.title), justify=justify, overflow="fold", no_wrap=column.numeric)
        for row in fitted.texts():
            table.add_row(*map(Text, row))
        return table


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return {"value": value.value, "low": value.low, "high": value.high}
    if isinstance(value, float):
        return finite(value)
    return value


def _cells(value: Any, *, wide: bool) -> Iterable[Any]:
    if isinstance(value, Interval):
        return (value.value, value.low, value.high)
    plain = "" if value is None or value != value else value  # noqa: PLR0124
    return (plain, "", "") if wide else (plain,)

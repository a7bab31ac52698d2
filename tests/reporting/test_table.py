"""One table for page, terminal, TSV, JSON and charts."""

from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console

from energyscope.intervals import Interval
from energyscope.reasons import reason
from energyscope.reporting.table import Column, Table

COLUMNS = [
    Column("name", "Name"), Column("energy", "Energy", "mJ"), Column("share", "Share", "share", rank=1),
    Column("grade", "Grade", "grade", rank=2), Column("why", "Why", "reasons", rank=3),
    Column("none", "Empty", "mJ"),
]  # fmt: skip
ROWS = [
    {"name": "a\tb", "energy": Interval(1550.0, 1500.0, 1600.0), "share": 0.5, "grade": "invalid",
     "why": "not-asked-for", "extra": 1},
    {"name": "c", "energy": Interval(2.0), "share": None, "grade": "A", "why": None},
]  # fmt: skip
TABLE = Table(COLUMNS, ROWS, "Title")


def test_a_value_is_written_by_the_unit_of_its_column():
    """GIVEN intervals, numbers, grades, reasons and nothing, THEN each is written in its one way."""
    first, second = TABLE.texts()
    assert first == ["a\tb", "1.55 J ± 0.05", "50 %", "too noisy", reason("not-asked-for").words, "–"]
    assert second == ["c", "2.00 mJ", "–", "A", "–", "–"]


def test_numbers_sort_as_numbers_and_grades_by_rank():
    """GIVEN typed columns, THEN their sort keys are raw numbers; text has none."""
    keys = [column.sort_key(ROWS[0].get(column.key)) for column in COLUMNS]
    assert keys == [None, 1550.0, 0.5, 3.0, None, None]


def test_columns_that_nobody_fills_are_left_out():
    """GIVEN a column without a value, THEN `filled` drops it and keeps the rest in order."""
    assert [column.key for column in TABLE.filled().columns] == ["name", "energy", "share", "grade", "why"]


def test_rows_that_are_left_out_are_counted():
    """GIVEN the head of a table, THEN a terminal says how many rows follow; nothing of a whole one."""
    console = Console(file=io.StringIO(), width=100)
    for table in (TABLE.head(1), TABLE.head(2)):
        console.print(table.rich(100))
    assert console.file.getvalue().count("and 1 more") == 1  # type: ignore[attr-defined]


def test_lines_of_cells_hold_raw_numbers():
    """GIVEN a pipe, THEN raw values, an interval in three columns, and no cell that breaks a line."""
    rows = list(csv.DictReader(io.StringIO(TABLE.delimited()), delimiter="\t"))
    assert rows[0]["name"] == "a\tb"
    energy = [float(rows[0][f"energy_mj{end}"]) for end in ("", "_low", "_high")]
    assert energy == [1550.0, 1500.0, 1600.0]
    assert (rows[1]["energy_mj"], rows[1]["energy_mj_low"], rows[1]["share"]) == ("2.0", "", "")


def test_records_are_json_with_intervals_as_objects():
    """GIVEN a machine, THEN JSON holds raw numbers, and only what columns name."""
    first = json.loads(json.dumps(TABLE.records()))[0]
    assert first["energy_mj"] == {"value": 1550.0, "low": 1500.0, "high": 1600.0}
    assert set(first) == {column.name for column in COLUMNS}


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_gets_what_it_has_room_for(width):
    """GIVEN 80 or 120 columns and a wide table, THEN no line is wider, and columns of rank 0 always stand."""
    wide = [Column("name", "Name"), *(Column(f"c{at}", f"Column {at}", "mJ", rank=at) for at in range(20))]
    table = Table(
        wide, [{"name": "x" * 20, **{f"c{at}": Interval(at + 1.5, at + 1.0, at + 2.0) for at in range(20)}}]
    )
    console = Console(width=width, file=io.StringIO())
    console.print(table.rich(width))
    lines = console.file.getvalue().splitlines()
    fitted = [column.key for column in table.fitted(width).columns]
    assert fitted[:2] == ["name", "c0"]
    assert 2 < len(fitted) < 21
    assert all(len(line) <= width for line in lines)
    assert len(table.fitted(1000).columns) == 21

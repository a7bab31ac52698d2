"""A comparison in the terminal: the same answer as on its page, in at most 25 lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from energyscope.reporting.comparison import differences
from energyscope.reporting.comparison.answer import ComparisonAnswer, chips
from energyscope.reporting.comparison.source import ComparedRuns
from energyscope.reporting.table import Table
from energyscope.reporting.terminal_text import printable, shortened

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_LINES = 25


def answer_of(source: ComparedRuns, width: int, page: str | None = None) -> RenderableType:
    """Return the answer: sentence, whole model, largest changes, trust, and where the page is, if there is one."""
    from rich.console import Group

    drawings = (Group(*_answer(source, most, width, page)) for most in range(9, 0, -1))
    return shortened(drawings, width, MOST_LINES)


def record(source: ComparedRuns) -> dict[str, Any]:
    """Return what JSON holds of a comparison: every difference, and the answers."""
    return {
        **asdict(source.comparison),
        "answers": [ComparisonAnswer(against).record() for against in source.others],
    }


def _answer(source: ComparedRuns, most: int, width: int, page: str | None) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(printable(f"{' and '.join(source.names[1:])} against {source.names[0]}"), style="bold")
    line = Text()
    for chip in chips(source):
        style = {"warn": "bold yellow", "differs": "bold"}.get(chip.tone, "dim")
        line.append(" \u00b7 " if line else "", "dim").append(printable(chip.text), style)
    yield line
    for stage in source.comparison.unfinished:
        sentence = f"{stage['run']} is not complete: {stage['stage']} {stage['state']}"
        yield Text(printable(sentence), style="bold yellow")
    first = ComparisonAnswer(source.others[0])
    yield Text(printable(first.sentence), style="bold")
    yield Text(printable(first.cause))
    whole = first.whole()
    if source.switch:
        rows = [
            differences.row(
                against.lead, name=f"{against.names[1]}, per {ComparisonAnswer(against).facts['unit']}"
            )
            for against in source.others
            if against.lead
        ]
        whole = differences.table(source.others[0], rows, f"Energy against {source.names[0]}", "Run")
    parts = first.parts()
    title = f"{parts.title}, {first.against.names[1]}" if source.switch else parts.title
    for table in (whole, Table(parts.columns, parts.rows, title)):
        if table:
            yield _few(table, most, width)
    if first.trust:
        yield Text.assemble(("Can I trust this? ", "bold"), printable(first.trust))
    if page:
        yield Text(f"report: {page}", style="bold", overflow="fold")


def _few(table: Table, most: int, width: int) -> RenderableType:
    """Draw the first rows; the verdict is left out where none has one, and the sentence says why."""
    rows = [{**row, "name": printable(row["name"])} for row in table.rows[:most]]
    decided = any(row["decided"] for row in rows)
    columns = [column for column in table.columns if decided or column.key != "verdict"]
    return Table(columns, rows, printable(table.title)).rich(width)

"""A comparison in the terminal: the same answer as on its page, in at most 25 lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from energyscope.reporting.comparison import differences
from energyscope.reporting.comparison.answer import ComparisonAnswer, chips
from energyscope.reporting.comparison.source import ComparedRuns
from energyscope.reporting.run.answer import Chip
from energyscope.reporting.table import Table
from energyscope.reporting.terminal_text import printable, shortened

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_LINES = 25


class Source(Protocol):
    """What is compared: the names of runs, the baseline first, and their comparison."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def comparison(self) -> Any: ...


class Answered(Protocol):
    """The sentences of an answer."""

    @property
    def sentence(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def trust(self) -> str: ...


def answer_of(source: ComparedRuns, width: int, page: str | None = None) -> RenderableType:
    """Return the answer: sentence, whole model, largest changes, trust, and where the page is, if there is one."""
    first = ComparisonAnswer(source.others[0])
    return answer_text(source, chips(source), first, tables_of(source, first), width, page)


def answer_text(
    source: Source, marks: Sequence[Chip], answer: Answered, tables: Sequence[Table], width: int, page: str | None
) -> RenderableType:
    """Return an answer with its tables, whose rows are as many as there is room for."""
    from rich.console import Group

    drawings = (
        Group(*_lines(source, marks, answer, [_few(table, most, width) for table in tables if table], page))
        for most in range(9, 0, -1)
    )
    return shortened(drawings, width, MOST_LINES)


def record(source: ComparedRuns) -> dict[str, Any]:
    """Return what JSON holds of a comparison: every difference, and the answers."""
    return {
        **asdict(source.comparison),
        "answers": [ComparisonAnswer(against).record() for against in source.others],
    }


def _lines(
    source: Source, marks: Sequence[Chip], answer: Answered, tables: Iterable[RenderableType], page: str | None
) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(printable(f"{' and '.join(source.names[1:])} against {source.names[0]}"), style="bold")
    line = Text()
    for chip in marks:
        style = {"warn": "bold yellow", "differs": "bold"}.get(chip.tone, "dim")
        line.append(" \u00b7 " if line else "", "dim").append(printable(chip.text), style)
    yield line
    for stage in source.comparison.unfinished:
        sentence = f"{stage['run']} is not complete: {stage['stage']} {stage['state']}"
        yield Text(printable(sentence), style="bold yellow")
    yield Text(printable(answer.sentence), style="bold")
    yield Text(printable(answer.cause))
    yield from tables
    if answer.trust:
        yield Text.assemble(("Can I trust this? ", "bold"), printable(answer.trust))
    if page:
        yield Text(f"report: {page}", style="bold", overflow="fold")


def tables_of(source: ComparedRuns, first: ComparisonAnswer) -> list[Table]:
    """Return what whole models and their parts take."""
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
    return [whole, Table(parts.columns, parts.rows, title)]


def _few(table: Table, most: int, width: int) -> RenderableType:
    """Draw the first rows; the verdict is left out where none has one, and the sentence says why."""
    rows = [{**row, "name": printable(row["name"])} for row in table.rows[:most]]
    decided = any(row["decided"] for row in rows)
    columns = [column for column in table.columns if decided or column.key != "verdict"]
    return Table(columns, rows, printable(table.title)).rich(width)

"""A measured server in the terminal: the answer of its page, and its main tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from energyscope import reasons
from energyscope.errors import UsageError
from energyscope.reporting.section import tables
from energyscope.reporting.serving import page  # noqa: F401 - registers the sections
from energyscope.reporting.serving.answer import ServingAnswer
from energyscope.reporting.serving.served import SERVER, Server
from energyscope.reporting.table import Table
from energyscope.reporting.terminal_text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = ("curve", "prompt-tokens", "generated-tokens", "costs", "held-out")


def serving_text(server: Server, width: int) -> RenderableType:
    """Return the answer, the main tables, and what must be known."""
    from rich.console import Group

    return Group(*_lines(server, width))


def table_of(server: Server, name: str) -> Table:
    """Return one table in full.

    Raises:
        UsageError: there is none of that name.

    """
    named = tables(SERVER.shown(server))
    if name not in named:
        raise UsageError(f"{server.run.name} has no table {name!r}: it has {', '.join(named)}")
    return named[name]


def _lines(server: Server, width: int) -> Iterator[RenderableType]:
    from rich.text import Text

    answer, shown = ServingAnswer(server), SERVER.shown(server)
    named = tables(shown)
    yield Text(printable(str((server.run.document.get("model") or {}).get("name"))), style="bold")
    yield Text(printable(" \u00b7 ".join(chip.text for chip in answer.chips)), style="dim")
    yield Text(printable(answer.sentence), style="bold")
    for name in SHOWN:
        if name in named:
            yield Text("")
            yield named[name].filled().rich(width)
    yield Text("")
    yield Text(printable(answer.trust))
    notes = next(item.content.data["notes"] for item in shown if item.section.name == "trust")
    for note in notes:
        yield Text(printable(f"- {reasons.words(note)}"), style="dim")

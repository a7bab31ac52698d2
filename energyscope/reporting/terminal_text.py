"""Texts of models, data and users on a terminal: shown, and never obeyed.

A name may hold anything: control characters that move the cursor or change the title, line breaks, marks that
turn the direction of writing. None of it reaches a terminal from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.segment import Segment

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from energyscope.reporting.table import Table


def printable(text: object) -> str:
    """Return a text in one line, without what would steer a terminal."""
    return " ".join(_visible(str(text)).split())


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)


def shortened(drawings: Iterable[RenderableType], width: int, most: int) -> RenderableType:
    """Return the first drawing, from long to short, that has at most so many lines; else the last."""
    from rich.console import Console

    measure = Console(width=width, height=100)
    for drawing in drawings:
        if len(measure.render_lines(drawing, measure.options.update(width=width))) <= most:
            break
    return drawing


def print_table(table: Table, console: Console, *, modelled: bool = False) -> None:
    """Print a table: drawn on a terminal, else whole and tab-separated, ``modelled`` joules marked in a column."""
    if console.is_terminal:
        console.print(Sanitized(table.filled().rich(console.width)))
    else:
        console.file.write(table.marked(modelled=modelled).delimited(clean=printable))
        console.file.flush()  # a reader that left is an error of the command


class Sanitized:
    """Draws something else, less the control characters in its texts; colours and borders stay as they are."""

    def __init__(self, inner: RenderableType) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.inner, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                lines = segment.text.split("\n")
                yield Segment("\n".join(_visible(line) for line in lines), segment.style)

"""Texts of models, data and users on a terminal: shown, and never obeyed.

A name may hold anything: control characters that move the cursor or change the title, line breaks, marks that
turn the direction of writing. None of it reaches a terminal from here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

_SEAMS = re.compile(r"(?=\.)|(?<=-)")


def printable(text: object) -> str:
    """Return a text in one line, without what would steer a terminal."""
    return " ".join(_visible(str(text)).split())


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)


class Harmless:
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


class Dotted:
    """The name of a component or a run: one line where it fits, else broken before a dot or behind a hyphen.

    ``said`` stands behind it, dim.
    """

    def __init__(self, name: object, said: str = "") -> None:
        self.name = printable(name)
        self.said = printable(said)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = broken(self.name, options.max_width)
        shown = Text("\n".join(lines), overflow="fold")
        fits = cell_len(f"{lines[-1]} {self.said}") <= options.max_width
        yield shown.append(f"{' ' if fits else chr(10)}{self.said}", "dim") if self.said else shown

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        pieces = [*_pieces(self.name), *self.said.split()]
        whole = cell_len(f"{self.name} {self.said}".strip())
        return Measurement(max(map(cell_len, pieces), default=0), whole).with_maximum(options.max_width)


def broken(name: str, width: int) -> list[str]:
    """Return a name in lines of at most ``width`` columns, as far as its parts are no longer than that."""
    lines = [""]
    for piece in _pieces(name):
        if lines[-1] and cell_len(lines[-1] + piece) > width:
            lines.append("")
        lines[-1] += piece
    return lines


def _pieces(name: str) -> list[str]:
    return [piece for piece in _SEAMS.split(name) if piece]

"""What commands share: the command line in words, lists in it, and what they print."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def command_line() -> str:
    """Return how energyscope was called, for the record."""
    return shlex.join(["energyscope", *sys.argv[1:]])


def split_list(text: str) -> tuple[str, ...]:
    """Return the words of ``"a, b,c"``, blanks left out."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def draw(text: Callable[[int], RenderableType], console: Console | None = None) -> None:
    """Print what is made for a width in columns, without what its names hold that would steer a terminal."""
    from rich.console import Console

    from energyscope.reporting.terminal_text import Sanitized

    console = console or Console()
    console.print(Sanitized(text(console.width)))


def path_text(path: object, stream: TextIO | None = None) -> str:
    """Return a path as it is for a pipe, and without what would steer it for a terminal.

    ``stream`` is what it will be printed to, standard output by default.
    """
    from energyscope.reporting.terminal_text import printable

    return printable(path) if (stream or sys.stdout).isatty() else str(path)

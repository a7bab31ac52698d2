"""Lists on the command line, words or numbers with commas between them; and paths as it prints them."""

from __future__ import annotations

import sys
from typing import TextIO

from energyscope.errors import UsageError


def words(text: str) -> tuple[str, ...]:
    """Return the words of ``"a, b,c"``, blanks left out."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Return the whole numbers of ``"1,8,32"``, each once.

    Raises:
        UsageError: one is no whole number.

    """
    try:
        return tuple(dict.fromkeys(int(word) for word in words(text)))
    except ValueError as error:
        raise UsageError(f"{option} {text!r} is no list of whole numbers, such as 1,8,32") from error


def path_said(path: object, stream: TextIO | None = None) -> str:
    """Return a path as it is for a pipe, and without what would steer it for a terminal.

    ``stream`` is what it will be printed to, standard output by default.
    """
    from energyscope.reporting.terminal_text import printable

    return printable(path) if (stream or sys.stdout).isatty() else str(path)

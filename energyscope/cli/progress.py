"""Progress: stages, ETA, power and the dearest components on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rich.console import Console

from energyscope.reporting.terminal_text import printable

PLAIN_EVERY_S = 15.0


class Report(Protocol):
    """What stages report to; told of a run's directory, it may show what is in there."""

    def __call__(self, stage: str, label: str, done: int, total: int) -> None: ...

    def follow(self, path: Path) -> None: ...


@contextmanager
def progress(
    console: Console, *, quiet: bool = False, title: str = "", stages: Sequence[str] = ()
) -> Iterator[Report]:
    """Yield a callable that stages report to; ``stages`` are those that are known to come, in their order."""
    if quiet:
        yield _Nothing()
    elif _can_be_painted(console):
        from energyscope.cli.live import Live

        with Live(title or " ".join(["energyscope", *sys.argv[1:3]]), stages, error_stream=console.stderr) as live:
            yield live
    else:
        yield _Plain(console)


def _can_be_painted(console: Console) -> bool:
    """Whether a picture can be drawn again and again in one place: a terminal that can, and no other's at once."""
    leads = os.environ.get("RANK", "0") == "0"
    able = console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
    return able and leads and "utf" in console.encoding.lower()


class _Nothing:
    def __call__(self, stage: str, label: str, done: int, total: int) -> None:
        """Say nothing."""

    def follow(self, path: Path) -> None:
        """Show nothing."""


class _Plain:
    """A line when a stage begins, and then one every so often."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.stage: str | None = None
        self.started = self.spoke = time.monotonic()

    def __call__(self, stage: str, label: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self.stage:
            self.stage, self.started, self.spoke = stage, now, now
            self._line(f"{stage}: {label}" if total <= 1 else f"{stage}: {total} steps")
        elif now - self.spoke >= PLAIN_EVERY_S and done:
            self.spoke = now
            left = (now - self.started) / done * (total - done)
            self._line(f"{stage}: {done}/{total}, about {left:.0f} s left ({label})")

    def follow(self, path: Path) -> None:
        """Show nothing of it."""

    def _line(self, text: str) -> None:
        self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

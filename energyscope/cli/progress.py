"""Progress: a live bar with stage, component and ETA on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

PLAIN_EVERY_S = 15.0


class Report(Protocol):
    def __call__(self, stage: str, label: str, done: int, total: int) -> None: ...


@contextmanager
def progress(console: Console, *, quiet: bool = False) -> Iterator[Report]:
    """Yield a callable that stages report to."""
    if quiet:
        yield _nothing
    elif console.is_terminal:
        with _bar(console) as bar:
            yield _Live(bar)
    else:
        yield _Plain(console)


def _nothing(stage: str, label: str, done: int, total: int) -> None:
    """Say nothing."""


def _bar(console: Console) -> Bar:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("[bold]{task.fields[stage]:<9}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.description}", table_column=None),
        console=console,
    )


class _Live:
    """One bar a stage; a finished stage's bar stays."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.stage: str | None = None
        self.task: TaskID | None = None

    def __call__(self, stage: str, label: str, done: int, total: int) -> None:
        from rich.markup import escape

        if stage != self.stage or self.task is None:
            self._finish()
            self.stage = stage
            self.task = self.bar.add_task("", total=total, stage=stage)
        self.bar.update(self.task, description=escape(label), completed=done, total=total)

    def _finish(self) -> None:
        if self.task is not None:
            task = self.bar.tasks[self.task]
            self.bar.update(self.task, completed=task.total, description="")


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

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

"""Progress: stages, ETA, power and the costliest components on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich.console import Console

from energyscope.cli.live_left import Estimates, StageProgress, left_of_run, moment_of
from energyscope.cli.words import command_line
from energyscope.reporting.terminal_live import left_said
from energyscope.reporting.terminal_text import printable
from energyscope.settings.run import RUN_STAGES, RunSettings

if TYPE_CHECKING:
    from energyscope.runs.store import Run

PLAIN_EVERY_S = 15.0


class ProgressReport(Protocol):
    """What stages report to; told of a run's directory, it may show what is in there."""

    def __call__(self, stage: str, label: str, done: int, total: int) -> None: ...

    def follow(self, path: Path) -> None: ...

    def expect(self, estimates: Estimates) -> None: ...


@contextmanager
def progress(
    console: Console, *, quiet: bool = False, title: str = "", stages: Sequence[str] = ()
) -> Iterator[ProgressReport]:
    """Yield a callable that stages report to; ``stages`` are those that are known to come, in their order."""
    if quiet:
        yield _Nothing()
    elif _can_be_painted(console):
        from energyscope.cli.live import Live

        with Live(title or " ".join(["energyscope", *sys.argv[1:3]]), stages, error_stream=console.stderr) as live:
            yield live
    else:
        yield _Plain(console, stages)


def measured_in_view(
    settings: RunSettings, console: Console, made: list[Path], *, command: str, quiet: bool
) -> Run:
    """Do a run while its progress is shown; its directory is added to ``made`` as soon as there is one."""
    stages = ("load", *(stage for stage in RUN_STAGES if stage in settings.stages))
    with progress(console, quiet=quiet, title=f"energyscope {command} {settings.model}", stages=stages) as report:
        from energyscope.stages.run import carry_out  # seconds, in which the terminal shows something

        def follow(path: Path) -> None:
            made.append(path)
            report.follow(path)

        return carry_out(
            settings, progress=report, command=command_line(), follow=follow, on_estimates=report.expect
        )


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

    def expect(self, estimates: Estimates) -> None:
        """Show nothing."""


class _Plain:
    """A line when a stage begins, and then one every so often."""

    def __init__(self, console: Console, stages: Sequence[str] = ()) -> None:
        self.console = console
        self.stage: str | None = None
        self.spoke = time.monotonic()
        self._stages = list(stages)
        self._pace = StageProgress(self.spoke)
        self._estimates: Estimates | None = None

    def __call__(self, stage: str, label: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self.stage:
            self.stage, self.spoke, self._pace = stage, now, StageProgress(now)
            self._pace.step(done, total, now)
            self._line(f"{stage}: {label if total <= 1 else f'{total} steps'}{self._run_left(now)}")
            return
        self._pace.step(done, total, now)
        if now - self.spoke >= PLAIN_EVERY_S and done:
            self.spoke = now
            moment, moments = moment_of(stage, self._pace, self._estimates)
            which = f"{moment} of {moments}, " if moments > 1 else ""
            left = self._pace.left(now)
            said = "" if left is None else f", about {left:.0f} s {'to the next' if moment < moments else 'left'}"
            self._line(f"{stage}: {which}{done}/{total}{said} ({label}){self._run_left(now)}")

    def follow(self, path: Path) -> None:
        """Show nothing of it."""

    def expect(self, estimates: Estimates) -> None:
        """Be told how long each stage will take, and say it with the next line."""
        self._estimates = estimates

    def _run_left(self, now_s: float) -> str:
        """Say what is left of the run where that is known, behind what is said of a stage of it."""
        if self._estimates is None or self.stage not in self._stages:
            return ""
        waiting = self._stages[self._stages.index(self.stage) + 1 :]
        left = left_of_run(self.stage, self._pace, waiting, self._estimates, now_s)
        return "" if left is None else f"; the run: {left_said(left)}"

    def _line(self, text: str) -> None:
        self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

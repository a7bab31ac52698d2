"""Progress: stages, ETA, power and the costliest components on a terminal, a few plain lines elsewhere.

The terminal is drawn by a process of its own (`energyscope.cli.live_view`). Reporting a step to it takes
microseconds and never waits: what a slow or stopped terminal (Ctrl-S) leaves no room for is dropped.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from rich.console import Console

from energyscope.cli.output import command_line
from energyscope.cli.time_left import Estimates, StageProgress, left_of_run, phase_of
from energyscope.reporting.terminal_live import left_text
from energyscope.reporting.terminal_text import printable
from energyscope.settings.run import RUN_STAGES, RunSettings

if TYPE_CHECKING:
    from energyscope.runs.store import Run

PLAIN_EVERY_S = 15.0
ENDING_S = 3.0
LONGEST = 400  # letters of a text in a message: a pipe takes up to 4096 bytes whole or not at all
SHOW_CURSOR = "\x1b[?25h"


class ProgressReport(Protocol):
    """What stages report to, and what a run's directory and the expected times of its stages are given to."""

    def __call__(self, stage: str, label: str, done: int, total: int) -> None: ...

    def begin(self, path: Path, estimates: Estimates) -> None: ...


@contextmanager
def progress(
    console: Console, *, quiet: bool = False, title: str = "", stages: Sequence[str] = ()
) -> Iterator[ProgressReport]:
    """Yield a callable that stages report to; ``stages`` are those that are known to come, in their order."""
    if not quiet and _can_be_painted(console):
        title = title or " ".join(["energyscope", *sys.argv[1:3]])
        with _live_view(title, stages, error_stream=console.stderr) as view:
            yield view
    else:
        yield _Plain(Console(quiet=True) if quiet else console, stages)


def measured_in_view(
    settings: RunSettings,
    console: Console,
    paths: list[Path],
    *,
    command: str,
    quiet: bool,
    lacking: Sequence[str] | None = None,
) -> Run:
    """Do a run, or what it is ``lacking``, while its progress is shown.

    Its directory is added to ``paths`` as soon as there is one.
    """
    asked = settings.stages if lacking is None else lacking
    stages = ("load", *(stage for stage in RUN_STAGES if stage in asked))
    with progress(console, quiet=quiet, title=f"energyscope {command} {settings.model}", stages=stages) as report:
        from energyscope.stages.run import run_settings  # seconds, in which the terminal shows something

        def begin(path: Path, estimates: Estimates) -> None:
            paths.append(path)
            report.begin(path, estimates)

        return run_settings(settings, progress=report, command=command_line(), on_open=begin, lacking=lacking)


def _can_be_painted(console: Console) -> bool:
    """Whether a picture can be redrawn in one place: on a capable terminal that no other process draws on."""
    leads = os.environ.get("RANK", "0") == "0"
    capable = console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
    return capable and leads and "utf" in console.encoding.lower()


class _Plain:
    """A line when a stage begins, and then one every so often."""

    def __init__(self, console: Console, stages: Sequence[str]) -> None:
        self._console = console
        self._stages = list(stages)
        self._stage, self._shown = "", ""  # the latter with its part: ``plan: prices``
        self._printed_s = time.monotonic()
        self._pace = StageProgress(self._printed_s)
        self._estimates: Estimates | None = None

    def __call__(self, stage: str, label: str, done: int, total: int) -> None:
        now_s = time.monotonic()
        begins = stage != self._shown or (stage == "load" and done > 0)  # what to know of a model is a line too
        name, _, part = stage.partition(": ")
        if name != self._stage:
            self._stage, self._pace = name, StageProgress(now_s)
        self._pace.step(done, total, now_s, part)
        if begins:
            self._shown, self._printed_s = stage, now_s
            self._print(f"{stage}: {label if total <= 1 else f'{total} steps'}{self._run_left(now_s)}")
        elif done and now_s - self._printed_s >= PLAIN_EVERY_S:
            self._printed_s = now_s
            phase, phases = phase_of(name, self._pace, self._estimates)
            which = f"{phase} of {phases}, " if phases > 1 else ""
            left_s = self._pace.left(now_s)
            until = "to the next" if phase < phases else "left"
            left = "" if left_s is None else f", about {left_s:.0f} s {until}"
            self._print(f"{stage}: {which}{done}/{total}{left} ({label}){self._run_left(now_s)}")

    def begin(self, path: Path, estimates: Estimates) -> None:  # noqa: ARG002 - only the live view reads the files
        self._estimates = estimates

    def _run_left(self, now_s: float) -> str:
        """Return what is left of the run, where that is known, to stand behind a stage's line."""
        if self._estimates is None or self._stage not in self._stages:
            return ""
        waiting = self._stages[self._stages.index(self._stage) + 1 :]
        left = left_of_run(self._stage, self._pace, waiting, self._estimates, now_s)
        return "" if left is None else f"; the run: {left_text(left)}"

    def _print(self, text: str) -> None:
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _live_view(title: str, stages: Sequence[str], *, error_stream: bool) -> Iterator[_LiveView]:
    """Start the process that draws, and show meanwhile above its picture what is written to the terminal."""
    which = "stderr" if error_stream else "stdout"
    command = [sys.executable, "-m", "energyscope.cli.live_view", title, ",".join(stages), which]
    with _without_interrupts():  # Ctrl-C is for the measuring process, whose end ends the view
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=None if error_stream else subprocess.DEVNULL
        )
    view = _LiveView(process)
    try:
        with contextlib.ExitStack() as streams:
            for stream, redirect in (
                (sys.stderr, contextlib.redirect_stderr), (sys.stdout, contextlib.redirect_stdout),
            ):  # fmt: skip
                if stream.isatty():  # a file gets its lines as usual
                    lines = _StreamLines(view, stream)
                    streams.enter_context(redirect(lines))
                    streams.callback(lines.say_rest)
            yield view
    finally:
        view.end()
        if process.returncode != 0:  # it could not clean up
            (sys.stderr if error_stream else sys.stdout).write(f"{SHOW_CURSOR}\n")
        for line in view.lost:
            sys.stderr.write(f"{line}\n")


class _LiveView:
    """Sends messages to the process that draws."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.over = False
        self.lost: list[str] = []
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)

    def __call__(self, stage: str, label: str, done: int, total: int) -> None:
        self._send({"step": [stage, label[:LONGEST], done, total]})

    def begin(self, path: Path, estimates: Estimates) -> None:
        self._send({"run": str(path.absolute())})
        self._send({"estimates": estimates})

    def say(self, line: str) -> None:
        """Print a line above the picture; once the process is gone, when the view is over."""
        for begin in range(0, len(line), LONGEST):
            part = line[begin : begin + LONGEST]
            if not self._send({"say": part}):
                self.lost.append(part)

    def _send(self, message: dict[str, Any]) -> bool:
        if self.over or self._process.stdin is None:
            return False
        try:
            os.write(self._process.stdin.fileno(), json.dumps(message).encode() + b"\n")
        except OSError:  # no room, or no reader
            return False
        return True

    def end(self) -> None:
        """End the process: it clears its picture when its input is closed."""
        self.over = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back; a process that is started meanwhile is never interrupted."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _StreamLines(io.TextIOBase):
    """Replaces a stream while the view has the terminal; afterwards it passes text on."""

    def __init__(self, view: _LiveView, stream: TextIO) -> None:
        super().__init__()
        self._view = view
        self._stream = stream
        self._rest = ""

    def write(self, text: str) -> int:
        if self._view.over:
            return self._stream.write(text)
        *lines, self._rest = (self._rest + text).replace("\r", "\n").split("\n")
        for line in lines:
            if line.strip():
                self._view.say(line)
        return len(text)

    def say_rest(self) -> None:
        """Print what no line end followed; a flush does not, as more of the line may come."""
        line, self._rest = self._rest, ""
        if line.strip():
            self._view.say(line)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

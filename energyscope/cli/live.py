"""The measuring process's side of the live view: it starts the painter, and tells it of steps.

Telling takes microseconds and never waits: what a slow or stopped terminal (Ctrl-S) leaves no room for is dropped.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

if TYPE_CHECKING:
    from types import TracebackType

    from energyscope.cli.live_left import Estimates

ENDING_S = 3.0
LONGEST = 400  # letters of a text in a message: a pipe takes up to 4096 bytes whole or not at all
SHOW_CURSOR = "\x1b[?25h"


class Live:
    """A painter process, and the streams whose lines it prints above its picture."""

    def __init__(self, title: str, stages: Sequence[str], *, error_stream: bool) -> None:
        self._title = title
        self._stages = ",".join(stages)
        self._error_stream = error_stream
        self._process: subprocess.Popen[bytes] | None = None
        self._streams = contextlib.ExitStack()
        self.lost: list[str] = []

    def __enter__(self) -> Self:
        which = "stderr" if self._error_stream else "stdout"
        command = [sys.executable, "-m", "energyscope.cli.live_paint", self._title, self._stages, which]
        errors = None if self._error_stream else subprocess.DEVNULL
        with _without_interrupts():  # Ctrl-C is for the measuring process; the painter ends when that one says so
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
        if sys.stderr.isatty():  # a file gets its lines as ever
            lines = _StreamLines(self, sys.stderr)
            self._streams.enter_context(contextlib.redirect_stderr(lines))
            self._streams.callback(lines.say_rest)
        if sys.stdout.isatty():
            lines = _StreamLines(self, sys.stdout)
            self._streams.enter_context(contextlib.redirect_stdout(lines))
            self._streams.callback(lines.say_rest)
        return self

    @property
    def over(self) -> bool:
        """Whether the terminal is free again."""
        return self._process is None

    def __call__(self, stage: str, label: str, done: int, total: int) -> None:
        self._tell({"step": [stage, label[:LONGEST], done, total]})

    def follow(self, path: Path) -> None:
        """Name the directory of the run that is to be shown."""
        self._tell({"run": str(path.absolute())})

    def expect(self, estimates: Estimates) -> None:
        """Say how long each stage will take, as far as that is known."""
        self._tell({"estimates": estimates})

    def say(self, line: str) -> None:
        """Print a line above the picture; once the painter is gone, when that is over."""
        for begin in range(0, len(line), LONGEST):
            part = line[begin : begin + LONGEST]
            if not self._tell({"say": part}):
                self.lost.append(part)

    def _tell(self, message: dict[str, Any]) -> bool:
        process = self._process
        if process is None or process.stdin is None:
            return False
        try:
            os.write(process.stdin.fileno(), json.dumps(message).encode() + b"\n")
        except OSError:  # no room, or nobody is there
            return False
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._streams.close()
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout=ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        stream = sys.stderr if self._error_stream else sys.stdout
        if process.returncode != 0:  # it could not clear up behind it
            stream.write(f"{SHOW_CURSOR}\n")
        for line in self.lost:
            sys.stderr.write(f"{line}\n")


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back; a process that is started meanwhile is never interrupted."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _StreamLines(io.TextIOBase):
    """Stands for a stream while the painter has the terminal; afterwards it passes on."""

    def __init__(self, live: Live, stream: TextIO) -> None:
        super().__init__()
        self._live = live
        self._stream = stream
        self._rest = ""

    def write(self, text: str) -> int:
        if self._live.over:
            return self._stream.write(text)
        *lines, self._rest = (self._rest + text).replace("\r", "\n").split("\n")
        for line in lines:
            if line.strip():
                self._live.say(line)
        return len(text)

    def say_rest(self) -> None:
        """Print what no line end followed; a flush does not, as more of the line may come."""
        line, self._rest = self._rest, ""
        if line.strip():
            self._live.say(line)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

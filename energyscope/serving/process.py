"""Sends loads to a server from a process of its own (`client`), and returns what became of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from energyscope.errors import RunError
from energyscope.serving.endpoint import Endpoint
from energyscope.serving.openai_api import shown
from energyscope.serving.requests import Answer, Load, Served

MODULE = "energyscope.serving.client"
ENDING_S = 2.0  # for which it is waited, once its input is closed and once it is asked to end


class Client:
    """Sends loads to a server from a process of its own; use it in a with statement.

    A request fails after ``timeout_s`` (s). The process ends with this one, however this one ends.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float = 60.0) -> None:
        self._first = {**asdict(endpoint), "timeout_s": timeout_s}
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  a pipe that nobody reads could fill up

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=pipe,
            stdout=pipe,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for this process, which ends that one
        )
        try:
            self._write(self._first)
        except BaseException:
            self._stop()
            raise
        return self

    def send(self, load: Load, on_answer: Callable[[Answer], None] | None = None) -> Served:
        """Send a load and wait until all its requests have ended; ``on_answer`` is called for each as it ends.

        Raises:
            RunError: the process died; the message has its last words.

        """
        self._write(load.document())
        answers: list[Answer] = []
        for line in self._running().stdout or ():
            record = json.loads(line)
            if "done" in record:
                return Served.of(load, answers, record["done"])
            answer = Answer.of(record["answer"])
            answers.append(answer)
            if on_answer is not None:
                on_answer(answer)
        raise self._died()

    def cpu_s(self) -> float | None:
        """Return the CPU time (s) that the process has used so far, None where it is not known."""
        try:
            stat = Path(f"/proc/{self._running().pid}/stat").read_text(encoding="utf-8")
            user, system = stat.rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, RunError):
            return None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RunError("the client is not started: use it in a with statement")
        return self._process

    def _write(self, document: dict[str, Any]) -> None:
        stdin = self._running().stdin
        try:
            if stdin is not None:
                stdin.write(json.dumps(document).encode() + b"\n")
                stdin.flush()
        except BrokenPipeError:
            raise self._died() from None

    def _died(self) -> RunError:
        """Return how the process ended, and its last words."""
        code = self._running().wait()
        if code < 0:
            name = signal.Signals(-code).name
            return RunError(f"the process that sends requests was killed ({name}): the kernel's log may say why")
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        message = shown(lines[-1]) if lines else "no message"
        return RunError(f"the process that sends requests ended ({code}): {message}")

    def _stop(self) -> None:
        """End the process: it ends by itself when its input closes, else it is asked, else killed."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
        try:
            for end in (process.terminate, process.kill):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=ENDING_S)
                    break
                end()
        finally:
            process.kill()  # also where Ctrl-C comes while it is waited for
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
            self._errors.close()

    def __exit__(self, *error: object) -> None:
        self._stop()

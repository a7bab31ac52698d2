"""The measuring process's side of a process that watches a GPU and prints a JSON line for every reading."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from energyscope.errors import MeterError

PIPE_BYTES = 1 << 20  # some five minutes of readings: nobody needs to read them during a window
ENDING_S = 2.0


class Watcher:
    """Starts a watching process, hands out what it wrote, and ends it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._lost: str | None = None

    def start(self) -> None:
        """Start the process; its standard input stays open for as long as it shall watch."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=pipe)
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)
            with contextlib.suppress(OSError):  # a user may be allowed less
                fcntl.fcntl(self._process.stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def drain(self) -> list[dict[str, Any]]:
        """Return the records written since the last call. The pipe buffers them, so that nothing runs here.

        Raises:
            MeterError: the process was not started, ended by itself, or lost what it watched.

        """
        process = self._process
        if process is None or process.stdout is None:
            raise MeterError("the meter is not started: use it in a with statement")
        ended = process.poll() is not None  # asked first: what it wrote before it ended is then all in the pipe
        while chunk := process.stdout.read(65536):
            self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        records = [json.loads(line) for line in lines]
        self._lost = next((str(record["lost"]) for record in records if "lost" in record), self._lost)
        if self._lost is not None:  # however often it is asked
            raise MeterError(self._lost)
        if ended:
            raise MeterError(f"the sampler process ended ({process.returncode}): {_last_words(process)}")
        return records

    def stop(self) -> None:
        """End the process and wait for it."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout=ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _last_words(process: subprocess.Popen[bytes]) -> str:
    message = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
    return message.splitlines()[-1] if message else "no message"

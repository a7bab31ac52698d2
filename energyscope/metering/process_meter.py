"""Meters whose readings come from a process of their own, which prints a JSON line for every reading."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np

from energyscope.errors import MeterError
from energyscope.metering.meter import Reading, no_counter
from energyscope.metering.ticks import Array, Ticks, sensor_facts
from energyscope.reasons import Reason, reason

FIRST_TICKS_S = 1.0
FIRST_TICKS_TIMEOUT_S = 15.0
PIPE_BYTES = 1 << 20  # some three minutes of readings: nobody needs to read them during a window
ENDING_S = 2.0
SILENT_S = 20.0  # longer than the first ticks are waited for
LISTENED_S = 5.0  # at most, since it was last listened for: longer, this process may have been stopped (Ctrl-Z)
ASLEEP_S = 0.01  # of the host, between two readings: less is how sharply it is known

Record = dict[str, Any]


class Watcher:
    """Starts a watching process, reads what it writes, and ends it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._lost: str | None = None

    def start(self) -> None:
        """Start the process; it watches until its standard input closes."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=pipe)
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)
            with contextlib.suppress(OSError, AttributeError):  # a user may be allowed less; macOS cannot
                fcntl.fcntl(self._process.stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def drain(self) -> list[dict[str, Any]]:
        """Return the records written since the last call. The pipe buffers them, so that nothing runs here.

        Raises:
            MeterError: the process was not started, ended by itself, or lost what it watched.

        """
        process = self._process
        if process is None or process.stdout is None:
            raise MeterError("the meter is not started: use it in a with statement")
        ended = process.poll() is not None  # before reading: all that it wrote is then in the pipe
        while chunk := process.stdout.read(65536):
            self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        records = [json.loads(line) for line in lines]
        self._lost = next((str(record["lost"]) for record in records if "lost" in record), self._lost)
        if self._lost is not None:  # at every later call too
            raise MeterError(self._lost)
        if ended:
            raise MeterError(_ended(process))
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


def _ended(process: subprocess.Popen[bytes]) -> str:
    """Return how a watching process ended, and its last words."""
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        return f"the process that reads the sensor was killed ({name}): the kernel's log (dmesg) may say why"
    message = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
    last_line = message.splitlines()[-1] if message else "no message"
    return f"the process that reads the sensor ended ({process.returncode}): {last_line}"


class Others(Protocol):
    """Looks for what else uses a device; ``notes`` say how far it can."""

    notes: list[Reason]

    def signs(self, own_bytes: int | None) -> list[Reason]: ...


class WatchedMeter(ABC):
    """A meter over a watching process; a context manager that keeps every record.

    ``choice`` says why this meter was chosen; ``notes`` what a reader of its joules must know; after ``silent_s``
    (s) without a reading it is taken for lost.
    """

    name = ""
    modelled = False
    settle_s = 0.0
    window_s = 0.42
    silent_s = SILENT_S
    silence = "the process that reads the sensor has sent nothing"

    def __init__(
        self, device: str, command: Sequence[str], neighbours: Others, notes: Sequence[Reason | None]
    ) -> None:
        self.device = device
        self.choice: str = reason("asked-for")
        self.notes = [note for note in notes if note]
        self.records: list[Record] = []
        self._neighbours = neighbours
        self._watcher = Watcher(command)
        self._listened_s = self._silent_s = 0.0
        self._asleep_s: float | None = None

    def __enter__(self) -> Self:
        self._watcher.start()
        self._listened_s = time.monotonic()
        try:
            self._await_first_ticks()
        except BaseException:
            self._watcher.stop()
            raise
        return self

    def _await_first_ticks(self) -> None:
        begin = time.monotonic()
        while time.monotonic() - begin < FIRST_TICKS_TIMEOUT_S:
            time.sleep(0.05)
            self._drain()
            if self.records and time.monotonic() - self.records[0]["after_s"] >= FIRST_TICKS_S:
                break
        self._check_first_ticks()

    @abstractmethod
    def _check_first_ticks(self) -> None:
        """Check the first second of ticks, and learn from them.

        Raises:
            MeterError: there are too few.

        """

    @abstractmethod
    def prove(self) -> Reason:
        """Return why this meter can be used here, before it is started.

        Raises:
            MeterError: it cannot.

        """

    def _drain(self) -> None:
        now_s = time.monotonic()
        self._silent_s += min(now_s - self._listened_s, LISTENED_S)
        self._listened_s = now_s
        for record in self._watcher.drain():
            if "activity" in record:  # it belongs to the tick before
                self.records[-1].update(record)
            else:
                slept, completed = self._slept(record), self._completed(record)
                self.records.append({**completed, "reset": completed["reset"] or slept})
                self._silent_s = 0.0

    def _completed(self, record: Record) -> Record:
        """Return a record with ``energy_mj`` and ``reset``; ``records`` holds the ones before it."""
        return record

    def _slept(self, record: Record) -> bool:
        """Tell whether the host slept since the records before: its clock stood still, and the counter did not."""
        before, now = self._asleep_s, record.get("asleep_s")
        self._asleep_s = before if now is None else now
        return before is not None and now is not None and abs(now - before) > ASLEEP_S

    def _require_readings(self) -> None:
        """Raise a MeterError where the sensor shows nothing any more, though no read of it fails."""
        if self._silent_s > self.silent_s:
            raise MeterError(
                f"{self.silence} for {self._silent_s:.0f} s: `energyscope doctor` shows what the sensor does, "
                "another --meter may work"
            )

    def ticks(self, begin_s: float, end_s: float) -> Ticks:
        self._drain()
        self._require_readings()
        first = bisect_left(self.records, begin_s, key=_time_s)
        return _as_ticks(self.records[first : bisect_right(self.records, end_s, key=_time_s)])

    def states(self, begin_s: float, end_s: float) -> list[Record]:
        first = bisect_left(self.records, begin_s, key=_after_s)
        return self.records[first : bisect_right(self.records, end_s, key=_after_s)]

    def read(self) -> Reading:
        raise no_counter(self.name)

    def bystanders(self, own_bytes: int | None = None) -> list[Reason]:
        return self._neighbours.signs(own_bytes)

    def describe(self) -> dict[str, Any]:
        read_s = [record["read_s"] for record in self.records if record.get("read_s") is not None]
        return {
            "meter": self.name,
            "modelled": False,
            "watts": None,
            "choice": self.choice,
            **sensor_facts(_as_ticks(self.records)),
            "read_cost_s": float(np.median(read_s)) if read_s else None,
            "notes": [*self.notes, *self._neighbours.notes],
        }

    def __exit__(self, *error: object) -> None:
        self._watcher.stop()


def _time_s(record: Record) -> float:
    return float(record["before_s"] + record["after_s"]) / 2


def _after_s(record: Record) -> float:
    return float(record["after_s"])


def _as_ticks(records: Sequence[Record]) -> Ticks:
    def column(name: str) -> Array:
        return np.array([record[name] for record in records], dtype=float)

    reset = np.array([record["reset"] for record in records], dtype=bool)
    return Ticks(column("before_s"), column("after_s"), column("energy_mj"), reset)

"""A process that reads one board's sensors: ``python -m energyscope.metering.nvml.probe UUID power|counter``.

``power`` reads every power field some hundred times a second and prints what it saw, for the step test.
``counter`` reads the energy counter as fast as it answers, to show what polling does to a counter.
Both run apart from the measured process, as the sampler does, and end when their standard input closes.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np

from energyscope.errors import MeterError
from energyscope.metering.nvml.board import POWER_FIELDS, Board, PowerField
from energyscope.metering.nvml.sampler import Emit, print_record, stdin_open
from energyscope.metering.process_meter import Watcher
from energyscope.metering.ticks import Array

What = Literal["power", "counter"]

PAUSE_S = 0.005  # between reads of power: fields are renewed every 20 ms or slower
REPORT_S = 0.5  # how often the counter's reader says how often it read
FIRST_RECORD_S = 15.0


class Probe:
    """Runs the process for as long as a block lasts, and returns what it saw."""

    def __init__(self, uuid: str, what: What) -> None:
        self.records: list[dict[str, Any]] = []
        self._watcher = Watcher([sys.executable, "-m", "energyscope.metering.nvml.probe", uuid, what])

    def __enter__(self) -> Self:
        self._watcher.start()
        try:
            self._await_first()
        except BaseException:
            self._watcher.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._watcher.stop()

    def _await_first(self) -> None:
        end = time.monotonic() + FIRST_RECORD_S
        while not self.records and time.monotonic() < end:
            time.sleep(0.02)
            self.drain()
        if not self.records:
            raise MeterError(f"the sensor did not answer in {FIRST_RECORD_S:g} s: see whether nvidia-smi does")

    def drain(self) -> None:
        """Read what the process wrote.

        Raises:
            MeterError: the process ended by itself.

        """
        self.records += self._watcher.drain()

    def trace(self, field: PowerField) -> tuple[Array, Array]:
        """Return the times (s) and powers (W) of a field, shape (samples,) each; empty if it does not answer."""
        readings = [(record["time_s"], record[field]) for record in self.records if record.get(field) is not None]
        times, power = np.array(readings, dtype=float).reshape(-1, 2).T
        return times, power


def watch_power(board: Board, emit: Emit, keep_going: Callable[[], bool]) -> None:
    """Read all power fields in turn and emit each round of reads; a read that fails is None."""
    while keep_going():
        record: dict[str, Any] = {field: board.power_or_none(field) for field in POWER_FIELDS}
        emit({"time_s": time.monotonic(), **record})
        time.sleep(PAUSE_S)


def hammer_counter(board: Board, emit: Emit, keep_going: Callable[[], bool]) -> None:
    """Read the energy counter without a pause, and emit how often that was, twice a second."""
    begin, reads = time.monotonic(), 0
    while keep_going():
        board.energy_mj()
        reads += 1
        seconds = time.monotonic() - begin
        if seconds >= REPORT_S:
            emit({"reads": reads, "seconds": seconds})
            begin, reads = time.monotonic(), 0


def main() -> None:
    """Read the sensors of the board whose UUID is the first argument until standard input closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the measuring process, which ends this one
    uuid, what = sys.argv[1:]
    watch = {"power": watch_power, "counter": hammer_counter}[what]
    try:
        watch(Board(uuid), print_record, stdin_open)
    except MeterError as error:
        print_record({"lost": str(error)})
    except BrokenPipeError:
        sys.stderr.close()


if __name__ == "__main__":
    main()

"""Watches one GPU: ``python -m energyscope.metering.nvml.sampler UUID energy|instant|average|usage``.

It runs apart from the measured process, so that neither the interpreter lock nor a busy loop there delays
it. It polls the energy counter, or one of the power fields, and prints one JSON line for each change, with the
times between which the change happened, and the board's state then. Once it knows the counter's period, it reads
only around the expected ticks. It prints nothing else: the pipe then holds minutes of ticks, and the measuring
process need not read it during a window. It ends when its standard input closes.

After a tick's line, and at most every 0.1 s, comes one with what the board was busy with since the one before: it
never holds a tick up.
"""

from __future__ import annotations

import itertools
import json
import random
import select
import signal
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

from energyscope.errors import MeterError
from energyscope.metering.nvml.activity import ActivityReader
from energyscope.metering.nvml.binding import LostGpuError
from energyscope.metering.nvml.board import Board, PowerField

PAUSE_S = 0.001  # between reads: a tighter loop showed no better ticks and slowed kernels more
FAILURE_PAUSE_S = 0.01
MAXIMUM_FAILURES = 200  # in a row: two seconds
TICKS_TO_LEARN = 10
MARGIN = 0.15  # of a period: reading starts this long before the next tick is due
DITHER = 0.05  # of a period: so much later, at random, reading may start
POWER_PAUSE_S = 0.01
HEARTBEAT_S = 0.2  # a steady power is reported this often: no change is not the same as no reading
REFRESH_S = 0.1  # of the driver's power fields; what was drawn since the last refresh, no field shows yet

SAME_MOMENT_S = 0.001  # between the reads of two clocks; a busy host may come between them
CLOCK_READS = 3

Record = dict[str, Any]
Emit = Callable[[Record], None]


class Pace:
    """Decides how long to wait before the next read.

    Each read enters the driver for milliseconds, which costs the measured process time where launching is its
    bottleneck, and some boards lose energy when polled. So, once the period is known, the counter is left alone
    until shortly before the next tick is due. A tick that comes early unlearns the period.
    """

    def __init__(self) -> None:
        self.ticks: deque[float] = deque(maxlen=TICKS_TO_LEARN)
        self.period_s: float | None = None

    def tick(self, before_s: float, after_s: float) -> None:
        """Note a tick between two times (s)."""
        if self.period_s is not None and after_s - before_s > 2 * MARGIN * self.period_s:
            self.ticks.clear()
        self.ticks.append((before_s + after_s) / 2)
        self.period_s = self._regular_period()

    def _regular_period(self) -> float | None:
        if len(self.ticks) < TICKS_TO_LEARN:
            return None
        steps = [later - earlier for earlier, later in itertools.pairwise(self.ticks)]
        period = statistics.median(steps)
        regular = all(abs(step - period) < MARGIN * period for step in steps)
        return period if regular else None

    def pause_s(self, now_s: float) -> float:
        """Return how long to sleep now (s)."""
        if self.period_s is None:
            return PAUSE_S
        wait = self.ticks[-1] + (1 - MARGIN) * self.period_s - now_s
        # at a fixed pace the reads could creep through the ticks' phase, and tilt the period fitted to them
        return PAUSE_S if wait <= PAUSE_S else wait + random.uniform(0, DITHER * self.period_s)


def watch(
    read_energy_mj: Callable[[], float],
    read_state: Callable[[], Record],
    emit: Emit,
    keep_going: Callable[[], bool],
) -> None:
    """Poll a counter and emit a record for every change of it.

    A record has ``before_s`` and ``after_s`` (between which the change happened), ``energy_mj``, ``read_s``
    (the cost of the read), ``reset`` (the counter fell), ``asleep_s`` (see `asleep_s`), and the state. A read that
    fails is left out: the next change is then known less sharply, never wrongly.
    """
    last_energy: float | None = None
    last_mid = 0.0
    pace = Pace()
    for mid, cost, energy in readings(read_energy_mj, emit, keep_going):
        if last_energy is not None and energy != last_energy:
            pace.tick(last_mid, mid)
            record = {"before_s": last_mid, "after_s": mid, "energy_mj": energy, "read_s": cost}
            emit({**record, "reset": energy < last_energy, "asleep_s": asleep_s(), **read_state()})
        last_energy, last_mid = energy, mid
        time.sleep(pace.pause_s(time.monotonic()))


def watch_power(
    read_power_w: Callable[[], float],
    read_state: Callable[[], Record],
    emit: Emit,
    keep_going: Callable[[], bool],
) -> None:
    """Poll a power field and emit a record for every change of it, and every 0.2 s where it stays the same.

    A record has ``before_s`` and ``after_s``, ``reading_w``, ``read_s`` (the cost of the read), ``asleep_s``, and
    the state. The sensor refreshed between the two times; where nothing changed, both are the time up to which the
    reading surely held: one refresh ago.
    """
    last_power: float | None = None
    last_mid = emitted_s = 0.0
    for mid, cost, power in readings(read_power_w, emit, keep_going):
        bracket = None
        if last_power is None:
            bracket = mid, mid
        elif power != last_power:
            bracket = last_mid, mid
        elif mid - emitted_s >= HEARTBEAT_S:
            bracket = mid - REFRESH_S, mid - REFRESH_S
        if bracket is not None:
            before_s, after_s = bracket
            record = {"before_s": before_s, "after_s": after_s, "reading_w": power, "read_s": cost}
            emit({**record, "asleep_s": asleep_s(), **read_state()})
            emitted_s = mid
        last_power, last_mid = power, mid
        time.sleep(POWER_PAUSE_S)


def readings(
    read: Callable[[], float], emit: Emit, keep_going: Callable[[], bool]
) -> Iterator[tuple[float, float, float]]:
    """Yield each reading that succeeds: when (its middle, s), its cost (s) and its value; end when it is lost."""
    failures = 0
    while keep_going():
        start = time.monotonic()
        try:
            value = read()
        except Exception as error:  # noqa: BLE001 - whatever a driver raises, one failed read is not an end
            failures += 1
            if isinstance(error, LostGpuError) or failures >= MAXIMUM_FAILURES:
                emit({"lost": str(error)})
                return
            time.sleep(FAILURE_PAUSE_S)
            continue
        failures = 0
        end = time.monotonic()
        yield (start + end) / 2, end - start, value


def asleep_s() -> float | None:
    """Return how long this host has slept since it was started (s), None where no clock tells.

    The monotonic clock stands still meanwhile: energy drawn then would seem to be drawn in no time.
    """
    for _ in range(CLOCK_READS if hasattr(time, "CLOCK_BOOTTIME") else 0):
        before_s, since_boot_s = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
        if time.monotonic() - before_s < SAME_MOMENT_S:
            return since_boot_s - before_s
    return None


def with_activity(emit: Emit, read_activity: Callable[[], Record]) -> Emit:
    """Return an ``emit`` that adds a record of what the board was busy with, ``activity``, behind each tick."""

    def emit_both(record: Record) -> None:
        emit(record)
        if "lost" not in record and (activity := read_activity()):
            emit({"activity": activity})

    return emit_both


def print_record(record: Record) -> None:
    """Write a record as one line, at once."""
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def stdin_open() -> bool:
    """Return whether standard input is still open: it closes when the measuring process ends, however it ends."""
    readable, _, _ = select.select([sys.stdin], [], [], 0)
    return not readable or bool(sys.stdin.read(1))


def main() -> None:
    """Watch the GPU whose UUID is the first argument, by the source in the second, until standard input closes."""
    # Ctrl-C reaches the whole process group; the measuring process decides when watching ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source = sys.argv[2]
    try:
        board = Board(sys.argv[1])
        emit = with_activity(print_record, ActivityReader(board).read)
        if source == "energy":
            watch(board.energy_mj, board.state, emit, stdin_open)
        else:
            field = cast("PowerField", source)
            watch_power(lambda: board.power_w(field), board.state, emit, stdin_open)
    except MeterError as error:
        print_record({"lost": str(error)})
    except BrokenPipeError:
        sys.stderr.close()


if __name__ == "__main__":
    main()

"""The process that watches one GPU's energy counter: ``python -m energyscope.metering.sampler UUID``.

It runs apart from the measured process, so that neither the interpreter lock nor a busy loop there delays
it. It polls the counter and prints one JSON line for each change (tick), with the times between which the
change happened, and the board's state then. Once it knows the period, it reads only around the expected ticks. It
prints nothing else, so that the pipe holds many seconds
of ticks and nobody needs to read it during a window. It ends when its standard input closes.
"""

from __future__ import annotations

import itertools
import json
import select
import signal
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

PAUSE_S = 0.001  # between reads: a tighter loop showed no better ticks and slowed kernels more
MAXIMUM_FAILURES = 100
TICKS_TO_LEARN = 10
MARGIN = 0.15  # of a period: reading starts this long before the next tick is due


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
        due = self.ticks[-1] + (1 - MARGIN) * self.period_s
        return max(PAUSE_S, due - now_s)


def watch(
    read_energy_mj: Callable[[], float],
    read_state: Callable[[], dict[str, Any]],
    emit: Callable[[dict[str, Any]], None],
    keep_going: Callable[[], bool],
) -> None:
    """Poll a counter and emit a record for every change of it.

    A record has ``before_s`` and ``after_s`` (between which the change happened), ``energy_mj``, ``read_s``
    (the cost of the read), ``reset`` (the counter fell), and the state. A read that fails is left out: the
    next change is then known less sharply, never wrongly.
    """
    last_energy: float | None = None
    last_mid = 0.0
    failures = 0
    pace = Pace()
    while keep_going():
        start = time.monotonic()
        try:
            energy = read_energy_mj()
        except Exception as error:  # noqa: BLE001 - whatever a driver raises, one failed read is not an end
            failures += 1
            if failures >= MAXIMUM_FAILURES:
                emit({"lost": str(error)})
                return
            time.sleep(PAUSE_S)
            continue
        failures = 0
        end = time.monotonic()
        mid = (start + end) / 2
        if last_energy is not None and energy != last_energy:
            pace.tick(last_mid, mid)
            record = {"before_s": last_mid, "after_s": mid, "energy_mj": energy, "read_s": end - start}
            emit({**record, "reset": energy < last_energy, **read_state()})
        last_energy, last_mid = energy, mid
        time.sleep(pace.pause_s(time.monotonic()))


def main() -> None:
    """Watch the GPU whose UUID is the first argument until standard input closes."""
    from energyscope.metering.nvml import Board

    # Ctrl-C reaches the whole process group; the measuring process decides when watching ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    board = Board(sys.argv[1])

    def emit(record: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()

    def keep_going() -> bool:
        readable, _, _ = select.select([sys.stdin], [], [], 0)
        return not readable or bool(sys.stdin.read(1))

    try:
        watch(board.energy_mj, board.state, emit, keep_going)
    except BrokenPipeError:
        sys.stderr.close()


if __name__ == "__main__":
    main()

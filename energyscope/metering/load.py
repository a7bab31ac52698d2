"""What else keeps the processor busy: its counters hold the joules of every process.

Processor time of all processes, from Linux's /proc/stat, is compared with that of this one and of what it started.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

from energyscope.metering.nvml.neighbours import own_processes
from energyscope.reasons import Reason, reason

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BUSY_CORES = 0.05  # of others, beside each core that is ours, one at least


class OtherLoad:
    """Looks for processor time that others took, from one check to the next; a note says where it cannot."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._watches = (proc / "stat").exists()
        self.notes: list[Reason] = [] if self._watches else [reason("others-not-watched")]
        self._before = self._times() if self._watches else (0.0, 0.0, 0.0)

    def signs(self, own_bytes: int | None = None) -> list[Reason]:  # noqa: ARG002 - of device memory; none here
        """Return a reason where others were busy since the check before, by more than 5 % of what is ours.

        Its number is a power of two: from one check to the next, it would else be another one each time.
        """
        if not self._watches:
            return []
        (then_s, all_then, own_then), now = self._before, self._times()
        self._before = now
        seconds = now[0] - then_s
        if seconds <= 0:
            return []
        own = (now[2] - own_then) / seconds
        others = (now[1] - all_then) / seconds - own
        if others <= BUSY_CORES * max(own, 1.0):
            return []
        return [reason("processor-shared", cores=2 ** math.ceil(math.log2(max(round(others, 1), 1.0))))]

    def _times(self) -> tuple[float, float, float]:
        """Return the time now (s), and the processor time (s) of all processes and of ours."""
        user, nice, system = map(int, (self._proc / "stat").read_text(encoding="ascii").split()[1:4])
        own = sum(map(self._ticks_of, own_processes()))
        return time.monotonic(), (user + nice + system) / TICKS_PER_S, own / TICKS_PER_S

    def _ticks_of(self, pid: int) -> int:
        """Return the ticks of a process and of its children that have ended; 0 of one that has ended itself."""
        try:
            text = (self._proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return 0
        return sum(map(int, text.rpartition(")")[2].split()[11:15]))

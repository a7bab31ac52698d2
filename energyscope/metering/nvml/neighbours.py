"""Who else uses the GPU: by process, by utilisation and by memory, since each of these may show nothing.

Containers hide the ids of processes outside, and some number our own differently: a process list without this
process, although it holds memory, is not trusted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from energyscope.reasons import Reason, reason

BUSY = 0.05
GROWN_BYTES = 256 << 20
CONTEXT_BYTES = 1 << 30  # a CUDA context and its libraries: ours, but in no count of tensors
HIDDEN = reason("own-process-hidden")


@dataclass(frozen=True)
class Usage:
    """What a board says of its users; None where it does not say. ``utilisation`` is 0 to 1."""

    processes: list[int] | None
    utilisation: float | None
    memory_used_bytes: int | None


class Neighbours:
    """Looks for other users of one GPU, from one check to the next."""

    def __init__(self, look: Callable[[], Usage]) -> None:
        self._look = look
        self._foreign_bytes: int | None = None  # used by others at the last check
        self._opened_bytes = look().memory_used_bytes
        self.notes: list[Reason] = []

    def signs(self, own_bytes: int | None) -> list[Reason]:
        """Return a reason for each sign of another user; call it while this process runs nothing there.

        ``own_bytes`` is the device memory that this process holds; None where it is not known.
        """
        usage = self._look()
        busy = usage.utilisation is not None and usage.utilisation > BUSY
        return [
            *self._by_process(usage, own_bytes),
            *([reason("busy-without-us", share=usage.utilisation)] if busy else []),
            *self._by_memory(usage, own_bytes),
        ]

    def _by_process(self, usage: Usage, own_bytes: int | None) -> list[Reason]:
        if usage.processes is None:
            return []
        own = own_processes()
        if own_bytes and not own.intersection(usage.processes):
            if HIDDEN not in self.notes:
                self.notes.append(HIDDEN)
            return []
        return [reason("other-process", pid=pid) for pid in usage.processes if pid not in own]

    def _by_memory(self, usage: Usage, own_bytes: int | None) -> list[Reason]:
        """Report other processes' memory that grew since the last check, or since the meter was opened."""
        if usage.memory_used_bytes is None or own_bytes is None:
            return []
        foreign, before, allowed = usage.memory_used_bytes - own_bytes, self._foreign_bytes, GROWN_BYTES
        self._foreign_bytes = foreign
        if before is None:
            before, allowed = self._opened_bytes, GROWN_BYTES + CONTEXT_BYTES
        if before is None or foreign - before <= allowed:
            return []
        return [reason("memory-grew", mib=(foreign - before) / 2**20)]


def own_processes() -> set[int]:
    """Return the ids of this process and of all that it started, directly or not; under torchrun its siblings."""
    launcher = [os.getppid()] if "TORCHELASTIC_RUN_ID" in os.environ else []
    return with_descendants([os.getpid(), *launcher])


def with_descendants(pids: Iterable[int]) -> set[int]:
    """Return processes and all that they started, directly or not, of those that live."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # the name in parentheses may hold anything; the parent is the second word after it
            parent = int(entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it ended while we looked
        children.setdefault(parent, []).append(int(entry.parent.name))
    related, unvisited = set(), list(pids)
    while unvisited:
        pid = unvisited.pop()
        related.add(pid)
        unvisited += children.get(pid, [])
    return related

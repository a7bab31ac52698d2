"""The engine behind an address on this machine: its processes, the GPUs that they use, and who else uses these.

port 8000 -> /proc/net/tcp: socket 4711 -> /proc/812/fd: process 812, which started 840 -> NVML: GPU-1a9f...
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from energyscope.errors import MeterError, UsageError
from energyscope.metering.nvml.board import Board
from energyscope.metering.nvml.devices import list_gpus, resolve_gpus
from energyscope.metering.nvml.neighbours import with_descendants
from energyscope.reasons import Reason, reason

LISTENING = "0A"  # of /proc/net/tcp
PORTS = {"http": 80, "https": 443}


class Engine:
    """The processes that listen at an address, with all that they started, and the GPUs (UUIDs) they use.

    ``notes`` say what is not known of them.

    Raises:
        UsageError: it is another machine's, or there are several GPUs and nothing tells which are the engine's.

    """

    def __init__(self, url: str, gpu_ids: Sequence[str] = ()) -> None:
        parts = urlsplit(url)
        if not gpu_ids and not is_local(str(parts.hostname)):
            advice = "run this there, or name GPUs of this machine with --gpu-id"
            raise UsageError(f"{parts.hostname} is another machine, whose GPUs cannot be read here: {advice}")
        self._listening = sorted(listening_processes(parts.port or PORTS.get(parts.scheme, 80)))
        self.notes: list[Reason] = [] if self._listening else [reason("engine-unseen")]
        self.gpus = self._gpus(gpu_ids)
        if self.gpus and self._listening and not any(self._shown(gpu) for gpu in self.gpus):
            self.notes.append(reason("engine-hidden"))

    def others(self) -> list[Reason]:
        """Return a reason for each process on these GPUs that is not the engine's; none where it is hidden."""
        if self.notes:
            return []
        own = with_descendants([*self._listening, os.getpid()])
        return [
            reason("other-process", pid=pid)
            for gpu in self.gpus
            for pid in Board(gpu).processes() or ()
            if pid not in own
        ]

    def _shown(self, gpu: str) -> bool:
        """Tell whether NVML lists one of the engine's processes on a GPU."""
        return not with_descendants(self._listening).isdisjoint(Board(gpu).processes() or ())

    def _gpus(self, gpu_ids: Sequence[str]) -> list[str]:
        if gpu_ids:
            return [gpu.uuid for gpu in resolve_gpus(gpu_ids)]
        try:
            gpus = [gpu.uuid for gpu in list_gpus() if not gpu.mig]
        except MeterError:
            return []
        used = [gpu for gpu in gpus if self._shown(gpu)]
        if not used and len(gpus) > 1:
            raise UsageError(
                f"this machine has {len(gpus)} GPUs, and NVML does not tell which of them the engine uses: "
                "name them with --gpu-id"
            )
        return used or gpus


def is_local(host: str) -> bool:
    """Tell whether a name is of this machine: one of its addresses can be bound here."""
    try:
        known = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in known:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as tried:
            tried.bind((address[0], 0))
            return True
    return False


def listening_processes(port: int) -> set[int]:
    """Return the ids of the processes that listen at a port of this machine, of those that may be looked at."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    found = set()
    for entry in Path("/proc").glob("[0-9]*/fd"):
        try:
            if any(str(descriptor.readlink()) in sockets for descriptor in entry.iterdir()):
                found.add(int(entry.parent.name))
        except OSError:
            continue  # another user's, or it ended while we looked
    return found


def _listening_inodes(port: int) -> Iterator[str]:
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                yield inode

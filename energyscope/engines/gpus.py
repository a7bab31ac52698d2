"""The GPUs that a worker sees, and the lock that gives each to one cell at a time on a host."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from energyscope.errors import DeviceError, MeterError
from energyscope.metering.nvml.devices import Gpu, list_gpus, resolve_gpus

VISIBLE = "CUDA_VISIBLE_DEVICES"
ASK_S = 1.0


def visible_gpus() -> list[Gpu]:
    """Return the GPUs that CUDA would see in this process, in NVML's words, without CUDA; none without NVML.

    Numbers count as NVML does (by bus): `measure_cell` gives them on as UUIDs.
    """
    try:
        named = os.environ.get(VISIBLE)
        if named is None:
            return [gpu for gpu in list_gpus() if not gpu.mig and not gpu.split]
        return resolve_gpus([word.strip() for word in named.split(",") if word.strip()])
    except MeterError:
        return []


@contextlib.contextmanager
def take_gpu(uuids: Sequence[str], stop: threading.Event | None = None) -> Iterator[str]:
    """Hold one of the GPUs, or of all that are visible where none is named, and yield its UUID.

    Waits until one is free. The lock is of this host, for all users; the kernel releases it with the process.

    Raises:
        DeviceError: no GPU is visible, or ``stop`` was set while waiting.

    """
    wanted = list(uuids) or [gpu.uuid for gpu in visible_gpus()]
    if not wanted:
        raise DeviceError("no GPU is visible to this worker: give it one, or use --device cpu")
    while True:
        for uuid in wanted:
            with _lock_file(uuid) as file:
                if _locked(file):
                    _sign(file)
                    yield uuid
                    return
        if stop is not None and stop.is_set():
            raise DeviceError("stopped while waiting for a free GPU")
        time.sleep(ASK_S)


def answers(uuid: str) -> bool:
    """Whether NVML still knows a GPU."""
    try:
        return any(gpu.uuid == uuid for gpu in list_gpus())
    except MeterError:
        return False


def lock_path(uuid: str) -> Path:
    """Return the file whose lock gives a GPU of this host to one cell."""
    return Path(tempfile.gettempdir()) / f"energyscope-cells-{uuid.replace('/', '_')}.lock"


@contextlib.contextmanager
def _lock_file(uuid: str) -> Iterator[IO[str]]:
    """Open the lock's file, of whichever user it is: that of another in /tmp must not be opened to be made."""
    path = lock_path(uuid)
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        number = os.open(path, flags)
    except FileNotFoundError:
        number = os.open(path, flags | os.O_CREAT, 0o666)
        with contextlib.suppress(OSError):
            path.chmod(0o666)
    with os.fdopen(number, "r+", encoding="utf-8") as file:
        yield file


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(file: IO[str]) -> None:
    """Write who holds the lock, for whoever wonders why a GPU is not free."""
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()

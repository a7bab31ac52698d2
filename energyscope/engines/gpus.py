"""The GPUs that a worker sees, by UUID, and one of them for a cell alone."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence

from energyscope.errors import DeviceError, MeterError, UsageError
from energyscope.metering.claims import CELLS, claimed, is_claimed
from energyscope.metering.nvml.devices import Gpu, list_gpus, resolve_gpus

VISIBLE = "CUDA_VISIBLE_DEVICES"
ASK_S = 1.0
LOG = logging.getLogger("energyscope")


class NoGpuError(DeviceError):
    """This worker sees no GPU; another one may."""


def visible_gpus() -> list[Gpu]:
    """Return the GPUs that CUDA would see in this process, in NVML's words, without CUDA; none without NVML.

    Numbers count as NVML does (by bus): `measure_cell` gives them on as UUIDs. As with CUDA, a name that is not
    known ends the list.
    """
    try:
        named = os.environ.get(VISIBLE)
        if named is None:
            return [gpu for gpu in list_gpus() if not gpu.mig and not gpu.split]
        found: list[Gpu] = []
        with contextlib.suppress(UsageError):
            for word in named.split(","):
                found += resolve_gpus([word.strip()])
    except MeterError:
        return []
    return found


@contextlib.contextmanager
def take_gpu(uuids: Sequence[str], stop: threading.Event | None = None) -> Iterator[str]:
    """Hold one of the GPUs, or of all that are visible where none is named, and yield its UUID.

    Waits until one is free, of other cells and of runs. MIG slices take turns: joules are those of their board.
    The lock is of this host, and ends with the process.

    Raises:
        NoGpuError: no GPU is visible.
        DeviceError: ``stop`` was set while waiting.

    """
    wanted = list(uuids) or [gpu.uuid for gpu in visible_gpus()]
    if not wanted:
        raise NoGpuError("no GPU is visible to this worker: give it one, or use --device cpu")
    boards = {uuid: board_of(uuid) for uuid in wanted}
    waiting = False
    while not (stop and stop.is_set()):
        for uuid in wanted:
            with claimed([boards[uuid]], "a sweep", whose=CELLS) as others:
                if not others and not is_claimed(boards[uuid]):
                    yield uuid
                    return
        if not waiting:
            LOG.warning("energyscope: waiting for %s, which others measure", " or ".join(wanted))
        waiting = True
        time.sleep(ASK_S)
    raise DeviceError("stopped while waiting for a free GPU")


def board_of(uuid: str) -> str:
    """Return the UUID of the GPU that a MIG slice is a part of; of a whole GPU, or without NVML, its own."""
    with contextlib.suppress(MeterError):
        return next((gpu.parent_uuid or uuid for gpu in list_gpus() if gpu.uuid == uuid), uuid)
    return uuid


def answers(uuid: str) -> bool:
    """Whether NVML still knows a GPU."""
    try:
        return any(gpu.uuid == uuid for gpu in list_gpus())
    except MeterError:
        return False

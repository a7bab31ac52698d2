"""Who measures a GPU: an advisory lock for each GPU, so that a second run learns of the first one at once.

A sweep's workers have a lock of their own, by which they wait for each other; they wait for other runs as well.

What else uses a GPU, NVML tells (`energyscope.metering.nvml.neighbours`), but only by the number of its process,
and in a container perhaps not even that. The lock ends with the process that holds it, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from energyscope.reasons import Reason, reason

FOLDER = Path("/tmp")  # noqa: S108  which all users of a machine share, whatever their TMPDIR
MOST_LETTERS = 300  # of a run's name, in a file that anybody may have written
ASKING_S = 0.05  # in which `is_claimed` has released its lock again
RUNS, CELLS, LIMITS = "", "cells-", "limits-"  # whose locks


@contextmanager
def claimed(gpus: Sequence[str], run: str, *, whose: str = RUNS) -> Iterator[list[Reason]]:
    """Claim GPUs (UUIDs) for a run while the context lasts; yield a reason for each that another one has.

    Where no lock can be taken, nothing is said.
    """
    others = []
    with ExitStack() as stack:
        for gpu in gpus:
            handle = _opened(lock_path(gpu, whose))
            if handle is None:
                continue
            stack.callback(os.close, handle)
            taken = _taken(handle)
            if taken is False:
                others.append(reason("measured-by-another-run", gpu=gpu, run=_holder(handle)))
            elif taken:
                _sign(handle, f"{run} (process {os.getpid()})")
        yield others


def is_claimed(gpu: str) -> bool:
    """Whether a run measures a GPU now; where that cannot be known, it is free."""
    try:
        with lock_path(gpu, RUNS).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def lock_path(gpu: str, whose: str) -> Path:
    """Return the file whose lock says that a GPU is measured."""
    return FOLDER / f"energyscope-{whose}{Path(gpu).name}.lock"


def _taken(handle: int) -> bool | None:
    """Take a lock; False where another one has it, None where locks are not known."""
    for pause in (ASKING_S, 0.0):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)
        except OSError:
            return None
        else:
            return True
    return False


def _opened(path: Path) -> int | None:
    """Open a GPU's lock; where another user made it, one can still wait for it."""
    for mode in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        with suppress(OSError):
            return os.open(path, mode | os.O_NOFOLLOW, 0o644)
    return None


def _sign(handle: int, text: str) -> None:
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, text.encode(), 0)


def _holder(handle: int) -> str:
    return os.pread(handle, MOST_LETTERS, 0).decode(errors="replace") or "another run"

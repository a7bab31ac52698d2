"""Which run measures a GPU: an advisory lock for each GPU, so that a second run learns of the first one at once.

What else uses a GPU, NVML tells (`energyscope.metering.nvml.neighbours`), but only by the number of its process,
and in a container perhaps not even that. The lock ends with the process that holds it, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from energyscope.reasons import Reason, reason

FOLDER = Path(tempfile.gettempdir())  # which all users of a machine share
MOST_LETTERS = 300  # of a run's name, in a file that anybody may have written


@contextmanager
def claimed(gpus: Sequence[str], run: str) -> Iterator[list[Reason]]:
    """Claim GPUs (UUIDs) for a run while the context lasts; yield a reason for each that another run has.

    Where no lock can be taken, nothing is said.
    """
    others = []
    with ExitStack() as stack:
        for gpu in gpus:
            handle = _opened(FOLDER / f"energyscope-{Path(gpu).name}.lock")
            if handle is None:
                continue
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                others.append(reason("measured-by-another-run", gpu=gpu, run=_holder(handle)))
            except OSError:
                continue
            else:
                _sign(handle, f"{run} (process {os.getpid()})")
        yield others


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

"""Whether a run directory is being written to now: an advisory lock on its journal.

A stage's state alone cannot say: ``running`` is also what a process leaves that was killed. The lock ends with the
process that holds it, however it ends. The writer's is exclusive and readers share theirs, so that two readers
never take each other for a writer; NFS moreover grants an exclusive lock only on a file opened for writing.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from energyscope.runs import schema


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Mark a run directory as being written to; on a file system without locks nothing is marked."""
    with (path / schema.JOURNAL_FILE).open("a") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)  # waits for readers that ask: each holds theirs for a moment
        yield


def is_written(path: Path) -> bool:
    """Whether a process is writing to a run directory; False where that cannot be told."""
    try:
        with (path / schema.JOURNAL_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False

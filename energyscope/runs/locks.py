"""Whether a run directory is being written to now: an advisory lock on its journal.

A stage's state does not tell: a process that was killed leaves ``running`` too. The lock ends with the process
that holds it, however it ends. The writer's is exclusive and readers share theirs, so that two readers never take
each other for a writer; NFS moreover grants an exclusive lock only on a file opened for writing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from energyscope.errors import RunError
from energyscope.runs import schema

READERS_S = 1.0
BEING_MEASURED = "is being measured by another process: wait until it ends, or stop it"
MOUNTS = Path("/proc/self/mountinfo")
NOT_SHARED = {"local_lock=all", "local_lock=flock", "nolock", "localflock", "nobrl"}  # of NFS, Lustre and SMB
# Folders of another host, whose locks stay on that host. Those that a host shares with its own guests (9p,
# virtiofs: WSL, containers) are not among them: only the guest locks files there.
SHARED_FOLDERS = {"fuse.sshfs", "fuse.rclone"}


@contextlib.contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Mark a run directory as being written to; on a file system without locks nothing is marked.

    A run's journal that is empty at the end is removed: that of a finished run is compressed, by another name.

    Raises:
        RunError: another process writes to it, or has removed it.

    """
    journal = path / schema.JOURNAL_FILE
    with _locked(path) as file:
        try:
            yield
        finally:
            empty = os.fstat(file.fileno()).st_size == 0
            if empty and (path / schema.RUN_FILE).is_file() and _is_at(journal, file):
                journal.unlink()


def _locked(path: Path) -> IO[str]:
    """Open the journal and lock it; anew where the one that was locked has been removed meanwhile."""
    while True:
        try:
            file = (path / schema.JOURNAL_FILE).open("a")
        except FileNotFoundError as error:
            raise RunError(f"{path} was removed by another process") from error
        with contextlib.ExitStack() as opened:
            opened.callback(file.close)
            with contextlib.suppress(OSError):
                _lock(file, path)
            if _is_at(path / schema.JOURNAL_FILE, file):
                opened.pop_all()
                return file


def _is_at(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _lock(file: IO[str], path: Path) -> None:
    """Take the lock; readers that ask for it hold theirs for a moment, a writer for hours."""
    deadline_s = time.monotonic() + READERS_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise RunError(f"{path} {BEING_MEASURED}") from None
            time.sleep(READERS_S / 50)
        else:
            return


def is_being_written(path: Path) -> bool | None:
    """Whether a process is writing to a run directory; None where that is unknown (see `is_locked`)."""
    return is_locked(path / schema.JOURNAL_FILE)


def is_locked(file: Path) -> bool | None:
    """Whether a process holds an exclusive lock on a file; of a file that is not there none does.

    None where that is unknown: the file may not be read, its file system knows no locks, or it is mounted so
    that the locks of one host are not seen on another.
    """
    try:
        with file.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            device = os.fstat(stream.fileno()).st_dev
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return None if _keeps_locks_to_itself(device) else False


def _keeps_locks_to_itself(device: int) -> bool:
    """Tell whether a file system is mounted so that other hosts' locks on it are not seen here."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux: nothing is known against it
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    for words in (line.split() for line in mounts.splitlines()):
        if number in words[2:3]:
            kind = words[words.index("-") + 1 :][:1] if "-" in words else []  # type, source, options follow
            if NOT_SHARED.intersection(words[-1].split(",")) or SHARED_FOLDERS.intersection(kind):
                return True
    return False

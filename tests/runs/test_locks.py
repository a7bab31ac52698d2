"""Whether a run directory is being written to: as long as its process lives, and no longer."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest

from energyscope.runs import locks as module
from energyscope.runs import schema
from energyscope.runs.locks import is_being_written, write_lock
from energyscope.runs.store import RunStore, read_journal

HOLD = "import sys; from pathlib import Path; from energyscope.runs.locks import write_lock\n"


def test_a_run_is_written_to_while_its_process_says_so(tmp_path: Path) -> None:
    """GIVEN a directory, THEN it is being written to inside of the mark, and not before or after it."""
    assert is_being_written(tmp_path) is False
    with write_lock(tmp_path):
        assert is_being_written(tmp_path)
        assert is_being_written(tmp_path), "asking takes the mark from nobody"
    assert is_being_written(tmp_path) is False


def test_the_mark_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    """GIVEN another process that writes, WHEN it is killed without notice THEN nobody is writing any more."""
    held = f"{HOLD}with write_lock(Path({str(tmp_path)!r})): print('now', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        assert is_being_written(tmp_path)
        process.kill()
        process.wait(timeout=500)
    assert is_being_written(tmp_path) is False


def test_a_lock_whose_file_was_removed_is_taken_anew(tmp_path: Path) -> None:
    """GIVEN a finished run WHEN its lock ends while another one waits for it THEN a third one sees that other."""
    (tmp_path / schema.RUN_FILE).touch()
    held = f"{HOLD}with write_lock(Path({str(tmp_path)!r})): print('now', flush=True); sys.stdin.read()"
    with write_lock(tmp_path):
        process = subprocess.Popen([sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        time.sleep(0.5)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        assert is_being_written(tmp_path)
    assert not (tmp_path / schema.JOURNAL_FILE).exists()


def test_a_run_whose_journal_is_unpacked_stays_locked(tmp_path: Path) -> None:
    """GIVEN a finished run WHEN it goes on THEN its journal is a plain one again, and still locked."""
    store = RunStore(tmp_path)
    store.journal({"pass": 1})
    store.compress_journal()
    with write_lock(tmp_path):
        store.mend_journal()
        assert is_being_written(tmp_path)
    assert read_journal(tmp_path) == [{"pass": 1}]


def test_a_directory_without_a_journal_is_not_written_to(tmp_path: Path) -> None:
    """GIVEN no journal, THEN asking makes none."""
    assert is_being_written(tmp_path / "nowhere") is False
    assert list(tmp_path.iterdir()) == []


def test_readers_do_not_take_each_other_for_a_writer(tmp_path: Path) -> None:
    """GIVEN another reader that asks at the same moment, THEN nobody is writing."""
    journal = tmp_path / schema.JOURNAL_FILE
    journal.touch()
    with journal.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # what `is_being_written` holds while it asks
        assert is_being_written(tmp_path) is False


def test_the_mark_is_exclusive_and_on_a_file_open_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN that NFS locks exclusively only what is open for writing, THEN the writer does, and no reader."""
    locks = []

    def flock(file: IO[Any], how: int) -> None:
        locks.append((how & fcntl.LOCK_EX != 0, file.writable()))

    monkeypatch.setattr(fcntl, "flock", flock)
    with write_lock(tmp_path):
        is_being_written(tmp_path)
    assert locks == [(True, True), (False, False)]


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_it_cannot_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """GIVEN a file system that knows no locks, THEN a run is measured there all the same, and nobody can tell."""

    def flock(_file: IO[Any], _how: int) -> None:
        raise OSError(code, "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    with write_lock(tmp_path):
        assert is_being_written(tmp_path) is None
    assert is_being_written(tmp_path) is None


def test_of_a_journal_that_cannot_be_read_it_cannot_be_told(tmp_path: Path) -> None:
    """GIVEN a journal that cannot be opened (here: a link to itself), THEN nobody can tell, and nothing fails."""
    (tmp_path / schema.JOURNAL_FILE).symlink_to(schema.JOURNAL_FILE)
    assert is_being_written(tmp_path) is None


@pytest.mark.parametrize(
    ("kind", "options", "answer"),
    [
        ("nfs4", "rw,vers=4.2,local_lock=none", False),
        ("nfs4", "rw,local_lock=flock", None),
        ("nfs4", "rw,nolock", None),
        ("nfs4", "rw,flock", False),
        ("fuse.sshfs", "rw", None),
        ("9p", "rw", False),
        ("ext4", "rw", False),
    ],
)
def test_locks_that_end_at_each_host_tell_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: str, answer: bool | None
) -> None:
    """GIVEN a mount whose locks other hosts do not see, by its type or options, THEN a free lock is no proof."""
    device = tmp_path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mountinfo"
    other = "22 27 999:999 / /other rw - nfs server:/ rw,nolock"
    mounts.write_text(f"{other}\n36 35 {number} / /runs rw,noatime shared:1 - {kind} server:/runs {options}\n")
    monkeypatch.setattr(module, "MOUNTS", mounts)
    with write_lock(tmp_path):
        assert is_being_written(tmp_path) is True
    assert is_being_written(tmp_path) is answer


def test_where_mounts_are_not_listed_a_free_lock_is_taken_at_its_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN no list of mounts (another system than Linux), THEN nobody writes where nobody holds the lock."""
    monkeypatch.setattr(module, "MOUNTS", tmp_path / "nowhere")
    with write_lock(tmp_path):
        pass
    assert is_being_written(tmp_path) is False

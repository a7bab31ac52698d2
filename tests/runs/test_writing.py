"""Whether a run directory is being written to: as long as its process lives, and no longer."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from energyscope.runs import schema
from energyscope.runs.writing import is_written, writing

HOLD = "import sys; from pathlib import Path; from energyscope.runs.writing import writing\n"


def test_a_run_is_written_to_while_its_process_says_so(tmp_path: Path) -> None:
    """GIVEN a directory, THEN it is being written to inside of the mark, and not before or after it."""
    assert not is_written(tmp_path)
    with writing(tmp_path):
        assert is_written(tmp_path)
        assert is_written(tmp_path), "asking takes the mark from nobody"
    assert not is_written(tmp_path)


def test_the_mark_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    """GIVEN another process that writes, WHEN it is killed without notice THEN nobody is writing any more."""
    held = f"{HOLD}with writing(Path({str(tmp_path)!r})): print('now', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        assert is_written(tmp_path)
        process.kill()
        process.wait(timeout=30)
    assert not is_written(tmp_path)


def test_a_directory_without_a_journal_is_not_written_to(tmp_path: Path) -> None:
    """GIVEN no journal, THEN asking makes none."""
    assert not is_written(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_readers_do_not_take_each_other_for_a_writer(tmp_path: Path) -> None:
    """GIVEN another reader that asks at the same moment, THEN nobody is writing."""
    journal = tmp_path / schema.JOURNAL_FILE
    journal.touch()
    with journal.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # what `is_written` holds while it asks
        assert not is_written(tmp_path)


def test_the_mark_is_exclusive_and_on_a_file_open_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN that NFS locks exclusively only what is open for writing, THEN the writer does, and no reader."""
    asked = []

    def flock(file: IO[Any], how: int) -> None:
        asked.append((how & fcntl.LOCK_EX != 0, file.writable()))

    monkeypatch.setattr(fcntl, "flock", flock)
    with writing(tmp_path):
        is_written(tmp_path)
    assert asked == [(True, True), (False, False)]

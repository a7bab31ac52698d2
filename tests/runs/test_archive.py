"""Removing and packing runs: only what is named, only when nobody measures it, and nothing is lost on the way."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from run_builder import Shape, build_run

from energyscope.errors import RunError, UsageError
from energyscope.runs import archive as module
from energyscope.runs.archive import archive, find_measured, remove
from energyscope.runs.locks import write_lock
from energyscope.runs.store import load_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return build_run(tmp_path / "runs" / "one", Shape(impact=False)).path


def test_an_archive_unpacks_to_the_same_run(run: Path, tmp_path: Path) -> None:
    """GIVEN a run WHEN it is packed and unpacked THEN it reads as before, and meanwhile it is gone."""
    before = load_run(run)
    file = archive(run, tmp_path / "kept")
    assert not run.exists()
    with tarfile.open(file) as packed:
        packed.extractall(run.parent, filter="data")
    after = load_run(run)
    assert after.document == before.document
    assert after.energy is not None
    assert before.energy is not None
    assert after.energy.equals(before.energy)


def test_a_run_that_changes_while_it_is_packed_stays(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a file that grows meanwhile, THEN the run stays as it is, and no archive is left."""
    monkeypatch.setattr(module, "_packed_sizes", lambda _file: {})
    with pytest.raises(RunError, match="changed while it was packed"):
        archive(run, tmp_path / "kept")
    assert load_run(run)
    assert list((tmp_path / "kept").iterdir()) == []


def test_an_archive_takes_the_place_of_no_other(run: Path, tmp_path: Path) -> None:
    """GIVEN an archive of that name, THEN it stays, and so does the run."""
    (tmp_path / "one.tar.gz").write_text("another")
    with pytest.raises(UsageError, match="exists"):
        archive(run, tmp_path)
    assert run.is_dir()


def test_what_is_being_measured_is_not_touched(run: Path) -> None:
    """GIVEN a run that a process writes to, THEN it is not even found for removal."""
    with write_lock(run), pytest.raises(RunError, match="being measured"):
        find_measured("one", run.parent)
    assert find_measured("one", run.parent) == run


def test_links_are_not_followed(run: Path, tmp_path: Path) -> None:
    """GIVEN a link to a run, THEN it is refused; GIVEN one in a run, THEN what it leads to stays."""
    (tmp_path / "link").symlink_to(run)
    with pytest.raises(UsageError, match="is a link"):
        find_measured("link", tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    (run / "inner").symlink_to(outside)
    remove(run)
    assert (outside / "file").read_text() == "mine"
    assert not run.exists()

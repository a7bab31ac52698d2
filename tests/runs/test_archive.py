"""Removing and packing runs: only what is named, only when nobody measures it, and nothing is lost on the way."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from run_builder import Shape, build_run

from energyscope.errors import RunError, UsageError
from energyscope.runs import archive as module
from energyscope.runs import schema
from energyscope.runs.archive import held, pack, remove
from energyscope.runs.locks import write_lock
from energyscope.runs.store import RunStore, load_run
from energyscope.runs.sweeps import SWEEP_FILE


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return build_run(tmp_path / "runs" / "one", Shape(impact=False)).path


def refused(references: list[str], root: Path, words: str, kind: type[Exception] = RunError) -> None:
    with pytest.raises(kind, match=words), held(references, root):
        pytest.fail("it was found")


def test_an_archive_unpacks_to_the_same_run(run: Path, tmp_path: Path) -> None:
    """GIVEN a run, hard links in it WHEN it is packed and unpacked THEN it reads as before, and names no owner."""
    os.link(run / schema.RUN_FILE, run / "again.json")
    before = load_run(run)
    with held(["one"], run.parent) as (path,):
        file = pack(path, tmp_path / "kept")
        remove(path)
    assert not run.exists()
    with tarfile.open(file) as packed:
        assert {(member.uname, member.gname, member.uid) for member in packed} == {("", "", 0)}
        packed.extractall(run.parent, filter="data")
    after = load_run(run)
    assert after.document == before.document
    assert after.energy is not None
    assert before.energy is not None
    assert after.energy.equals(before.energy)
    assert (run / "again.json").read_text() == (run / schema.RUN_FILE).read_text()
    assert not (run / schema.JOURNAL_FILE).exists()


def test_a_run_that_changes_while_it_is_packed_stays(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a tag that changes meanwhile, by as many letters, THEN no archive is left, and nothing is removed."""
    RunStore.open(run).update(tags=["a"])
    read_back = module._packed_digests

    def changing(file: Path) -> dict[str, str]:
        RunStore.open(run).update(tags=["b"])
        return read_back(file)

    monkeypatch.setattr(module, "_packed_digests", changing)
    with pytest.raises(RunError, match="changed while it was packed"):
        pack(run, tmp_path / "kept")
    assert load_run(run).document["tags"] == ["b"]
    assert list((tmp_path / "kept").iterdir()) == []


def test_an_archive_takes_the_place_of_no_other_and_is_not_in_what_it_packs(run: Path, tmp_path: Path) -> None:
    """GIVEN an archive of that name, or a place in the run itself, THEN both are refused."""
    (tmp_path / "one.tar.gz").write_text("another")
    with pytest.raises(UsageError, match="exists"):
        pack(run, tmp_path)
    with pytest.raises(UsageError, match="is in"):
        pack(run, run / "inside")
    assert load_run(run)


def test_names_are_whole(run: Path) -> None:
    """GIVEN the beginning of a name, as other commands take it, THEN nothing is found; one named twice is one."""
    build_run(run.parent / "two-2", Shape(impact=False))
    refused(["two"], run.parent, "give a whole name")
    with held(["one", str(run), "one"], run.parent) as paths:
        assert paths == [run]


def test_what_is_being_measured_is_not_touched(run: Path) -> None:
    """GIVEN a process that writes to a run THEN it is refused; WHEN it is held THEN nobody else writes to it."""
    with write_lock(run):
        refused(["one"], run.parent, "being measured")
    with held(["one"], run.parent), pytest.raises(RunError, match="being measured"), write_lock(run):
        pytest.fail("two at once")


def test_where_locks_tell_nothing_a_running_run_is_not_touched(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a disk without locks THEN a run that says it is running is refused, and one that is done is not."""
    monkeypatch.setattr(module, "is_being_written", lambda _run: None)
    with held(["one"], run.parent) as paths:
        assert paths == [run]
    RunStore.open(run).stage("profile", "running")
    refused(["one"], run.parent, "knows no locks")


def test_a_cell_stays_in_its_sweep(run: Path) -> None:
    """GIVEN a run in a sweep THEN it is refused: the sweep would say that it is done."""
    (run.parent / SWEEP_FILE).write_text("{}")
    refused([str(run)], run.parent, "cell of a sweep", UsageError)


def test_links_are_not_followed(run: Path, tmp_path: Path) -> None:
    """GIVEN a link to a run, THEN it is refused; GIVEN one in a run, THEN what it leads to stays."""
    (tmp_path / "link").symlink_to(run)
    refused(["link"], tmp_path, "is a link", UsageError)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    (run / "inner").symlink_to(outside)
    with held(["one"], run.parent) as (path,):
        file = pack(path, tmp_path / "kept")
        remove(path)
    with tarfile.open(file) as packed:
        assert packed.getmember("one/inner").issym()
    assert (outside / "file").read_text() == "mine"
    assert not run.exists()

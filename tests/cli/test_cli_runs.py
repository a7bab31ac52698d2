"""`energyscope runs`: lists, tags, notes, removing and archiving."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from run_builder import Shape, build_run
from typer.testing import CliRunner, Result

from energyscope.cli import runs as module
from energyscope.cli.app import app
from energyscope.runs.locks import write_lock
from energyscope.runs.store import RunStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        build_run(tmp_path / "runs" / name, Shape(impact=False))
    return tmp_path / "runs"


def runs(root: Path, *words: str, given: str = "") -> Result:
    return CliRunner().invoke(app, ["runs", "--root", str(root), *words], input=given)


def listed(root: Path, *words: str) -> list[str]:
    return [run["name"] for run in json.loads(runs(root, "--json", *words).output)]


def test_in_a_pipe_the_list_is_tab_separated(root: Path) -> None:
    """GIVEN no terminal, THEN a line of names and one for each run, cells apart by tabs."""
    head, *lines = runs(root).output.splitlines()
    assert head.split("\t")[0] == "name"
    assert [line.split("\t")[0] for line in lines] == ["one", "two"]


def test_the_oldest_stands_first_whatever_was_changed_since(root: Path) -> None:
    """GIVEN a note to the older run THEN it stays the first."""
    for name, created in (("one", "2026-01-01T00:00:00Z"), ("two", "2026-01-02T00:00:00Z")):
        RunStore.open(root / name).update(created=created)
    runs(root, "note", "one", "changed last")
    assert listed(root) == ["one", "two"]


def test_tags_and_notes_are_kept_with_a_run(root: Path) -> None:
    """GIVEN tags and a note WHEN they are given THEN lists choose by them, and an empty note is none."""
    assert runs(root, "tag", "one", "nightly", "h100").exit_code == 0
    assert runs(root, "note", "one", "after the update").exit_code == 0
    assert listed(root, "--tag", "h100") == ["one"]
    (run,) = json.loads(runs(root, "--json", "--tag", "nightly").output)
    assert (run["tags"], run["note"]) == (["nightly", "h100"], "after the update")
    runs(root, "note", "one", "")
    assert json.loads(runs(root, "--json", "--tag", "nightly").output)[0]["note"] is None
    assert "no run fits" in runs(root, "--tag", "other").output


def test_nothing_is_removed_without_a_word(root: Path) -> None:
    """GIVEN nobody to ask, THEN `rm` refuses without --yes, and with it removes what is named alone."""
    refused = runs(root, "rm", "one")
    assert refused.exit_code == 2
    assert "--yes" in refused.output
    assert runs(root, "rm", "one", "tw", "--yes").exit_code == 1  # names are whole, and all are looked for first
    assert listed(root) == ["one", "two"]
    assert runs(root, "rm", "one", "--yes").exit_code == 0
    assert listed(root) == ["two"]


def test_a_finished_run_stays_as_it_was(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a finished run WHEN it is tagged, or not removed after all, THEN no journal is left behind."""
    before = sorted(root.joinpath("one").iterdir())
    monkeypatch.setattr(module, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    assert runs(root, "rm", "one", given="n\n").exit_code == 1
    assert runs(root, "tag", "one", "kept").exit_code == 0
    assert sorted(root.joinpath("one").iterdir()) == before


@pytest.mark.parametrize("words", [("tag", "one", "new"), ("note", "one", "new")])
def test_what_another_process_holds_is_not_changed(root: Path, words: tuple[str, ...]) -> None:
    """GIVEN a finished run whose lock is held THEN it is not tagged, and gets no note."""
    before = (root / "one" / "run.json").read_bytes()
    with write_lock(root / "one"):
        refused = runs(root, *words)
    assert refused.exit_code == 1
    assert "is being measured by another process" in refused.output
    assert (root / "one" / "run.json").read_bytes() == before


def test_options_of_the_list_are_none_of_other_commands(root: Path) -> None:
    """GIVEN a filter before `rm` THEN it is refused, as it would choose nothing; the root may stand there."""
    done = CliRunner().invoke(app, ["runs", "--tag", "old", "rm", "one", "--yes", "--root", str(root)])
    assert done.exit_code == 2
    assert "--tag" in done.output
    assert CliRunner().invoke(app, ["runs", "rm", "one", "--yes", "--root", str(root)]).exit_code == 0
    assert listed(root) == ["two"]


@pytest.mark.parametrize("date", ["2026-1-5", "yesterday", ""])
def test_a_date_is_one(root: Path, date: str) -> None:
    """GIVEN something else than a date THEN a line says how one is written."""
    done = runs(root, "--since", date)
    assert done.exit_code == 2
    assert "2026-11-28" in done.output


def test_a_run_that_holds_something_else_does_not_end_the_list(root: Path) -> None:
    """GIVEN a run.json with other types THEN it is named, and the others are listed."""
    file = root / "one" / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "stages": []}))
    done = runs(root)
    assert done.exit_code == 0
    assert "run.json cannot be read (stages is a list, and not an object)" in done.output
    assert "two\t" in done.output


def test_an_archive_says_how_to_come_back(root: Path) -> None:
    """GIVEN a run WHEN it is archived THEN a file holds it, the list does not, and the way back is printed."""
    done = runs(root, "archive", "two")
    assert (root / "archive" / "two.tar.gz").is_file()
    assert f"tar xzf {root / 'archive' / 'two.tar.gz'} -C {root}" in done.output
    assert listed(root) == ["one"]

"""laws.json as a file: found, read back, and refused where it is broken or newer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from laws_builder import laws_document

from energyscope.errors import RunError
from energyscope.runs.laws import LAWS_VERSION, find_laws, is_of_run, laws_of_run, load_laws, write_laws
from energyscope.runs.schema import LAWS_JSON, REPORT_FILE, SWEEP_FILE

LISTS = (
    "weights", "sources", "notes", "not_measured", "groups", "contrasts", "efficiency", "sizes", "sizes_held_out",
)  # fmt: skip
EMPTY: dict[str, Any] = {"schema": LAWS_VERSION, "name": "empty", **{name: [] for name in LISTS}}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A document comes back as it was."""
    document = laws_document()
    write_laws(tmp_path, document)
    assert load_laws(tmp_path) == json.loads(json.dumps(document))


def test_laws_of_schema_1_have_the_present_names(tmp_path: Path) -> None:
    """GIVEN a document whose laws had names in words THEN they are today's; its reasons stay as they are."""
    (group,) = laws_document()["groups"]
    old = {"best": "roofline (floor)", "trend": {"verdict": "cannot be told", "reason": "k is not positive"}}
    new = {"best": "roofline-floor", "trend": {"verdict": "unclear", "reason": "k is not positive"}}
    write_laws(tmp_path, {**EMPTY, "schema": 1, "groups": [{**group, "subjects": [group["subjects"][0] | old]}]})
    (subject,) = load_laws(tmp_path)["groups"][0]["subjects"]
    assert {name: subject[name] for name in new} == new


def test_laws_are_found_by_path_name_or_file(tmp_path: Path) -> None:
    """A directory, its name below the root, its laws.json and its page all mean the same."""
    path = tmp_path / "mine"
    path.mkdir()
    write_laws(path, EMPTY)
    for reference in (path, path / LAWS_JSON, path / REPORT_FILE):
        assert find_laws(str(reference), tmp_path / "elsewhere") == path
    assert find_laws("mine", tmp_path) == path
    assert find_laws("another", tmp_path) is None


def test_a_sweep_without_laws_says_how_to_make_them(tmp_path: Path) -> None:
    """GIVEN a sweep of an older version THEN the message names the command."""
    (tmp_path / SWEEP_FILE).write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match=r"sweep without laws\.json: `energyscope laws"):
        find_laws(tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "cannot be read"),
        ("[]", "is not a JSON object"),
        (json.dumps({**EMPTY, "schema": LAWS_VERSION + 1}), "newer energyscope"),
        (json.dumps({**EMPTY, "sizes": None}), "sizes is null, and not a list.: restore it or measure again"),
        (json.dumps({**EMPTY, "groups": [{"cells": []}]}), "groups.0. lacks "),
        (json.dumps({**EMPTY, "groups": ["mine"]}), "groups.0. is 'mine', and not an object"),
        (json.dumps({**EMPTY, "groups": 3}), "groups is 3, and not a list"),
    ],
)
def test_a_broken_document_is_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    """Whatever is wrong with it, the message says what to do."""
    (tmp_path / LAWS_JSON).write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=complaint):
        load_laws(tmp_path)


def test_there_is_none(tmp_path: Path) -> None:
    """A directory without laws is refused with what to give."""
    with pytest.raises(RunError, match="give the directory of an `energyscope sweep` or `laws`"):
        load_laws(tmp_path)


def _laws_of(folder: Path, *paths: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (source, *_) = laws_document()["sources"]
    write_laws(folder, {**EMPTY, "sources": [{**source, "path": path} for path in paths]})
    return folder.resolve()


def test_a_run_finds_the_laws_that_name_it(tmp_path: Path) -> None:
    """GIVEN laws of its sweep, of sets farther up and of others THEN those that name it, nearest first."""
    cell = tmp_path / "examples" / "cells" / "sweep" / "a"
    cell.mkdir(parents=True)
    (cell.parent / SWEEP_FILE).touch()
    own = _laws_of(cell.parent, "a", "b")
    several = [_laws_of(tmp_path / "examples" / name, "../cells/sweep/a") for name in ("x", "y")]
    _laws_of(tmp_path / "examples" / "z", "../cells/sweep/b", "../cells/sweep/a/b")
    _laws_of(tmp_path / "far", "../examples/cells/sweep/a")  # four levels up
    matches = laws_of_run(cell)
    assert [(match.folder, match.parents) for match in matches] == [(own, 1), (several[0], 3), (several[1], 3)]
    assert [source["path"] for source in matches[0].document["sources"]] == ["a", "b"]
    assert laws_of_run(cell.parent / "c") == []
    (cell.parent / SWEEP_FILE).unlink()  # a run that is no cell is looked for two levels up
    assert [match.folder for match in laws_of_run(cell)] == [own]


def test_laws_that_were_moved_with_their_runs_are_found(tmp_path: Path) -> None:
    """GIVEN a sweep's directory under another name THEN its laws still name its cells."""
    (tmp_path / "sweep" / "a").mkdir(parents=True)
    _laws_of(tmp_path / "sweep", "a")
    moved = (tmp_path / "sweep").rename(tmp_path / "elsewhere")
    assert [match.folder for match in laws_of_run(moved / "a")] == [moved.resolve()]


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({**EMPTY, "schema": LAWS_VERSION + 1}), "\0"])
def test_laws_that_cannot_be_read_are_passed_over(tmp_path: Path, text: str) -> None:
    """GIVEN a broken or a newer document beside the run THEN the others are found all the same."""
    run, broken = tmp_path / "a", tmp_path / "broken"
    run.mkdir()
    broken.mkdir()
    (broken / LAWS_JSON).write_text(text, encoding="utf-8")
    good = _laws_of(tmp_path / "good", "../a")
    assert [match.folder for match in laws_of_run(run)] == [good]


@pytest.mark.parametrize("entry", [None, "a", {}, {"path": None}, {"path": ""}, {"path": 3}, {"path": "a\0"}])
def test_an_entry_without_a_path_is_of_no_run(tmp_path: Path, entry: object) -> None:
    """Whatever stands there, not even the laws' own directory is meant."""
    assert not is_of_run(entry, tmp_path, tmp_path)
    assert not is_of_run(entry, tmp_path, tmp_path / "a")

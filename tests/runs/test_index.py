"""The index of runs: what has not changed is not read again, and an index that is damaged counts for nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from energyscope.errors import RunError
from energyscope.runs import schema
from energyscope.runs.index import INDEX_FILE, indexed_runs


class Describing:
    """Describes runs by what their run.json holds, and counts how often."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, path: Path) -> dict[str, Any]:
        self.read.append(path.name)
        text = (path / schema.RUN_FILE).read_text()
        if text == "damaged":
            raise RunError(f"{path} cannot be read")
        return {"text": text}


def made(root: Path, name: str, text: str, second: int) -> None:
    (root / name).mkdir(exist_ok=True)
    file = root / name / schema.RUN_FILE
    file.write_text(text)
    os.utime(file, (second, second))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for second, name in enumerate(("b", "a", "c"), start=1):
        made(tmp_path, name, f"{name} first", second)
    (tmp_path / "no run").mkdir()
    return tmp_path


def texts(root: Path, describe: Describing) -> list[str | None]:
    return [run.entry.get("text") for run in indexed_runs(root, describe)]


def test_a_list_that_is_stopped_keeps_what_was_read(root: Path) -> None:
    """GIVEN a first list that is stopped at its last run THEN the next one reads that run alone."""
    describe = Describing()

    def stopped(path: Path) -> dict[str, Any]:
        if path.name == "c":
            raise KeyboardInterrupt
        return describe(path)

    with pytest.raises(KeyboardInterrupt):
        indexed_runs(root, stopped)
    assert texts(root, describe) == ["b first", "a first", "c first"]
    assert describe.read == ["b", "a", "c"]


def test_only_what_has_changed_is_read_again(root: Path) -> None:
    """GIVEN a list that was made, WHEN a run changes, comes or goes, THEN it alone is read, oldest first."""
    describe = Describing()
    assert texts(root, describe) == ["b first", "a first", "c first"]
    assert texts(root, describe) == ["b first", "a first", "c first"]
    assert describe.read == ["b", "a", "c"]
    made(root, "a", "a again", 5)
    made(root, "d", "d first", 6)
    (root / "b" / schema.RUN_FILE).unlink()
    assert texts(root, describe) == ["c first", "a again", "d first"]
    assert describe.read[3:] == ["a", "d"]


@pytest.mark.parametrize("content", ["", "[]", '{"version": 1}', "\x00\xff", '{"runs": {"a": 3}}', "[" * 100_000])
def test_a_damaged_index_is_made_anew(root: Path, content: str) -> None:
    """GIVEN an index that is no index, THEN the list is as without one, and the next finds a good one."""
    (root / INDEX_FILE).write_text(content)
    describe = Describing()
    assert texts(root, describe) == texts(root, describe) == ["b first", "a first", "c first"]
    assert len(describe.read) == 3


def test_an_index_of_another_version_counts_for_nothing(root: Path) -> None:
    """GIVEN an index that another version of energyscope wrote, THEN its entries may mean something else."""
    texts(root, Describing())
    index = json.loads((root / INDEX_FILE).read_text())
    (root / INDEX_FILE).write_text(json.dumps({**index, "version": [0, "0.0"]}))
    describe = Describing()
    texts(root, describe)
    assert len(describe.read) == 3


def test_a_run_that_cannot_be_read_is_listed_with_why_and_tried_again(root: Path) -> None:
    """GIVEN a damaged run, THEN the others are listed, it says why not, and it counts once it is mended."""
    made(root, "a", "damaged", 2)
    describe = Describing()
    flaws = [run.flaw for run in indexed_runs(root, describe)]
    assert flaws == [None, f"{root / 'a'} cannot be read", None]
    indexed_runs(root, describe)
    assert describe.read.count("a") == 2


def test_a_root_that_cannot_be_written_is_listed_all_the_same(root: Path) -> None:
    """GIVEN a place where the index cannot be, THEN the list needs none."""
    (root / INDEX_FILE).mkdir()
    describe = Describing()
    assert texts(root, describe) == texts(root, describe) == ["b first", "a first", "c first"]
    assert len(describe.read) == 6


def test_entries_that_lack_something_count_for_nothing(root: Path) -> None:
    """GIVEN an index whose entries are not whole THEN those runs are read again."""
    texts(root, Describing())
    describe = Describing()
    indexed_runs(root, describe, lambda entry: entry["text"] != "a first")
    assert describe.read == ["a"]


def test_a_changed_table_is_noticed(root: Path) -> None:
    """GIVEN an energy table that is restored or edited, and run.json as it was THEN the run is read again."""
    texts(root, Describing())
    (root / "c" / schema.ENERGY_FILE).write_text("component")
    describe = Describing()
    texts(root, describe)
    assert describe.read == ["c"]

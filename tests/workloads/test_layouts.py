"""Layouts: which files are a split, and the one line that says why none is."""

from __future__ import annotations

from pathlib import Path

import pytest

from energyscope.errors import UsageError
from energyscope.settings.run import RunSettings
from energyscope.workloads import layouts
from energyscope.workloads.layouts import Split, data_files, find_split

ORDER = ("validation", "test")
NONE: tuple[str, ...] = ()


def tree(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content")
    return folder


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["dev.jsonl", "train.jsonl", "test.jsonl"], ("", "validation", ["dev.jsonl"])),
        (["my_val.csv", "my_train.csv"], ("", "validation", ["my_val.csv"])),
        (["train.csv", "test.csv"], ("", "test", ["test.csv"])),
        (["Valid.txt"], ("", "validation", ["Valid.txt"])),
        (["texts.jsonl", "README.txt"], ("", None, ["texts.jsonl"])),
        (["one/dev.json", "sst2/dev.json"], ("sst2", "validation", ["sst2/dev.json"])),
        (["sst2/dev.json", "dev.json"], ("sst2", "validation", ["sst2/dev.json"])),
        (["extra/dev.json", "dev.json"], ("", "validation", ["dev.json"])),
        (["contest.csv", "dev.csv"], ("", "validation", ["dev.csv"])),
        (["validation/0000.parquet", "validation/0001.parquet"], ("", "validation", None)),
        (["partial-test/0000.parquet"], ("", "test", ["partial-test/0000.parquet"])),
        ([".git/dev.json", "__MACOSX/dev.json", "._dev.json", "test.json"], ("", "test", ["test.json"])),
    ],
)
def test_a_split_is_found(
    tmp_path: Path, names: list[str], expected: tuple[str, str | None, list[str] | None]
) -> None:
    """Splits are told by words of names and folders, held-out ones in order; hidden files are none."""
    folder = tree(tmp_path, *names)
    configuration, name, files = expected
    split = find_split(folder, ORDER, ("sst2",))
    paths = tuple(folder / file for file in (names if files is None else files))
    assert split == Split(configuration, name, paths)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ([], r"holds no data set \(looked for validation or test files as .parquet, .* JSONL, CSV or text file"),
        (["README.md", "config.json", "vocab.txt", "model.safetensors"], "holds no data set"),
        (["train.csv"], r"holds no held-out split \(validation or test; it holds: train\)"),
        (["dev.csv", "dev.jsonl"], r"several files of one split \(dev.csv, dev.jsonl\)"),
        (["dev_matched.csv", "dev_mismatched.csv"], "several files of one split"),
        (["a.jsonl", "b.jsonl"], r"several files of one split \(a.jsonl, b.jsonl\)"),
        (["a/dev.csv", "b/dev.csv"], r"holds several data sets \(a, b\): give --data the folder of one"),
    ],
)
def test_what_cannot_be_told_is_bad_usage(tmp_path: Path, names: list[str], complaint: str) -> None:
    """WHEN a folder holds no data set, no held-out split, or several THEN one line names what is there."""
    folder = tree(tmp_path, *names)
    with pytest.raises(UsageError, match=complaint) as error:
        find_split(folder, ORDER, NONE)
    assert "\n" not in str(error.value)


def test_a_folder_is_checked_without_choosing(tmp_path: Path) -> None:
    """Before a model is loaded, its task is not known: any data will do."""
    data_files(tree(tmp_path / "some", "train.csv"))
    with pytest.raises(UsageError, match="holds no data set"):
        data_files(tree(tmp_path / "none", "train.py"))


def test_a_run_takes_folders_that_hold_data(tmp_path: Path) -> None:
    """GIVEN --data of a run THEN folders with data and prepared sets pass before loading, an empty one not."""
    for folder in (tree(tmp_path / "set", "dev.csv"), tree(tmp_path / "prepared", "prepared.json")):
        RunSettings("gpt2", root=tmp_path, data=str(folder)).check_places()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="empty holds no data set"):
        RunSettings("gpt2", root=tmp_path, data=str(tmp_path / "empty")).check_places()


def test_a_home_folder_is_no_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a folder of very many files THEN the search ends, and asks for the right folder."""
    monkeypatch.setattr(layouts, "MOST_ENTRIES", 5)
    folder = tree(tmp_path, *(f"{number}.py" for number in range(6)))
    with pytest.raises(UsageError, match="holds too much to be one data set"):
        data_files(folder)


def test_the_search_is_not_endless_in_depth(tmp_path: Path) -> None:
    """GIVEN data deeper than any layout has it THEN it is not found."""
    deep = "/".join("abcdefgh")
    with pytest.raises(UsageError, match="holds no data set"):
        data_files(tree(tmp_path, f"{deep}/dev.csv"))

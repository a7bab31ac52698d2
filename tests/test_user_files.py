"""What was found once is kept for later runs, of several processes at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from energyscope import user_files

ADDS = """
import sys
from energyscope import user_files
for number in range(20):
    user_files.add("found.json", {f"{sys.argv[1]}-{number}": number})
"""


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "energyscope"


def test_what_several_processes_find_is_kept(folder):
    """GIVEN three processes that add at once, as on a host of several boards THEN nothing of any is lost."""
    added = [subprocess.Popen([sys.executable, "-c", ADDS, name]) for name in "abc"]
    assert [process.wait(60) for process in added] == [0, 0, 0]
    assert user_files.read("found.json") == {f"{name}-{number}": number for name in "abc" for number in range(20)}
    assert {path.name for path in folder.iterdir()} == {"found.json", "found.lock"}


def test_a_folder_that_cannot_be_written_costs_nothing(folder):
    """GIVEN a file where the folder should be THEN adding does nothing, and nothing is known."""
    folder.write_text("in the way")
    user_files.add("found.json", {"a": 1})
    assert user_files.read("found.json") == {}


def test_a_torn_file_is_forgotten(folder):
    """GIVEN a file that is no JSON THEN what is added is all that is known."""
    folder.mkdir()
    (folder / "found.json").write_text('{"a": 1')
    user_files.add("found.json", {"b": 2})
    assert json.loads((folder / "found.json").read_text()) == {"b": 2}

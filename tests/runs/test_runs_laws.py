"""laws.json as a file: found, read back, and refused where it is broken or newer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from energyscope.errors import RunError
from energyscope.runs.laws import LAWS_VERSION, LISTS, find_laws, load_laws, write_laws
from energyscope.runs.schema import LAWS_JSON, REPORT_FILE, SWEEP_FILE

EMPTY: dict[str, Any] = {"schema": LAWS_VERSION, "name": "empty", **{name: [] for name in LISTS}}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A document comes back as it was."""
    document = {**EMPTY, "notes": ["one"], "groups": [{"cells": [], "subjects": [], "ratios": [], "k": 1.5}]}
    write_laws(tmp_path, document)
    assert load_laws(tmp_path) == document


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
        ("[]", "states no schema version"),
        (json.dumps({**EMPTY, "schema": LAWS_VERSION + 1}), "newer energyscope"),
        (json.dumps({**EMPTY, "sizes": None}), "lacks sizes: make it again"),
        (json.dumps({**EMPTY, "groups": [{"cells": []}]}), "lacks subjects of a group, ratios of a group"),
        (json.dumps({**EMPTY, "groups": ["mine"]}), "lacks cells of a group"),
        (json.dumps({**EMPTY, "groups": 3}), "lacks groups"),
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

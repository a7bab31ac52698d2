"""The files of a run: those of a stranger's directory are read with care, and what is written computes nothing."""

from __future__ import annotations

import gzip
import html
import json
from pathlib import Path

import pandas as pd
import pytest
from run_builder import Shape, build_run

from energyscope.errors import RunError
from energyscope.runs import files, schema, sweeps
from energyscope.runs.files import csv_text, inert, read_json, read_table, with_home, without_home, write_text
from energyscope.runs.laws import load_laws
from energyscope.runs.store import RunStore, load_run, read_journal
from energyscope.runs.sweeps import load_sweep
from energyscope.stages.resume_run import resumable

FORMULAS = [
    "=1+1",
    "@SUM(A1)",
    "+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "\t=1",
    "\r=1",
    '=HYPERLINK("a","b")',
]
TEXTS = ["layer.0", "-", "+1.5 % ± 0.7", "-3.2", "a=b", "'quoted'", "\rlayer", ""]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_like_a_formula_is_written_with_an_apostrophe_and_read_without(tmp_path: Path, text: str) -> None:
    """GIVEN a name that a spreadsheet would compute, THEN it computes nothing there, and it is the same here."""
    file = tmp_path / "table.csv"
    write_text(file, csv_text(pd.DataFrame({"name": [text, "plain"], "value": [-1.5, 2.0]})))
    cells = pd.read_csv(file)["name"]
    assert cells[0] == f"'{text}"
    table = read_table(file, ["name"])
    assert table is not None
    assert list(table["name"]) == [text, "plain"]
    assert list(table["value"]) == [-1.5, 2.0]


@pytest.mark.parametrize("text", TEXTS)
def test_other_texts_are_written_as_they_are(text: str) -> None:
    """GIVEN a text that computes nothing, THEN it gets no apostrophe."""
    assert inert(text) == text


@pytest.mark.parametrize("name", [schema.RUN_FILE, schema.ENERGY_FILE, schema.TRACE_FILE, schema.PLAN_JSON])
def test_a_link_out_of_a_run_is_not_followed(tmp_path: Path, name: str) -> None:
    """GIVEN a run in which a file is a link to somewhere else, THEN what is there is not read as the run's."""
    run = build_run(tmp_path / "run", Shape(impact=False)).path
    secret = tmp_path / "secret"
    secret.write_text((run / name).read_text() if (run / name).exists() else "{}")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(secret)
    with pytest.raises(RunError, match=f"{name} is a link out of its directory"):
        load_run(run)


@pytest.mark.parametrize("target", ["run.json", "missing.json"], ids=["itself", "nothing"])
def test_a_link_to_nothing_is_no_missing_file(tmp_path: Path, target: str) -> None:
    """GIVEN a link to itself, or to no file THEN it is an error: something was there to be read."""
    (tmp_path / "run.json").symlink_to(target)
    with pytest.raises(RunError, match="cannot be read"):
        read_json(tmp_path / "run.json")


def test_a_link_within_a_directory_is_followed(tmp_path: Path) -> None:
    """GIVEN a link to a file beside it, THEN it is that file."""
    (tmp_path / "a.json").write_text('{"a": 1}')
    (tmp_path / "b.json").symlink_to("a.json")
    assert read_json(tmp_path / "b.json") == {"a": 1}


def test_a_file_too_large_for_a_run_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN files beyond any that a run has, as they are or unpacked, THEN a line says so before they are read."""
    run = build_run(tmp_path / "run", Shape(impact=False)).path
    (run / schema.FINISHED_JOURNAL_FILE).write_bytes(gzip.compress(b" " * 10_000))
    monkeypatch.setattr(files, "MOST_UNPACKED", 5_000)
    with pytest.raises(RunError, match="which no file of a run does"):
        read_journal(run)
    monkeypatch.setattr(files, "MOST_BYTES", 100)
    with pytest.raises(RunError, match="which no file of a run has"):
        load_run(run)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000], ids=["lists", "objects"])
def test_json_that_is_nested_too_deeply_is_one_clear_error(tmp_path: Path, content: str) -> None:
    """GIVEN brackets without end, THEN it is said that the file cannot be read."""
    for name, read in (("run.json", load_run), (schema.SWEEP_FILE, load_sweep), (schema.LAWS_JSON, load_laws)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(content)
        with pytest.raises(RunError, match="cannot be read"):
            read(folder)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("/home/ann", "~"),
        ('{"model": "/home/ann/models/a b", "n": 1}', '{"model": "~/models/a b", "n": 1}'),
        ("energyscope run '/home/ann/m' --data=/home/ann/d", "energyscope run '~/m' --data=~/d"),
        (json.dumps("failed:\n/home/ann/m\t/home/ann"), json.dumps("failed:\n~/m\t~")),
        ("file:///home/ann/m -d/home/ann/d", "file://~/m -d~/d"),
        ("It is in /home/ann.", "It is in ~."),
        ("../../home/ann/runs/one", "~/runs/one"),
        ("/home/anna/m /mnt/home/ann/m /home/ann.old", "/home/anna/m /mnt/home/ann/m /home/ann.old"),
    ],
)
def test_the_home_folder_is_not_named(monkeypatch: pytest.MonkeyPatch, text: str, written: str) -> None:
    """GIVEN paths in a home folder THEN they are written from there, and others that begin alike stay."""
    monkeypatch.setenv("HOME", "/home/ann")
    assert without_home(text) == written
    assert with_home("~/m") == "/home/ann/m"
    assert with_home(("~/m",)) == ("~/m",)


def test_a_user_without_a_home_folder_keeps_all_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN / as home folder, as in some containers, THEN paths are written whole."""
    monkeypatch.setenv("HOME", "/")
    assert without_home("/models/a") == "/models/a"


def test_a_home_folder_in_other_letters_is_not_named_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a name that JSON escapes, THEN it is found there too."""
    monkeypatch.setenv("HOME", "/home/zoë")
    assert without_home(json.dumps({"path": "/home/zoë/m"})) == '{"path": "~/m"}'


def test_a_home_folder_behind_a_link_or_escaped_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a home folder that is a link, or whose name HTML escapes, THEN neither form of it is written."""
    real = tmp_path / "o'neil"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    assert without_home(f"{real}/m and {tmp_path}/link/m") == "~/m and ~/m"
    assert without_home(f"<p>{html.escape(str(real))}/m</p>") == "<p>~/m</p>"


def test_nothing_is_written_through_a_link_in_a_run(tmp_path: Path) -> None:
    """GIVEN a stranger's run whose journal is a link WHEN it is resumed THEN not a byte is written there."""
    run = build_run(tmp_path / "run", Shape(impact=False)).path
    target = tmp_path / "mine"
    target.write_text("mine")
    (run / schema.JOURNAL_FILE).unlink(missing_ok=True)
    (run / schema.JOURNAL_FILE).symlink_to(target)
    with pytest.raises(RunError, match=r"journal\.jsonl is a link"):
        resumable(run)
    (run / schema.JOURNAL_FILE).unlink()
    (run / schema.FINISHED_JOURNAL_FILE).write_bytes(gzip.compress(b"{}\n"))
    (run / schema.JOURNAL_FILE).symlink_to(target)
    store = RunStore(run)
    store.mend_journal()
    assert target.read_text() == "mine"


@pytest.mark.parametrize("change", [{"precision": "../x"}, {"tokens": "1/../../x"}])
def test_a_cell_leads_nowhere_else(tmp_path: Path, change: dict[str, str]) -> None:
    """GIVEN a stranger's sweep with a cell whose name is a path THEN it is refused."""
    cell = {"precision": "fp32", "batch_size": 1, "tokens": 8, "phase": "prefill", "state": "done", **change}
    sweep = {"schema": 1, "name": "a", "model": "a", "created": "a", "cells": [cell]}
    (tmp_path / schema.SWEEP_FILE).write_text(json.dumps({**sweep, "schema": sweeps.SCHEMA_VERSION}))
    with pytest.raises(RunError, match=r"is no name of a run|and not a whole number"):
        load_sweep(tmp_path)

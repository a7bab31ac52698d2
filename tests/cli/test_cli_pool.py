"""`energyscope pool` on the command line: the line, the table, tabs in a pipe, CSV and JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import Result
from run_builder import Eager, Shape, build_run
from typer.testing import CliRunner

from energyscope.cli.app import app
from energyscope.comparison.pooling import pool
from energyscope.reporting.comparison.pooled import sentences
from energyscope.runs.store import load_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, scale, board in (("a", 0.97, "GPU-1"), ("b", 1.0, "GPU-1"), ("c", 1.03, "GPU-2")):
        build_run(folder / name, Eager(scale=scale), device={"uuid": board})
    build_run(folder / "fp16", Eager(), settings={"precision": "fp16"})
    return folder


def invoke(root: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["pool", *words, "--root", str(root)], env={"COLUMNS": "160"})


def test_a_pipe_gets_tabs_and_a_file_the_same(root: Path, tmp_path: Path) -> None:
    """GIVEN a pipe THEN raw values are tab-separated, the whole pass first, and --csv has the same cells."""
    target = tmp_path / "new" / "pooled.csv"
    done = invoke(root, "a", "b", "c", "--csv", str(target))
    assert done.exit_code == 0, done.output
    printed = list(csv.DictReader(done.stdout.splitlines(), delimiter="\t"))
    assert printed[0]["component"] == "whole pass"
    assert (printed[0]["runs"], printed[0]["lowest_run"], printed[0]["highest_run"]) == ("3", "a", "c")
    low, value, high = (float(printed[0][f"energy_mj{end}"]) for end in ("_low", "", "_high"))
    assert low < value < high
    assert list(csv.DictReader(target.open())) == printed


def test_modelled_joules_are_marked(root: Path, tmp_path: Path) -> None:
    """GIVEN modelled runs THEN lines of a pipe and of the file say MODELLED; measured ones have no column."""
    for name, scale in (("a", 0.97), ("b", 1.0)):
        build_run(tmp_path / name, Shape(modelled=True, scale=scale))
    target = tmp_path / "pooled.csv"
    printed = list(
        csv.DictReader(invoke(tmp_path, "a", "b", "--csv", str(target)).stdout.splitlines(), delimiter="\t")
    )
    assert {row["meter"] for row in printed} == {"MODELLED"}
    assert list(csv.DictReader(target.open())) == printed
    assert "meter" not in invoke(root, "a", "b").stdout.splitlines()[0].split("\t")


def test_the_line_says_runs_boards_and_how_they_differ(root: Path) -> None:
    """GIVEN three runs on two boards THEN the lines say so, the deviation between runs, and what differs."""
    lines = list(sentences(pool([load_run(name, root) for name in ("a", "b", "c")])))
    assert lines[0].startswith("The whole pass takes ")
    assert "of work over 3 runs on 2 boards; runs differ by 2.9 %" in lines[0]
    assert any("GPU board" in line for line in lines[1:])
    two = list(sentences(pool([load_run(name, root) for name in ("a", "b")])))
    assert any("Two runs say little" in line for line in two)
    assert any("one board" in line for line in two)


def test_json_has_every_value(root: Path) -> None:
    """--json prints one document: runs, the whole pass, its parts, and what each run had."""
    document = json.loads(invoke(root, "a", "b", "c", "--json").stdout)
    assert document["runs"] == ["a", "b", "c"]
    whole = document["passes"][0]["whole"]
    assert whole["value"]["low"] < whole["value"]["value"] < whole["value"]["high"]
    assert whole["between_share"] == pytest.approx(0.03, rel=0.15)
    assert set(whole["measured"]) == {"a", "b", "c"}
    assert document["summary"][0].startswith("The whole pass takes")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("a", "fp16"), "precision"),
        (("a",), "at least two"),
        (("a", "a"), "twice"),
        (("a", "b", "--csv", "/proc/none/table.csv"), "cannot be written"),
    ],
)
def test_what_cannot_be_pooled_is_one_line(root: Path, words: tuple[str, ...], says: str) -> None:
    """GIVEN runs that cannot be pooled THEN one line says why, with the exit code of a bad request."""
    done = invoke(root, *words)
    assert done.exit_code == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1

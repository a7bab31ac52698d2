"""`energyscope compare` on the command line: tables, JSON, the page, the baseline and the gate."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from run_builder import Eager, build_run
from typer.testing import CliRunner

from energyscope.cli.app import app


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    build_run(folder / "base", Eager())
    build_run(folder / "less", Eager(scale=0.9))
    build_run(folder / "more", Eager(scale=1.08))
    build_run(folder / "other-board", Eager(), device={"uuid": "GPU-2"})
    return folder


def invoke(root: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["compare", *words, "--root", str(root)], env={"COLUMNS": "120"})


def test_it_prints_and_writes_a_page(root: Path) -> None:
    """GIVEN two runs, THEN the answer stands above the path of a page beside the runs."""
    done = invoke(root, "base", "less")
    assert done.exit_code == 0, done.output
    page = root / "comparisons" / "base-vs-less.html"
    assert "less against base" in done.output
    assert done.output.splitlines()[-1].startswith("report: ")
    assert page.is_file()
    assert "base-vs-less.html" in done.output.replace("\n", "")
    assert "comparisons" not in CliRunner().invoke(app, ["runs", "--root", str(root), "--json"]).output


def test_the_page_goes_where_it_is_asked_for(root: Path, tmp_path: Path) -> None:
    """--report names the file, --no-report writes none, and both exclude each other."""
    target = tmp_path / "made" / "here.html"
    assert invoke(root, "base", "more", "--report", str(target)).exit_code == 0
    assert target.is_file()
    assert invoke(root, "base", "more", "--no-report").exit_code == 0
    assert not (root / "comparisons" / "base-vs-more.html").exists()
    assert invoke(root, "base", "more", "--no-report", "--report", str(target)).exit_code == 2


def test_a_page_that_cannot_be_written_hides_nothing(root: Path, tmp_path: Path) -> None:
    """GIVEN a folder where a page would go THEN the comparison is printed, and the last line says what failed."""
    done = invoke(root, "base", "less", "--report", str(tmp_path))
    assert done.exit_code == 1
    assert "less against base" in done.stdout
    assert "cannot write" in done.stderr.splitlines()[-1]


def test_json_is_all_that_json_prints(root: Path) -> None:
    """--json prints one document and writes no page."""
    done = invoke(root, "base", "more", "--json")
    document = json.loads(done.stdout)
    assert document["pairs"][0]["whole"][0]["verdict"] == "more"
    assert [answer["other"] for answer in document["answers"]] == ["more"]
    assert document["pairs"][0]["basis"] == "dynamic"
    assert document["pairs"][0]["remarks"] == ["eager-total"]
    assert "eager totals are not comparable" in document["answers"][0]["trust"]
    assert {item["name"] for item in document["pairs"][0]["normalised"]} >= {"work per token", "work per FLOP"}
    assert not (root / "comparisons" / "base-vs-more.html").exists()


def test_a_path_steers_no_terminal_beside_json(root: Path, tmp_path: Path) -> None:
    """GIVEN --json into a pipe, THEN the line that goes to the terminal has no control characters."""
    screen, terminal = pty.openpty()
    page = tmp_path / "a\x1b]0;owned\x07b.html"
    words = ["compare", "base", "less", "--json", "--report", str(page), "--root", str(root)]
    done = subprocess.run(
        [sys.executable, "-m", "energyscope", *words], stdout=subprocess.PIPE, stderr=terminal, check=False
    )
    os.close(terminal)
    printed = os.read(screen, 65536).decode()
    os.close(screen)
    assert done.returncode == 0, printed
    assert page.is_file()
    assert "b.html" in printed
    assert not {"\x1b", "\x07"} & set(printed)
    assert json.loads(done.stdout)["pairs"]


@pytest.mark.parametrize("words", [("less", "base"), ("less",), ("base", "less")])
def test_the_baseline_can_be_named(root: Path, words: tuple[str, ...]) -> None:
    """GIVEN --baseline, THEN it is the baseline whether or not it is among the runs, and is compared once."""
    document = json.loads(invoke(root, *words, "--baseline", "base", "--json").stdout)
    assert document["baseline"] == "base"
    assert [pair["other"] for pair in document["pairs"]] == ["less"]


@pytest.mark.parametrize(
    ("other", "limit", "code"),
    [("more", "5%", 3), ("more", "10%", 0), ("less", "0%", 0), ("other-board", "5%", 1)],
)
def test_the_exit_code_is_the_gates(root: Path, other: str, limit: str, code: int) -> None:
    """More than allowed is 3, what cannot be judged 1, all else 0."""
    done = invoke(root, "base", other, "--no-report", "--fail-if-more-than", limit)
    assert done.exit_code == code, done.output


@pytest.mark.parametrize(
    "words", [("base",), ("base", "less", "base"), ("base", "less", "--fail-if-more-than", "much")]
)
def test_bad_usage_is_2(root: Path, words: tuple[str, ...]) -> None:
    assert invoke(root, *words).exit_code == 2


def test_a_run_is_called_as_its_directory(tmp_path: Path) -> None:
    """GIVEN a directory that was renamed THEN the comparison calls the run as the user does."""
    build_run(tmp_path / "base", Eager())
    build_run(tmp_path / "old", Eager(scale=0.9)).path.rename(tmp_path / "typed")
    done = invoke(tmp_path, "base", "typed")
    assert "typed against base" in done.output
    assert "old" not in done.output

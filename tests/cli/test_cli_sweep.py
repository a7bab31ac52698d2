"""`energyscope sweep` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from energyscope.cli.app import app

SHORT = ["--granularity", "coarse", "--passes", "2", "--component-budget", "0.05", "--device", "cpu"]


def invoke(*words: Any) -> Result:
    return CliRunner().invoke(app, ["sweep", *(str(word) for word in words)])


def test_it_prints_a_table_and_where_the_sweep_is(tmp_path: Path) -> None:
    """A line for each cell, MODELLED where no sensor was read, and the directory."""
    result = invoke("tiny-gpt2", "--sequence-length", "8,16", *SHORT, "--root", tmp_path, "--name", "one")
    assert result.exit_code == 0, result.output
    for word in ("MODELLED", "tiny-gpt2, forward passes", "per token", "Sweep:"):
        assert word in result.output
    assert (tmp_path / "one" / "fp32-b1-s8" / "run.json").is_file()
    runs = CliRunner().invoke(app, ["runs", "--root", str(tmp_path)])
    assert runs.exit_code == 0, "a sweep is no run, and lists as none"


def test_json_is_the_cells_and_nothing_else(tmp_path: Path) -> None:
    """--json prints the cells on standard output; one cell alone is said to give no law."""
    result = invoke("tiny-gpt2", "--sequence-length", "8", *SHORT, "--json", "--root", tmp_path, "--name", "one")
    assert result.exit_code == 0, result.output
    (cell,) = json.loads(result.stdout)
    assert (cell["cell"], cell["state"], cell["modelled"]) == ("fp32-b1-s8", "done", True)
    shown = invoke("tiny-gpt2", "--sequence-length", "8", *SHORT, "--root", tmp_path, "--name", "two")
    assert "One cell gives no law" in shown.output


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--sequence-length", "8,many"], "is no list of whole numbers"),
        (["--sequence-length", "8,999999"], "is too long"),
        (["--phase", "sideways"], "--phase"),
        (["--name", "a/b"], "is not a run name"),
    ],
)
def test_a_bad_option_is_one_line_and_makes_nothing(tmp_path: Path, words: list[str], complaint: str) -> None:
    """Exit code 2, with what to do."""
    result = invoke("tiny-gpt2", *SHORT, "--root", tmp_path / "runs", *words)
    assert result.exit_code == 2, result.output
    assert complaint in result.output
    assert not (tmp_path / "runs").exists()

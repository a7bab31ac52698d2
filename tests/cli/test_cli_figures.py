"""`energyscope figures`: files, reasons, and one line for every bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run
from typer.testing import CliRunner

from energyscope.cli import figures
from energyscope.reporting.print import files


@pytest.fixture
def run(tmp_path) -> Path:
    return build_run(tmp_path / "runs" / "first", Shape(layers=2, impact=False, benchmark=True)).path


@pytest.fixture
def undrawn(monkeypatch):
    """Empty figures, where what is on them does not matter: to draw them takes seconds."""
    nothing = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    monkeypatch.setattr(files, "draw", lambda *_: nothing)


def call(*arguments):
    app = typer.Typer()
    app.command()(figures.command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_paths_on_one_stream_and_reasons_on_the_other(run):
    """Each file's path is a line of output; each figure left out is one line of the other stream."""
    done = call(run, "--format", "svg,PNG", "--dpi", "72")
    assert done.exit_code == 0, done.output
    paths = [Path(line) for line in done.stdout.splitlines()]
    assert [path.name for path in paths[:2]] == ["benchmark_overview.svg", "benchmark_overview.png"]
    assert all(path.is_file() and path.parent == run / "figures" for path in paths)
    left_out = [line.partition(":")[0] for line in done.stderr.splitlines() if "left out: " in line]
    assert left_out == [
        "benchmark_sweep", "prediction_impact_by_type", "energy_vs_impact_scatter",
        "energy_impact_correlation_matrix", "generation_power_trace", "energy_per_token", "attention_by_context",
    ]  # fmt: skip


def test_every_figure_is_drawn_or_named_once(tmp_path):
    """GIVEN a modelled generation, THEN its figures are written and each that is not drawn has a reason."""
    shape = Inference(layers=2, modelled=True, contexts=(128,))
    done = call(build_inference(tmp_path / "run", shape).path, "--dpi", "72", "--json")
    assert done.exit_code == 0, done.output
    entries = [(entry["figure"], entry["path"], entry["reason"]) for entry in json.loads(done.stdout)]
    assert len({figure for figure, _, _ in entries}) == len(entries) == 11
    reasons = {figure: reason for figure, path, reason in entries if path is None}
    assert "--context-length" in reasons["attention_by_context"]
    assert {"generation_power_trace", "benchmark_sweep"} <= set(reasons)
    assert all(reasons.values())
    assert not {"energy_per_token", "choices"} & set(reasons)


def test_json_says_the_same(run, tmp_path, undrawn):
    """With --json, a list of figures with their paths and reasons, of two runs with their comparison."""
    other = build_run(tmp_path / "runs" / "second", Shape(layers=3, impact=False))
    done = call(
        "first", other.path.name, "--root", run.parent, "--dpi", "72", "--output", tmp_path / "o", "--json"
    )
    assert done.exit_code == 0, done.output
    entries = {entry["figure"]: entry for entry in json.loads(done.stdout)}
    assert entries["comparative_analysis"]["path"] == str(tmp_path / "o" / "comparative_analysis.png")
    assert "without" in entries["comparative_analysis"]["reason"]
    scatter = entries["energy_vs_impact_scatter"]
    assert (scatter["path"], scatter["format"]) == (None, None)
    assert scatter["reason"]


def test_nothing_to_draw(tmp_path):
    """GIVEN a run whose stages left nothing, THEN the exit code is 1 and every figure has its reason."""
    path = build_run(tmp_path / "bare", Shape(profile=False, impact=False)).path
    done = call(path)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert sum("left out" in line for line in done.stderr.splitlines()) == 11


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["--format", "gif"], 2, "png, svg, pdf"),
        (["--format", ","], 2, "png, svg, pdf"),
        (["--dpi", "9"], 2, "72 to 1200"),
        (["--theme", "pink"], 2, "paper, light, dark"),
    ],
)
def test_bad_options(run, arguments, code, word):
    """A bad option is one line that names the choices, and nothing is written."""
    done = call(run, *arguments)
    assert done.exit_code == code
    assert done.stderr.count("\n") == 1
    assert word in done.stderr
    assert not (run / "figures").exists()


def test_a_place_that_cannot_be_written(run, tmp_path):
    """GIVEN a file where the directory should be, THEN one line says to choose another."""
    (tmp_path / "taken").write_text("x")
    done = call(run, "--output", tmp_path / "taken")
    assert done.exit_code == 2
    assert "--output" in done.stderr
    assert done.stderr.count("\n") == 1


def test_another_runs_figures_are_replaced_with_force_only(tmp_path, undrawn):
    """GIVEN a directory with a figure, THEN one line names it and --force; RUN/figures is the run's own."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False, benchmark=True)).path
    again = [run, "--dpi", "72", "--output", tmp_path / "o"]
    assert call(*again).exit_code == 0
    done = call(*again)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "benchmark_overview.png" in done.stderr
    assert "--force" in done.stderr
    assert call(*again, "--force").exit_code == 0
    assert [call(run, "--dpi", "72").exit_code for _ in range(2)] == [0, 0]


def test_a_run_is_not_compared_with_itself(run):
    """GIVEN one run twice, by path and by name, THEN one line refuses it and nothing is written."""
    done = call(run, run.name, "--root", run.parent)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "twice" in done.stderr
    assert not (run / "figures").exists()


def test_a_reason_steers_no_terminal(capsys):
    """GIVEN a reason with control characters of a run's own words, THEN it is one line without them."""
    made = files.WrittenFigure("choices", reason="skipped: \x1b]0;owned\x07\nand more")
    figures._say(made, first=True)
    assert capsys.readouterr().err == "choices: left out: skipped: ]0;owned and more\n"


def test_an_unknown_run(tmp_path):
    """An unknown run is refused as everywhere else."""
    done = call("nothing-like-it", "--root", tmp_path)
    assert done.exit_code == 1
    assert "energyscope runs" in done.stderr


def test_the_module_is_light():
    """Importing the command imports no drawing or measuring library."""
    heavy = "{'torch', 'transformers', 'altair', 'pandas', 'numpy', 'vl_convert'} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import energyscope.cli.figures, sys; print({heavy} or '')"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ""

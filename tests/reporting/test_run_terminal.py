"""A run in the terminal: the same answer as on its page, in at most 25 lines, and every table."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from page_gallery import HOSTILE, hostile_run
from rich.console import Console
from run_builder import Shape, build_run

from energyscope.errors import UsageError
from energyscope.reporting.run import terminal
from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.report import Report
from energyscope.reporting.terminal_text import Sanitized
from energyscope.runs.store import load_run

REPORTS = sorted(path.parent for path in Path(__file__).parents[2].glob("reports/*/run.json"))
RUNS = {
    "everything": lambda path: build_run(
        path, Shape(benchmark=Bench(precisions=("fp32", "fp16", "bf16", "int8", "nf4")))
    ),
    "modelled": lambda path: build_run(path, Shape(modelled=True)),
    "generation": lambda path: build_inference(path, Inference(layers=3, contexts=(1024, 128))),
    "both": lambda path: build_inference(
        path, Inference(layers=2, contexts=(1024,), executions=("eager", "cuda-graph"))
    ),
    "benchmark": lambda path: build_run(path, Shape(profile=False, impact=False, benchmark=Bench())),
    "nothing": lambda path: build_run(path, Shape(profile=False, impact=False)),
}  # fmt: skip


def printed(drawable, width=80):
    """Return the lines that a terminal of some width shows."""
    console = Console(width=width, file=io.StringIO())
    console.print(drawable)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", RUNS)
def test_a_run_ends_with_its_answer_in_25_lines(tmp_path, name, width):
    """GIVEN any run, THEN at most 25 lines, none wider than the terminal, with the page's sentence and trust."""
    run = RUNS[name](tmp_path / "run")
    lines = printed(terminal.answer_of(run, width), width)
    text = " ".join(" ".join(lines).split())
    assert len(lines) <= 25
    assert all(len(line) <= width for line in lines)
    for part in (Answer(Report(run)).sentence, Answer(Report(run)).trust):
        assert " ".join(part.split()) in text


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_the_committed_runs_end_in_25_lines(path):
    """GIVEN runs that were measured, THEN their answers fit, too."""
    lines = printed(terminal.answer_of(load_run(path), 80))
    assert len(lines) <= 25
    assert all(len(line) <= 80 for line in lines)


def test_overhead_and_the_rest_are_never_left_out(tmp_path):
    """GIVEN little room, THEN the breakdown drops small blocks before what says how well it adds up."""
    lines = printed(terminal.answer_of(RUNS["everything"](tmp_path / "run"), 80))
    assert any(line.startswith("overhead") for line in lines)
    assert any(line.startswith("unexplained") for line in lines)


def test_one_table_is_printed_whole_and_an_unknown_one_lists_them(tmp_path):
    """GIVEN a table's name, THEN all of its rows; GIVEN a wrong one, THEN the message names the tables."""
    run = RUNS["everything"](tmp_path / "run")
    console = Console(width=120, file=io.StringIO())
    terminal.show(run, console, "energy")
    rows = list(csv.DictReader(io.StringIO(console.file.getvalue()), delimiter="\t"))
    assert len(rows) == len(terminal.table_of(run, "energy").rows)
    with pytest.raises(UsageError, match=r"energy, .*summary"):
        terminal.table_of(run, "xyzzy")


def test_machines_get_raw_numbers(tmp_path):
    """GIVEN --json, THEN the summary with the answer, or a table's rows with intervals as objects."""
    run = RUNS["everything"](tmp_path / "run")
    whole = json.loads(json.dumps(terminal.record(run), default=str))
    assert whole["answer"]["sentence"] == Answer(Report(run)).sentence
    assert "energy" in whole["tables"]
    first = terminal.record(run, "energy")[0]
    assert first["energy_mj"]["value"] == pytest.approx(Report(run).main.energy.value)


@pytest.mark.parametrize("which", HOSTILE)
def test_hostile_names_steer_no_terminal(tmp_path, which):
    """GIVEN names with control characters, THEN what is printed has none, and no line is broken by them."""
    run = hostile_run(tmp_path / "run", HOSTILE[which])
    for drawable in (terminal.answer_of(run, 80), terminal.table_of(run, "energy").rich(80)):
        lines = printed(Sanitized(drawable))
        assert all(line.isprintable() for line in lines)


def test_every_trial_of_a_benchmark_can_be_printed(tmp_path):
    """GIVEN --verbose, THEN a row for each trial with its energy and interval."""
    run = RUNS["benchmark"](tmp_path / "run")
    assert len(terminal.trials(run).rows) == len(run.trials)

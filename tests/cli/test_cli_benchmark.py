"""`energyscope benchmark` on the command line."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from energyscope.cli.app import app
from energyscope.runs import schema

SHORT = ["--num-iters", "5", "--warmup-steps", "1", "--trials", "2", "--max-examples", "16",
         "--sequence-length", "16", "--trial-seconds", "0.2"]  # fmt: skip


def invoke(*words):
    return CliRunner().invoke(app, ["benchmark", *(str(word) for word in words)])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A short benchmark with everything that it can write."""
    folder = tmp_path_factory.mktemp("work")
    result = invoke(
        "tiny-distilbert", "--precision", "fp32,fp16-autocast", "--batch-size", "1,2", *SHORT, "--verbose",
        "--root", folder / "runs", "--name", "one", "--output", folder / "results" / "out.csv",
    )  # fmt: skip
    return result, folder


def test_it_prints_a_table_and_every_trial(done):
    """The summary names both precisions, MODELLED, and the report; --verbose lists the trials."""
    result, _ = done
    assert result.exit_code == 0, result.output
    for word in ("fp32", "fp16-autocast", "MODELLED", "report.html"):
        assert word in result.output


def test_output_has_a_row_for_each_trial_and_everything_as_json(done):
    """2 precisions x 2 batch sizes x 2 trials; settings and rows in the JSON file beside it."""
    _, folder = done
    with (folder / "results" / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert tuple(rows[0]) == schema.BENCHMARK_COLUMNS
    document = json.loads((folder / "results" / "out.json").read_text(encoding="utf-8"))
    assert document["settings"]["num_iters"] == 5
    assert len(document["trials"]) == 8


def test_json_is_the_benchmark_and_nothing_else(tmp_path):
    """--json prints one document on standard output."""
    result = invoke("tiny-gpt2", "--precision", "fp32", *SHORT, "--json", "--root", tmp_path, "--name", "one")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["baseline"] == "fp32"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trials", "0"], "--trials must be 1 or more, not 0"),
        (["--batch-size", "1,x"], "--batch-size '1,x' is no list of whole numbers"),
        (["--batch-size", ","], "--batch-size names nothing"),
        (["--precision", "fp17"], "fp17"),
        (["--precision", "fp32", "--sequence-length", "16,100000"], "--sequence-length 100000 is too long"),
        (["--power-sample-interval", "0"], "--power-sample-interval must be above 0"),
        (["--output", "out.txt"], "must end in .csv"),
        (["--meter", "nvml"], "--meter modelled"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(words, message, tmp_path):
    """Nothing is measured, no run is left behind, and the line says what to give."""
    result = invoke("tiny-gpt2", *words, "--root", tmp_path / "runs")
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert len([line for line in result.output.splitlines() if line != "load: tiny-gpt2"]) == 1
    assert not (tmp_path / "runs").exists()


def test_an_output_that_cannot_be_written_is_told_before_measuring(tmp_path):
    """A file where a folder should be, and a file that is there already."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "there.csv").write_text("kept", encoding="utf-8")
    for output, message in (
        (tmp_path / "file" / "out.csv", "cannot be written"),
        (tmp_path / "there.csv", "exists"),
    ):
        result = invoke("tiny-gpt2", "--output", output, "--root", tmp_path / "runs")
        assert result.exit_code == 2
        assert message in result.output
    assert (tmp_path / "there.csv").read_text(encoding="utf-8") == "kept"


def test_no_warmup_times_from_the_first_pass(tmp_path):
    """--no-warmup: not one pass before the timed ones."""
    result = invoke(
        "tiny-gpt2", "--precision", "fp32", *SHORT, "--no-warmup", "--json", "--root", tmp_path, "--name", "one"
    )
    assert result.exit_code == 0, result.output
    assert {row["warmup_iterations"] for row in json.loads(result.stdout)["trials"]} == {0}

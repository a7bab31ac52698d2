"""`energyscope predict`: its table, its JSON, its errors in one line, and MODELLED at every modelled joule."""

from __future__ import annotations

import csv
import json
import re

import pytest
from prediction_builder import planted_run
from typer.testing import CliRunner

from energyscope.cli.app import app

LENGTHS = (16, 32, 64, 128)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for tokens in LENGTHS:
        planted_run(folder / f"s{tokens}", tokens)
        planted_run(folder / f"m{tokens}", tokens, modelled=True)
    return folder


def predict(root, *arguments, runs="s", lengths=LENGTHS, columns=160, piped=False):
    """Call the command as on a terminal of some columns, without styles; or in a pipe."""
    chosen = [word for tokens in lengths for word in ("--from", f"{runs}{tokens}")]
    given = ["predict", "tiny-gpt2", *chosen, "--root", str(root), *arguments]
    terminal = {} if piped else {"FORCE_COLOR": "1", "TERM": "dumb", "LINES": "50"}
    return CliRunner().invoke(app, given, env={"COLUMNS": str(columns), **terminal})


def test_a_table_says_what_is_predicted(root):
    """The table has the whole, the sum and each part, with law, interval, left-out error and range."""
    done = predict(root, "--sequence-length", "96")
    assert done.exit_code == 0, done.output
    words = (
        "tiny-gpt2, prefill, 96 tokens, FP32, eager: ", "from 4 cells: s16 (1 x 16)", "whole model",
        "sum of parts", "attention", "overhead", "unexplained", "median over lengths left out", "within",
        "two-term", "mJ", "\u00b1",
    )  # fmt: skip
    assert [word for word in words if word not in done.output] == []
    assert "MODELLED" not in done.output


def test_another_adapter_is_the_one_that_is_named(root):
    """GIVEN --adapter THEN it serves the predicted model, or one line says what it serves instead."""
    assert predict(root, "--sequence-length", "96", "--adapter", "gpt2").exit_code == 0
    wrong = predict(root, "--sequence-length", "96", "--adapter", "llama")
    assert wrong.exit_code == 2
    assert "--adapter llama serves llama" in wrong.output


def test_json_is_the_document(root):
    """`--json` prints one JSON object with the parts and the error beside each."""
    prediction = json.loads(predict(root, "--sequence-length", "96", "--json").output)
    assert prediction["whole"]["held_out"]["median"] < 0.1
    assert {row["subject"] for row in prediction["parts"]} >= {"mlp", "attention", "glue", "unexplained"}
    assert prediction["modelled"] is False


def test_modelled_joules_say_so(root):
    """GIVEN modelled runs THEN a line above and the column of energies say MODELLED."""
    done = predict(root, "--sequence-length", "96", runs="m")
    assert "Energy (MODELLED)" in done.output
    assert "MODELLED: every joule is time x stated watts" in done.output


@pytest.mark.parametrize(("runs", "meters"), [("s", {None}), ("m", {"MODELLED"})])
def test_a_pipe_gets_tabs(root, runs, meters):
    """GIVEN a pipe THEN raw values are tab-separated, with why a row is outside, and MODELLED in a column."""
    done = predict(root, "--sequence-length", "500", runs=runs, columns=20, piped=True)
    rows = list(csv.DictReader(done.output.splitlines(), delimiter="\t"))
    assert rows[0]["part"] == "whole model"
    assert float(rows[0]["energy_mj_low"]) < float(rows[0]["energy_mj"]) < float(rows[0]["energy_mj_high"])
    assert {row.get("meter") for row in rows} == meters
    assert rows[0]["data"] == "outside"
    assert "beyond-cells" in rows[0]["note"]


def test_outside_is_said(root):
    """GIVEN a length beyond the data THEN the row says outside, and by how much."""
    assert "outside" in predict(root, "--sequence-length", "500").output


def test_negative_terms_are_flagged(tmp_path):
    """GIVEN joules that fall with the length THEN a line below the table names the negative term."""
    for tokens, noise in ((16, 3.0), (64, 1.0), (128, 0.4)):
        planted_run(tmp_path / f"s{tokens}", tokens, noise=noise, modelled=True)
    done = predict(tmp_path, "--sequence-length", "32", lengths=(16, 64, 128))
    assert re.search(r"k is negative", done.output)


@pytest.mark.parametrize(
    ("arguments", "lengths", "words"),
    [
        ((), (), "add --from RUN"),
        ((), (16,), "one cell gives no law: measure another length or batch size (energyscope sweep)"),
        (("--sequence-length", "9999"), LENGTHS, "tiny-gpt2 has 512 positions"),
        (("--mixed", "meter"), LENGTHS, "--mixed meter is not possible"),
        (("--precision", "bf16"), LENGTHS, "no law carries over"),
        (("--batch-size", "0"), LENGTHS, "use 1 or more"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(root, arguments, lengths, words):
    """What cannot be predicted is refused in one line that says what to do."""
    done = predict(root, *arguments, lengths=lengths)
    assert done.exit_code == 2
    assert words in done.output
    assert done.output.count("\n") == 1


def test_a_meter_is_never_mixed(root):
    """GIVEN a measured and a modelled run THEN they are refused, and each is named with its meter."""
    done = CliRunner().invoke(
        app,
        ["predict", "tiny-gpt2", "--from", "s16", "--from", "m32", "--root", str(root)],
        env={"COLUMNS": "160"},
    )
    assert done.exit_code == 2
    assert "modelled: m32; nvml: s16" in done.output


def test_the_table_fits_a_narrow_terminal(root):
    """At 80 columns no energy is cut."""
    done = predict(root, "--sequence-length", "96", columns=80)
    assert "\u2026" not in done.output
    assert max(map(len, done.output.splitlines())) <= 80

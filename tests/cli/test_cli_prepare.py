"""`energyscope prepare`: what it prints, what it leaves, and one line for what cannot be."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from energyscope.cli import prepare

OPTIONS = {
    "--size", "--output", "--data", "--sequence-length", "--stride", "--text-column", "--label-column",
    "--trust-remote-code", "--adapter", "--json",
}  # fmt: skip


@pytest.fixture
def call():
    app = typer.Typer()
    app.command()(prepare.command)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_the_options_are_these():
    """No option of `prepare` is lost or added by accident."""
    app = typer.Typer()
    app.command()(prepare.command)
    options = {option for parameter in typer.main.get_command(app).params for option in parameter.opts}
    own = {option for option in options if option.startswith("--") and "completion" not in option}
    assert own == OPTIONS


def test_another_adapter_is_the_one_that_is_named(call, tmp_path):
    """GIVEN --adapter THEN it serves the model, or one line says what it serves instead."""
    done = call("tiny-gpt2", "--size", "small", "--output", tmp_path / "set", "--adapter", "auto")
    assert done.exit_code == 0, done.output
    wrong = call("tiny-gpt2", "--output", tmp_path / "other", "--adapter", "llama")
    assert "--adapter llama serves llama" in wrong.output
    assert not (tmp_path / "other").exists()


def test_what_was_prepared_is_told(call, tmp_path):
    """A line says examples, tokens, size on disk and path, and the next how to use them."""
    done = call("tiny-distilbert", "--size", "small", "--output", tmp_path / "set")
    assert done.exit_code == 0, done.output
    first, last = done.output.strip().splitlines()
    assert first.startswith(f"{tmp_path / 'set'}: 50 examples of bundled:tiny-distilbert, ")
    assert " tokens, cut at 512, " in first
    assert first.endswith("kB on disk")
    assert last == f"use it with: energyscope run tiny-distilbert --data {tmp_path / 'set'}"


def test_json_is_for_machines(call, tmp_path):
    """WHEN --json is given THEN the same is one JSON object."""
    done = json.loads(call("tiny-gpt2", "--size", "small", "--output", tmp_path / "set", "--json").output)
    assert (done["examples"], done["size"], done["path"]) == (50, "small", str(tmp_path / "set"))
    assert done["digest"] == json.loads((tmp_path / "set" / "prepared.json").read_text())["digest"]


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["tiny-gpt2", "--output", "."], 2, "exists: choose another --output"),
        (["tiny-gpt2", "--output", "file/set"], 2, "--output file/set cannot be written (Not a directory)"),
        (["tiny-gpt2", "--output", "set", "--size", "huge"], 2, "--size 'huge' is not known"),
        (["no-such-model", "--output", "set"], 2, "no model is called 'no-such-model'"),
        (["tiny-gpt2", "--output", "set", "--data", "none.txt"], 2, "there is no file none.txt"),
        (["tiny-gpt2", "--output", "set", "--data", "empty"], 2, "empty holds no data set"),
        (["tiny-gpt2", "--output", "set", "--sequence-length", "100000"], 2, "positions at most"),
        (["tiny-gpt2", "--output", "set", "--data", "file"], 1, "file is empty"),
    ],
)
def test_what_cannot_be_is_one_line(call, tmp_path, monkeypatch, words, code, complaint):
    """WHEN something cannot be THEN one line says why, with the exit code, and nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    done = call(*words)
    assert done.exit_code == code
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"file", "empty"}


def test_help_imports_nothing_heavy():
    """The module that parses the options imports neither torch nor transformers nor pyarrow."""
    code = (
        "import sys, energyscope.cli.prepare; "
        "print([name for name in ('torch', 'transformers', 'pyarrow', 'pandas', 'altair') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""Hostile names on a terminal: commands print them as text, and none of them steers the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from generation_builder import build_inference
from page_gallery import HOSTILE, hostile_run
from typer.testing import CliRunner

from energyscope.cli.app import app

NAMES = {
    **HOSTILE,
    "escape": "\x1b[31mred\x1b]0;title\x07\x1b[2J",
    "backspace": "safe\b\b\b\bevil",
    "c1": "a\x9b31mb\x85c",
}
# What a terminal would obey: control characters (but the tabs between columns), marks that turn the writing.
TURNING = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
OBEYED = {*map(chr, range(32)), *map(chr, range(127, 160)), *TURNING} - {"\n", "\t"}


def _printed(*arguments: str) -> str:
    """Run a command on what is no terminal, and return what it printed."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("which", NAMES)
def test_no_name_steers_the_terminal(tmp_path: Path, which: str) -> None:
    """GIVEN hostile names, THEN nothing that is printed of runs, comparisons and laws is obeyed."""
    first, second = (str(hostile_run(tmp_path / name, NAMES[which]).path) for name in ("a", "b"))
    for arguments in (
        ("show", first),
        ("compare", first, second, "--no-report"),
        ("runs", "--root", str(tmp_path)),
        ("laws", first, second, "--name", "found", "--root", str(tmp_path)),
    ):
        printed = _printed(*arguments)
        assert printed.strip()
        assert not OBEYED & set(printed), arguments


def test_a_hostile_model_of_an_inference(tmp_path: Path) -> None:
    """The same for a run with a traced generation."""
    run = build_inference(tmp_path / "run", model={"name": NAMES["escape"]}, command=NAMES["backspace"])
    assert not OBEYED & set(_printed("show", str(run.path)))

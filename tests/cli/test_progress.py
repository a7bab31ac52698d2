"""Progress where nothing can be painted: plain lines, or none."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from energyscope.cli import progress as module
from energyscope.cli.progress import progress


def lines(quiet=False, terminal=None, steps=()):
    console = Console(file=io.StringIO(), width=40, force_terminal=terminal)
    with progress(console, quiet=quiet, stages=("load", "profile")) as report:
        report.follow(Path("runs/one"))
        for step in steps:
            report(*step)
    return console.file.getvalue().splitlines()


STEPS = [("load", "gpt2", 0, 1), ("profile", "preheating", 0, 120), ("profile", "h.1.mlp", 60, 120)]


@pytest.mark.parametrize("terminal", [False, True])
def test_no_terminal_gets_a_line_for_each_stage(terminal):
    """GIVEN a file, even where a terminal's colours are forced on it, THEN one plain line for each stage."""
    assert lines(terminal=terminal, steps=STEPS) == ["load: gpt2", "profile: 120 steps"]


def test_a_long_stage_is_heard_of_again(monkeypatch):
    """GIVEN a stage that takes long, THEN now and then a line says how far it is and what is measured."""
    monkeypatch.setattr(module, "PLAIN_EVERY_S", 0.0)
    said = lines(steps=STEPS)[-1]
    assert said.startswith("profile: 60/120, about 0 s left")
    assert said.endswith("(h.1.mlp)")


def test_quiet_says_nothing():
    assert lines(quiet=True, steps=STEPS) == []


def test_names_are_one_line_of_printable_letters():
    """GIVEN a name with a line break, control characters and markup, THEN its line stays one, and says it all."""
    assert lines(steps=[("load", "\x1b[2Ja\n[bold]b", 0, 1)]) == ["load: [2Ja [bold]b"]

"""Progress where nothing can be painted: plain lines, or none."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from energyscope.cli import progress as module
from energyscope.cli.progress import progress


def lines(quiet=False, terminal=None, steps=(), stages=("load", "profile"), estimate=None):
    console = Console(file=io.StringIO(), width=40, force_terminal=terminal)
    with progress(console, quiet=quiet, stages=stages) as report:
        if estimate is not None:
            report.begin(Path("runs/one"), estimate)
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
    printed = lines(steps=STEPS)[-1]
    assert printed.startswith("profile: 60/120, about 0 s left")
    assert printed.endswith("(h.1.mlp)")


def test_a_long_stage_says_which_of_its_moments_it_measures(monkeypatch):
    """GIVEN a profile of two phases, THEN the first one's time leads to the next."""
    monkeypatch.setattr(module, "PLAIN_EVERY_S", 0.0)
    estimate = {"profile": [(40.0, 90.0, 100, "")] * 2}
    steps = [*STEPS, ("profile", "h.0", 0, 120), ("profile", "h.1", 60, 120)]
    printed = lines(steps=steps, stages=("load", "profile"), estimate=estimate)
    assert "profile: 1 of 2, 60/120, about 0 s to the next (h.1.mlp)" in printed[2]
    assert "profile: 2 of 2, 60/120, about 0 s left (h.1)" in printed[-1]


def test_what_is_left_of_the_run_stands_behind_a_stage():
    """GIVEN a plan of later stages, THEN a stage's line says what is left of the run, the last one's not."""
    steps = [("benchmark", "fp32: loading", 0, 1), ("ablate", "h.0", 0, 4)]
    printed = lines(
        steps=steps,
        stages=("load", "benchmark", "profile", "ablate", "report"),
        estimate={"profile": [(40.0, 90.0, 100, "")]},
    )
    later = "the run: about 0:40 to 1:30 left, not counting benchmark, ablate, report"
    assert printed == [f"benchmark: fp32: loading; {later}", "ablate: 4 steps"]


def test_a_step_that_belongs_to_no_stage_says_nothing_of_the_run():
    """GIVEN a step of the sensor, which is none of the named stages, THEN its line is its own alone."""
    assert lines(steps=[("sensor", "idle", 0, 1)], estimate={"profile": [(40.0, 90.0, 100, "")]}) == [
        "sensor: idle"
    ]


def test_quiet_says_nothing():
    assert lines(quiet=True, steps=STEPS, estimate={}) == []


def test_names_are_one_line_of_printable_letters():
    """GIVEN a name with a line break, control characters and markup, THEN its line stays one, and says it all."""
    assert lines(steps=[("load", "\x1b[2Ja\n[bold]b", 0, 1)]) == ["load: [2Ja [bold]b"]

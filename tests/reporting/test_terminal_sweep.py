"""A sweep's table is whole in a narrow terminal, and says how to measure what is missing."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from energyscope.reporting.terminal_sweep import sweep_summary
from energyscope.runs.sweeps import load_sweep

SWEEPS = Path(__file__).parents[2] / "reports" / "scaling-h200" / "cells"


def printed(sweep, width=80):
    console = Console(file=StringIO(), width=width)
    console.print(sweep_summary(sweep))
    return console.file.getvalue()


@pytest.mark.parametrize("name", ["long-eager", "context-llama-3.2-1b", "prefill-llama-3.2-3b"])
def test_no_word_of_the_table_is_cut_at_80_columns(name):
    """Headings, grades and states stand whole."""
    sweep = load_sweep(SWEEPS / name)
    lines = printed(sweep)
    assert "…" not in lines
    for word in ("precision", "batch", "per token", "closure", "grade", f"{max(c.tokens for c in sweep.cells):,}"):
        assert word in lines


@pytest.mark.parametrize(("state", "command"), [("interrupted", "--resume"), ("failed", "--retry")])
def test_what_is_missing_can_be_measured(state, command):
    """GIVEN a cell without a value THEN the command that measures it is named; and none where all are there."""
    sweep = load_sweep(SWEEPS / "long-eager")
    assert "--resume" not in printed(sweep)
    lacking = replace(sweep, cells=[*sweep.cells[:-1], replace(sweep.cells[-1], state=state, reason="stopped")])
    assert command in printed(lacking, width=200)
    assert ("--retry" in printed(lacking, width=200)) == (state == "failed")

"""A sweep's table is whole in a narrow terminal, and says how to measure what is missing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from energyscope.reporting import terminal_sweep as module
from energyscope.reporting.terminal_sweep import sweep_summary
from energyscope.runs.schema import ENERGY_FILE
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


@pytest.mark.parametrize("modelled", [False, True])
def test_the_widest_words_keep_all_columns(modelled):
    """GIVEN the longest precision, length and energies, MODELLED or not, THEN no column is cut at 80 columns."""
    sweep = load_sweep(SWEEPS / "long-eager")
    cell = replace(sweep.cells[0], precision="fp16-autocast", batch_size=1024, tokens=131_072)
    lost = replace(cell, state="does not fit", reason="no memory", tokens=262_144)
    wide = {
        "energy_mj": 1_234.0, "energy_ci_low_mj": 1_012.0, "energy_ci_high_mj": 1_456.0, "time_us": 999_999.0,
        "power_w": 699.9, "quality": "invalid", "closure": 1.234, "energy_per_token_mj": 12.3,
    }  # fmt: skip
    rows = [
        {"precision": one.precision, "batch_size": one.batch_size, "tokens": one.tokens, "state": one.state,
         **(wide if one is cell else dict.fromkeys(wide))}
        for one in (cell, lost)
    ]  # fmt: skip
    console = Console(file=StringIO(), width=80)
    console.print(module._table(sweep, rows, modelled=modelled))
    said = console.file.getvalue()
    assert "\u2026" not in said
    for word in ("fp16-auto", "131,072", "does not fit", "12.3 mJ", "closure", "123 %", "grade", "invalid"):
        assert word in said, word
    assert ("MODELLED" in said, "700 W" in said) == (modelled, not modelled)


def test_what_to_do_next_is_said():
    """GIVEN measured cells THEN a prediction from them is a command away, and what is invalid can be narrowed."""
    said = printed(load_sweep(SWEEPS / "context-llama-3.2-1b"), width=300)
    assert "7 cells graded invalid: intervals beyond 10 %" in said
    assert "energyscope predict llama-3.2-1b --from" in said
    assert "--context-length N" in said


def test_a_cell_with_few_windows_is_not_said_to_be_wide(tmp_path):
    """GIVEN a cell that is invalid for its two windows, and a wide one, THEN each has its own reason."""
    shutil.copytree(SWEEPS / "long-eager", tmp_path / "swept")
    sweep = load_sweep(tmp_path / "swept")
    file = sweep.path / sweep.cells[2].name / ENERGY_FILE
    table = pd.read_csv(file)
    whole = table["kind"] == "model"
    table.loc[whole, ["quality", "reasons"]] = "invalid", "2 windows (A needs 5)"
    table.loc[whole, "energy_ci_low_mj"] = 0.99 * table.loc[whole, "energy_mj"]
    table.loc[whole, "energy_ci_high_mj"] = 1.01 * table.loc[whole, "energy_mj"]
    table.to_csv(file, index=False)
    said = printed(load_sweep(sweep.path), width=300)
    assert "2 cells graded invalid: intervals beyond 10 %" in said
    assert "1 cell graded invalid: 2 windows (A needs 5)" in said

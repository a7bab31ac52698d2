"""The table of a prediction: every energy with its limits, what is unknown said once, nothing renormalised."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from energyscope.reporting.terminal_predict import prediction_table

HELD_OUT = {
    "by": "length", "where": "inside", "cells": 4, "median": 0.031, "largest": 0.05, "with_interval": 4,
    "inside": 4, "reason": None,
}  # fmt: skip


def row(subject="mlp", **changes: Any):
    energy = {"value": 123.4, "low": 120.0, "high": 127.0}
    return {
        "subject": subject, "energy_mj": energy, "time_us": {"value": 410.0, "low": None, "high": None},
        "law": "two-term", "held_out": HELD_OUT, "extrapolated": False, "why": None, "flags": [], **changes,
    }  # fmt: skip


def written(width=140, **changes: Any):
    found = {
        "model": "tiny", "phase": "prefill", "batch_size": 4, "tokens": 96, "precision": "bf16",
        "execution": "eager", "modelled": False, "left_out_by": "length", "whole": row("model"), "left_out": {},
        "sum": row("model", law="sum over parts"), "parts": [row()], "groups": [], "notes": [],
        "from": [{"run": "a", "batch_size": 4, "tokens": 64}, {"run": "b", "batch_size": 4, "tokens": 128}],
        **changes,
    }  # fmt: skip
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(prediction_table(found))
    return console.export_text()


def test_the_shape_and_its_sources_stand_above():
    """The heading says what is foretold, and from what."""
    text = written()
    assert "tiny, prefill, 4 x 96 tokens, bf16, eager: predicted" in text
    assert "from 2 cells: a (4 x 64), b (4 x 128)" in text
    assert "a step of 4 on 96 tokens of context" in written(phase="decode")


def test_a_row_has_value_limits_time_law_and_error():
    """Energy, its limits, time, law, left-out error with its number, and the range."""
    text = written()
    for words in ("123 mJ", "[120.0, 127.0]", "410 \u00b5s", "two-term", "3.1 % (n=4)", "within"):
        assert words in text


def test_unknown_is_said_once_with_its_reason():
    """GIVEN subjects without an error for one reason THEN it is said in one line, and never as 0."""
    unjudged = {**HELD_OUT, "median": None, "cells": 0, "reason": "a single length: nothing is left to fit"}
    text = written(parts=[row("mlp", held_out=unjudged, time_us=None), row("norm", held_out=unjudged)])
    assert text.count("nothing is left to fit") == 1
    assert "held-out error not known, mlp and norm:" in text
    assert "0 %" not in text
    text = written(left_out={"lm_head": "1 cell", "norm": "1 cell"})
    assert "not told, lm_head and norm: 1 cell" in text


def test_a_flag_names_its_subjects():
    """GIVEN a negative term in two subjects THEN one line names both."""
    text = written(parts=[row("mlp", flags=["k is negative"])], whole=row("model", flags=["k is negative"]))
    assert "whole model and mlp: k is negative" in text


@pytest.mark.parametrize("width", [80, 140])
def test_modelled_stands_at_every_joule(width):
    """GIVEN modelled joules THEN each energy says so, also on a narrow terminal."""
    text = written(width, modelled=True, parts=[row("mlp"), row("norm")])
    assert text.count("MODELLED 123 mJ") == 4
    assert "these joules are time x stated watts" in text


def test_outside_says_how():
    """GIVEN a shape beyond the data THEN the first reason stands in its row."""
    text = written(parts=[row("mlp", extrapolated=True, why="9 FLOPs are 3 times the most measured; 8 bytes too")])
    assert "outside: 9 FLOPs are 3 times the most measured" in text
    assert "8 bytes" not in text


def test_names_are_text():
    """GIVEN a model whose name is markup THEN it is printed as it is."""
    assert "[red]x[/red], prefill" in written(model="[red]x[/red]")

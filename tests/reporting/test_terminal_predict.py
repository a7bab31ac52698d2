"""The table of a prediction: every energy with its limits, what is unknown said once, nothing renormalised."""

from __future__ import annotations

import io
import re
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
    """GIVEN a shape beyond the data THEN its row says so, and below the first reason."""
    text = written(parts=[row("mlp", extrapolated=True, why="9 FLOPs are 3 times the most measured; 8 bytes too")])
    assert "outside of the data, mlp: 9 FLOPs are 3 times the most measured" in text
    assert "8 bytes" not in text


def test_what_all_rows_lie_outside_by_is_said_once():
    """GIVEN rows that are beyond the data by the same length THEN one line says so, not each row."""
    why = "512 tokens are 4 times the most measured; {} GFLOPs are 5 times the most measured"
    parts = [row(name, extrapolated=True, why=why.format(at)) for at, name in enumerate(("mlp", "norm"))]
    text = written(80, parts=parts)
    assert text.count("times the most measured") == 1
    assert "outside of the data, mlp and norm: 512 tokens are 4 times the most measured" in text


def test_a_limit_that_is_not_told_is_none():
    """GIVEN an energy without a lower limit THEN the upper one stands alone, and no number is made up for it."""
    text = written(parts=[row("mlp", energy_mj={"value": 12.5, "low": None, "high": 61.25})], whole=None, sum=None)
    assert "12.5 mJ" in text
    assert "up to 61.2 mJ" in text
    assert "[" not in text.partition("held-out error")[2]


@pytest.mark.parametrize("width", [80, 120])
def test_every_column_is_there(width):
    """GIVEN modelled joules, the longest law and wide numbers THEN no column is cut, on 80 columns either."""
    long = row(
        "attention.output", law="roofline (board's rates)", extrapolated=True, why="1 token",
        energy_mj={"value": 123_456.0, "low": 101_234.0, "high": 145_678.0},
        held_out={**HELD_OUT, "median": 1.23, "cells": 120, "where": "outside"},
    )  # fmt: skip
    text = written(width, modelled=True, parts=[long])
    assert "\u2026" not in text
    assert not re.search(r"outsid(?!e)|withi(?!n)", text)
    for words in ("MODELLED 123 J", "[101, 146]", "123 %", "outside", "(n=120)"):
        assert words in text


def test_names_are_text():
    """GIVEN a model whose name is markup THEN it is printed as it is."""
    assert "[red]x[/red], prefill" in written(model="[red]x[/red]")


def test_a_law_is_explained_without_another():
    """GIVEN the law with the board's rates alone THEN its line is whole: it refers to no law that is not there."""
    text = written(whole=row("model", law="roofline (board's rates)"), parts=[], sum=None)
    assert "roofline (board's rates): static power x time at the board's rates + so much a call" in text
    assert "the same" not in text

"""A notebook shows runs, comparisons and pooled runs by their answers, and nothing in them is executed."""

from __future__ import annotations

import html
from dataclasses import asdict
from pathlib import Path

import pytest
from benchmark_builder import Bench
from run_builder import Shape, build_run

from energyscope import format as fmt
from energyscope.comparison.compare import compare
from energyscope.comparison.pooling import pool
from energyscope.reporting.comparison.answer import ComparisonAnswer
from energyscope.reporting.comparison.pooled import sentences
from energyscope.reporting.comparison.source import ComparedRuns
from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.report import Report

HOSTILE = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    "shape",
    [
        Shape(),
        Shape(modelled=True, benchmark=Bench(modelled=True)),
        Shape(profile=False, impact=False),
    ],
    ids=["measured", "modelled", "nothing"],
)
def test_a_run_shows_its_answer(tmp_path: Path, shape: Shape) -> None:
    """GIVEN a run THEN its HTML has the sentence, each part of the breakdown and the line of trust."""
    run = build_run(tmp_path / "run", shape)
    shown, answer = run._repr_html_(), Answer(Report(run))
    assert fmt.unbroken(answer.sentence) in shown
    assert "Can I trust this?" in shown
    for row in answer.breakdown.rows:
        assert row["part"] in shown
    assert ("MODELLED" in shown) is run.modelled
    assert "<script" not in shown


def test_names_are_escaped(tmp_path: Path) -> None:
    """GIVEN a model that is named like a script THEN a notebook shows its name as text."""
    shown = build_run(tmp_path / "run", model={"name": HOSTILE})._repr_html_()
    assert HOSTILE not in shown
    assert "&lt;script&gt;" in shown


def test_a_comparison_and_pooled_runs_show_their_answers(tmp_path: Path) -> None:
    """GIVEN two runs THEN a notebook shows what changed, parts and trust, or the pooled pass and its parts."""
    runs = [build_run(tmp_path / name, Shape(scale=scale)) for name, scale in (("a", 1.0), ("b", 0.5))]
    comparison = compare(runs)
    shown = html.unescape(comparison._repr_html_())
    answer = ComparisonAnswer(ComparedRuns(comparison).others[0])
    assert "b against a" in shown
    for text in (answer.sentence, answer.cause, answer.trust):
        assert fmt.unbroken(text) in shown
    assert shown.count("<table") == 2
    assert [run.name for run in comparison.runs] == ["a", "b"]
    assert "runs" not in asdict(comparison), "whose tables fill a terminal, and are no JSON"

    pooled = pool(runs)
    shown = html.unescape(pooled._repr_html_())
    assert all(fmt.unbroken(sentence) in shown for sentence in sentences(pooled))
    assert shown.count("<table") == 1


def test_names_of_compared_runs_are_escaped(tmp_path: Path) -> None:
    """GIVEN a model that is named like a script THEN its name is text."""
    runs = [
        build_run(tmp_path / name, Shape(scale=scale), model={"name": HOSTILE})
        for name, scale in (("a", 1.0), ("b", 0.5))
    ]
    for shown in (compare(runs)._repr_html_(), pool(runs)._repr_html_()):
        assert HOSTILE not in shown

"""A notebook shows a run as the first screen of its page, and nothing in it is executed."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_builder import Bench
from run_builder import Shape, build_run

from energyscope import format as fmt
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

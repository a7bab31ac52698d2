"""Whether a traced step or prefill is what its parts add up to, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from generation_builder import build_inference

from energyscope.reporting.data import report_data
from energyscope.reporting.data.agreement import Agreement
from energyscope.reporting.data.generation_words import agreement_sentence
from energyscope.runs.intervals import Interval, ratio


def _of(parts: Interval, traced: Interval) -> Agreement:
    return Agreement("decode", "decode at 32", parts, Interval(0.0, 0.0, 0.0), None, parts, traced,
                     ratio(parts, traced), same_execution=True)  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "traced", "verdict", "said"),
    [
        (Interval(104, 100, 108), Interval(100, 99, 101), "agree", "they agree within 4.0 %"),
        (Interval(102, 40, 164), Interval(100, 99, 101), "cannot be told", "whether they agree cannot be told"),
        (Interval(100), Interval(100), "cannot be told", "not both have an interval"),
        (Interval(135, 130, 140), Interval(100, 99, 101), "disagree", "35 % more, which is a disagreement"),
        (
            Interval(135, 80, 190),
            Interval(100, 99, 101),
            "cannot be told",
            "35 % more, which their intervals allow",
        ),
        (Interval(198, -507, 903), Interval(147, 139, 155), "cannot be told", "whether they agree cannot be told"),
        (Interval(10, -1, 21), Interval(100, 99, 101), "disagree", "90 % less, which is a disagreement"),
        (Interval(135), Interval(100, 99, 101), "cannot be told", "35 % more, and not both have an interval"),
    ],
)
def test_only_what_the_intervals_exclude_is_a_disagreement(
    parts: Interval, traced: Interval, verdict: str, said: str
) -> None:
    """Within 7 % parts and trace agree; beyond it, an interval with 1 tells nothing, and one without 1 does."""
    found = _of(parts, traced)
    assert found.verdict == verdict
    assert said in agreement_sentence(found)


def test_a_prefill_has_the_loop_of_a_call_and_of_a_step(tmp_path: Path) -> None:
    """The parts of a prefill are the model's pass and the loop, once per call and once per step."""
    run = build_inference(tmp_path / "run")
    made = report_data(run).generation
    assert made is not None
    found = made.prefill_agreement
    assert found is not None
    assert found.call is not None
    assert made.loop.call_energy is not None
    assert found.parts.value == pytest.approx(found.model.value + found.loop.value + made.loop.call_energy.value)
    prefill = made.phase("prefill")
    assert prefill is not None
    assert found.traced == prefill.energy
    assert agreement_sentence(found).startswith("The prefill: model forward")


def test_a_prefill_with_an_unknown_part_is_not_compared(tmp_path: Path) -> None:
    """GIVEN a loop without a call's share, THEN there is no sentence on the prefill, and that on a step stays."""
    whole = build_inference(tmp_path / "run")
    assert whole.generation is not None
    whole.generation["loop"]["per_call"] = None
    made = report_data(whole).generation
    assert made is not None
    assert made.prefill_agreement is None
    assert made.agreement is not None

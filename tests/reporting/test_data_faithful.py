from __future__ import annotations

import pytest

from energyscope.reporting.data.faithful import ReplayRow, ratio_text, replay_rows, replay_sentences
from energyscope.runs.intervals import Interval


@pytest.mark.parametrize(
    ("differential", "ratio", "verdict"),
    [
        (Interval(10, 9.5, 10.5), Interval(1.04, 1.01, 1.07), "agrees"),
        (Interval(10, 8, 12), Interval(1.2, 0.9, 1.5), "not told apart"),
        (Interval(10, 9.9, 10.1), Interval(1.2, 1.1, 1.3), "dearer in replay"),
        (Interval(10, 9.9, 10.1), Interval(0.8, 0.7, 0.9), "cheaper in replay"),
        (Interval(1, -1, 3), Interval(1.0, -1.0, 3.0), "too small to tell"),
        (Interval(-1), Interval(-2.0), "too small to tell"),
        (Interval(10), None, "unknown"),
    ],
)
def test_verdicts(differential: Interval, ratio: Interval | None, verdict: str) -> None:
    """Within 5 % agrees; beyond it the interval decides; what the model cannot tell from nothing is not judged."""
    assert ReplayRow("mlp", 10.0, differential, ratio).verdict == verdict


def test_rows_are_ordered_by_size_and_need_a_differential() -> None:
    """GIVEN kinds of any order, THEN the largest comes first, and one without a differential is left out."""
    document = {
        "differential": {
            "norm": {"energy_mj": 1.0, "low": 0.9, "high": 1.1, "replayed_mj": 1.0, "ratio": 1.0},
            "mlp": {"energy_mj": 9.0, "low": 8.9, "high": 9.1, "replayed_mj": None, "ratio": None},
            "rotary": {"energy_mj": None},
        }
    }
    rows = replay_rows(document)
    assert [(row.kind, row.verdict) for row in rows] == [("mlp", "unknown"), ("norm", "agrees")]


def test_sentences_count_and_name() -> None:
    """GIVEN kinds that agree, differ and are vague, THEN the first are counted and the others named."""
    narrow = Interval(10, 9.9, 10.1)
    rows = [
        ReplayRow("mlp", 10.0, narrow, Interval(1.0, 0.99, 1.01)),
        ReplayRow("norm", 8.0, narrow, Interval(0.8, 0.78, 0.82)),
        ReplayRow("rotary", 12.0, narrow, Interval(1.2, 0.9, 1.5)),
        ReplayRow("embedding", 1.0, Interval(1, -1, 3), Interval(1.0, -1.0, 3.0)),
    ]
    first, second = replay_sentences(rows)
    assert first.startswith("Replay agrees with the model within 5.0 % for 1 of 2 kinds")
    assert first.endswith("; norm is cheaper in replay (ratio 0.80 [0.78, 0.82]).")
    assert second == "Whether it does cannot be told of rotary: the interval of the ratio includes 1."


def test_what_cannot_be_told_is_no_count() -> None:
    """GIVEN only a kind whose interval includes 1, or only kinds that differ, THEN nothing is counted as 0."""
    narrow = Interval(10, 9.9, 10.1)
    vague = ReplayRow("layer", 12.0, narrow, Interval(1.2, 0.9, 1.5))
    assert replay_sentences([vague]) == [
        "Whether replay agrees with the model cannot be told of layer: the interval of the ratio includes 1."
    ]
    (said,) = replay_sentences([ReplayRow("norm", 8.0, narrow, Interval(0.8, 0.78, 0.82))])
    assert said.startswith(
        "Replay agrees with the model within 5.0 % for none of the kinds that can be judged; norm"
    )


def test_nothing_is_claimed_without_a_judgement() -> None:
    """GIVEN no differential at all, THEN nothing is said; GIVEN none that can be judged, THEN that is said."""
    assert replay_sentences([]) == []
    (said,) = replay_sentences([ReplayRow("mlp", 1.0, Interval(1.0), None)])
    assert said.startswith("No kind's differential energy is known well enough")
    assert ratio_text(None) == "not measured"
    assert ratio_text(Interval(1.0)) == "1.00"

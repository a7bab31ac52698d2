from __future__ import annotations

import pytest

from energyscope.reporting.data.faithful import ReplayRow, ratio_text, replay_rows, replay_sentences
from energyscope.runs.intervals import Interval


@pytest.mark.parametrize(
    ("differential", "ratio", "verdict"),
    [
        (Interval(10, 9.5, 10.5), Interval(1.04, 1.01, 1.07), "agrees"),
        (Interval(10, 9.5, 10.5), Interval(1.03, 1.02, 1.04), "agrees"),
        (Interval(10, 9.0, 11.0), Interval(0.96, 0.86, 1.06), "agrees"),
        (Interval(10, 0.6, 19.4), Interval(0.96, 0.05, 1.88), "cannot be told"),
        (Interval(10, 8.0, 12.0), Interval(0.99, 0.84, 1.14), "cannot be told"),
        (Interval(10, 8, 12), Interval(1.0), "cannot be told"),
        (Interval(10, 8, 12), Interval(1.2, 0.9, 1.5), "cannot be told"),
        (Interval(10, 9.9, 10.1), Interval(1.2, 1.1, 1.3), "dearer in replay"),
        (Interval(10, 9.9, 10.1), Interval(0.8, 0.7, 0.9), "cheaper in replay"),
        (Interval(1, -1, 3), Interval(1.0, -1.0, 3.0), "too small to tell"),
        (Interval(-1), Interval(-2.0), "too small to tell"),
        (Interval(10), None, "unknown"),
    ],
)
def test_verdicts(differential: Interval, ratio: Interval | None, verdict: str) -> None:
    """A ratio within 5 % agrees if its interval is near 1; else one that excludes 1 differs, no other is told."""
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
    assert [(row.kind, row.verdict) for row in rows] == [("mlp", "unknown"), ("norm", "cannot be told")]


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
    assert second == "Whether it does cannot be told of rotary: the interval of the ratio is too wide."


def test_what_cannot_be_told_is_no_count() -> None:
    """GIVEN only a kind whose interval is too wide, or only kinds that differ, THEN nothing is counted as 0."""
    narrow = Interval(10, 9.9, 10.1)
    vague = ReplayRow("layer", 12.0, narrow, Interval(1.2, 0.9, 1.5))
    assert replay_sentences([vague]) == [
        "Whether replay agrees with the model cannot be told of layer: the interval of the ratio is too wide."
    ]
    (said,) = replay_sentences([ReplayRow("norm", 8.0, narrow, Interval(0.8, 0.78, 0.82))])
    assert said.startswith(
        "Replay agrees with the model within 5.0 % for none of the kinds that can be judged; norm"
    )


def test_a_wide_interval_around_one_is_no_agreement() -> None:
    """GIVEN ratios near 1 of which one is known to 90 % and one not at all, THEN neither counts as agreeing."""
    narrow = Interval(10, 9.9, 10.1)
    rows = [
        ReplayRow("mlp", 10.0, narrow, Interval(1.0, 0.99, 1.01)),
        ReplayRow("attention.key", 9.6, Interval(10, 0.6, 19.4), Interval(0.96, 0.05, 1.88)),
    ]
    assert replay_sentences(rows) == [
        "Replay agrees with the model within 5.0 % for 1 of 1 kind that can be judged.",
        "Whether it does cannot be told of attention.key: the interval of the ratio is too wide.",
    ]
    (said,) = replay_sentences([ReplayRow("mlp", 10.0, narrow, Interval(1.0))])
    assert said.endswith("of mlp: the interval of the ratio is too wide, or not known.")


def test_nothing_is_claimed_without_a_judgement() -> None:
    """GIVEN no differential at all, THEN nothing is said; GIVEN none that can be judged, THEN that is said."""
    assert replay_sentences([]) == []
    (said,) = replay_sentences([ReplayRow("mlp", 1.0, Interval(1.0), None)])
    assert said.startswith("No kind's differential energy is known well enough")
    assert ratio_text(None) == "not measured"
    assert ratio_text(Interval(1.0)) == "1.00"
    assert ratio_text(Interval(0.98, 0.95, 1.01)) == "0.98 [0.95, 1.01]"
    assert ratio_text(Interval(-4.78, -1920.09, 910.52)) == "-5 [-1,920, 911]"

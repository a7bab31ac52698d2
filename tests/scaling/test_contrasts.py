"""One subject and shape under two precisions or executions."""

from __future__ import annotations

import pytest
from planted_observations import observation, swept
from simulated_board import KINDS

from energyscope.runs.method import REVISION
from energyscope.scaling.contrasts import contrasts


def test_it_is_the_planted_factor() -> None:
    """GIVEN FP16 at 0.6 of the joules of FP32 THEN each subject and shape says 0.6, with an interval around it."""
    entries = contrasts([*swept(precision="fp32"), *swept(precision="fp16", scale=0.6)])
    values = [entry["ratio"] for entry in entries if entry["subject"] != "glue"]
    assert len(values) == 8 * (1 + len(KINDS))
    for ratio in values:
        assert ratio["value"] == pytest.approx(0.6)
        assert ratio["low"] < 0.6 < ratio["high"]
    assert {(entry["field"], entry["first"], entry["second"]) for entry in entries} == {
        ("precision", "fp16", "fp32")
    }


def test_the_whole_comes_first_and_what_is_unexplained_is_none() -> None:
    """Subjects are the whole, the parts and overhead; a ratio of what is left over would mean nothing."""
    entries = contrasts(
        [observation(1, 32, execution="cuda-graph", scale=0.5), observation(1, 32, execution="eager")]
    )
    assert entries[0]["subject"] == "model"
    assert {entry["subject"] for entry in entries} == {"model", "glue", *KINDS}
    assert (entries[0]["first"], entries[0]["second"], entries[0]["precision"]) == ("cuda-graph", "eager", "bf16")


@pytest.mark.parametrize(
    "other",
    [
        {"board": "GPU-2"},
        {"meter": "modelled"},
        {"weights": "pretrained"},
        {"execution": "cuda-graph"},
        {"kv_cache": "static"},
    ],
)
def test_nothing_else_may_differ(other: dict[str, str]) -> None:
    """GIVEN another board, meter, execution, cache or other weights beside another precision THEN no contrast."""
    assert contrasts([observation(1, 32, precision="fp32"), observation(1, 32, precision="fp16", **other)]) == []


def test_a_shape_measured_twice_counts_with_its_mean() -> None:
    """GIVEN FP16 measured at 0.5 and at 0.7 of FP32 THEN the contrast is 0.6, once."""
    entries = contrasts(
        [
            observation(1, 32, precision="fp16", scale=0.5),
            observation(1, 32, precision="fp32"),
            observation(1, 32, precision="fp16", scale=0.7),
        ]
    )
    (whole,) = [entry for entry in entries if entry["subject"] == "model"]
    assert whole["ratio"]["value"] == pytest.approx(0.6)


def test_three_settings_are_three_contrasts() -> None:
    """Each pair of precisions is compared, the narrower one first."""
    entries = contrasts([observation(1, 32, precision=precision) for precision in ("fp32", "nf4", "bf16")])
    pairs = [(entry["first"], entry["second"]) for entry in entries if entry["subject"] == "model"]
    assert pairs == [("nf4", "bf16"), ("nf4", "fp32"), ("bf16", "fp32")]


def test_of_two_methods_the_newer_counts() -> None:
    """GIVEN graphs by two methods, at 0.9 and 0.5 of eager joules, THEN the contrast is the newer one's, 0.5."""
    eager, graph = observation(1, 32), {"execution": "cuda-graph"}
    entries = contrasts(
        [observation(1, 32, **graph, scale=0.9, method=0), eager, observation(1, 32, **graph, scale=0.5)]
    )
    assert [entry["ratio"]["value"] for entry in entries if entry["subject"] == "model"] == [pytest.approx(0.5)]


def test_precisions_by_two_methods_have_no_contrast() -> None:
    """GIVEN FP16 and FP32 by different methods only THEN there is none: the method would be part of it."""
    assert contrasts([observation(1, 32, precision="fp32", method=0), observation(1, 32, precision="fp16")]) == []


def test_a_side_of_an_older_method_is_named() -> None:
    """GIVEN graphs of method 0 over eager of method 1 THEN the graphs' side says what was mended, eager none."""
    eager = observation(1, 32)
    for method, lacking in ((0, "graph-masks"), (REVISION, None)):
        entries = contrasts([observation(1, 32, execution="cuda-graph", method=method), eager])
        assert {entry["lacking"]["first"] for entry in entries} == {lacking}
        assert {entry["lacking"]["second"] for entry in entries} == {None}


def test_both_sides_may_be_of_an_older_method() -> None:
    """GIVEN two precisions in graphs of method 0 THEN both sides say what was mended."""
    graph = {"execution": "cuda-graph", "method": 0}
    entries = contrasts([observation(1, 32, precision=precision, **graph) for precision in ("fp16", "fp32")])
    assert {entry["lacking"][side] for entry in entries for side in ("first", "second")} == {"graph-masks"}

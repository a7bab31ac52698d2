from __future__ import annotations

from functools import partial

import pytest
from simulated_board import KINDS, SIZES, Board, sweep, work

from energyscope.runs.intervals import Interval
from energyscope.scaling.prediction import NoLaw, Prediction
from energyscope.scaling.roofline import roofline
from energyscope.scaling.two_term import two_term
from energyscope.scaling.whole import predict_whole, summed

FIT = partial(roofline, form="sum", call_energy=False)


def test_both_ways_foretell_the_whole() -> None:
    """GIVEN laws of parts and of the whole THEN both predictions are given and meet the board's energy."""
    laws = {kind: FIT(sweep(Board(), kind, seed=index)) for index, kind in enumerate(KINDS)}
    works = {kind: work(kind, SIZES[0], 2, 200) for kind in KINDS}
    own, whole = FIT(sweep(Board(), "model", seed=9)), work("model", SIZES[0], 2, 200)
    found = predict_whole(laws, works, own, whole)
    assert found.missing == {}
    for told in (found.summed, found.own):
        assert told is not None
        assert told.subject == "model"
        assert told.energy_mj.value == pytest.approx(Board().energy_mj(whole), rel=0.03)
        assert told.energy_mj.known


def test_a_part_without_a_law_leaves_no_sum() -> None:
    """GIVEN norms without a two-term law, or work that is not known, THEN no sum, and why."""
    laws = {kind: two_term(sweep(Board(), kind, seed=1)) for kind in ("mlp", "norm", "attention")}
    works = {kind: work(kind, SIZES[0], 1, 64) for kind in ("mlp", "norm")}
    own = NoLaw("model", "1 cell")
    found = predict_whole(laws, works, own, work("model", SIZES[0], 1, 64))
    assert (found.summed, found.own) == (None, None)
    assert set(found.parts) == {"mlp"}
    assert "no FLOPs" in found.missing["norm"]
    assert (found.missing["attention"], found.missing["model"]) == ("its work is not known", "1 cell")


def test_a_sum_has_joined_limits_and_says_which_part_extrapolates() -> None:
    """GIVEN half-widths 3 and 4 THEN that of the sum is 5, without a time where a part has none."""
    one = Prediction("a", "x", Interval(10, 7, 13), Interval(1, 1, 1), False)
    other = Prediction("b", "x", Interval(20, 16, 24), None, True, "too long")
    found = summed([one, other], "model")
    assert found.energy_mj == Interval(30, pytest.approx(25), pytest.approx(35))
    assert (found.time_us, found.extrapolated, found.why) == (None, True, "b: too long")

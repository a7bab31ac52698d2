"""Predictions as plain data, and E0 and k of a model that was not measured."""

from __future__ import annotations

import pytest
from simulated_board import LENGTHS, SIZES, Board, fitted, over, sweep, work

from energyscope.intervals import Interval
from energyscope.reasons import reason
from energyscope.scaling.cells import UNEXPLAINED, Cell
from energyscope.scaling.law import Law, Prediction
from energyscope.scaling.law_choice import choose
from energyscope.scaling.prediction_rows import not_predicted, prediction_row, terms_of


def over_models(kind: str, *, without: str) -> Law:
    return fitted("per-call", over(Board(), kind, without=without), mixed=["model"])


@pytest.mark.parametrize("kind", ["attention", "mlp"])
@pytest.mark.parametrize("name", ["1b", "3b"])
def test_e0_and_k_follow_from_the_architecture(kind: str, name: str) -> None:
    """GIVEN other sizes' cells THEN E0 and k of one that was left out are within 10 % of those measured on it."""
    size = next(item for item in SIZES if item.name == name)
    own = fitted("two-term", sweep(Board(), kind, size, batches=(1,), seed=7)).coefficients
    terms = terms_of(over_models(kind, without=name), [work(kind, size, 1, tokens) for tokens in LENGTHS])
    for term in ("fixed_mj", "marginal_pj_per_flop"):
        assert terms[term].value == pytest.approx(own[term].value, rel=0.10)
        assert terms[term].known


def test_no_e0_and_k_where_nothing_tells_them() -> None:
    """GIVEN one length, or a law that says no energy at all, THEN there are no terms, rather than wrong ones."""
    assert terms_of(over_models("mlp", without="3b"), [work("mlp", SIZES[0], 1, 64)]) == {}
    below = [
        Cell(**{**item.__dict__, "energy_mj": -5.0, "energy_low_mj": None, "energy_high_mj": None})
        for item in sweep(Board(), "mlp")
    ]
    nothing = fitted("per-call", below)
    assert set(nothing.fit.coefficients) == {0.0}
    assert terms_of(nothing, [work("mlp", SIZES[0], 1, tokens) for tokens in LENGTHS]) == {}


def test_a_negative_energy_is_told_of_what_is_unexplained_alone() -> None:
    """GIVEN an energy below 0 THEN nothing is predicted, with the reason; a difference may be negative."""
    below = Interval(-1.0, -2.0, 0.0)
    assert not_predicted(Prediction("mlp", "two-term", below)) == reason("negative-energy")
    assert not_predicted(Prediction(UNEXPLAINED, "two-term", below)) is None


def test_a_lower_limit_below_0_is_none() -> None:
    """GIVEN energies of which noise is nearly all THEN the prediction has no lower limit, and says so."""
    cells = sweep(Board(), "mlp", lengths=(32, 64, 128), batches=(1,), noise=0.5, seed=5)
    row = prediction_row(choose(cells, "length"), work("mlp", SIZES[0], 1, 16), None)
    assert row["energy_mj"]["low"] is None
    assert reason("no-lower-limit", quantity="energy") in row["flags"]

"""Which law is taken: what the left-out cells favour, a constant for the same work, and none from nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from simulated_board import SIZES, Board, cell, sweep, work

from energyscope.scaling.ceilings import rates_by_pass
from energyscope.scaling.cell import Shape
from energyscope.scaling.choosing import Chosen, choose, errors_beside, fits, remembering, way_of
from energyscope.scaling.constant import Constant
from energyscope.scaling.from_runs import GLUE
from energyscope.scaling.prediction import NoLaw
from energyscope.scaling.two_term import two_term

BOARD = Board(form="floor")


@pytest.mark.parametrize("kind", ["mlp", "attention", "norm", "lm_head", "model"])
def test_the_chosen_law_foretells_what_was_left_out(kind):
    """GIVEN a board with a floor THEN the law that is taken foretells its cells within a few percent."""
    found = choose(sweep(BOARD, kind, seed=3), "length")
    assert isinstance(found, Chosen)
    assert found.held_out.within.median < 0.05
    assert found.cells == 12


def test_the_better_law_wins():
    """GIVEN cells of which the largest doubles its energy by FLOPs alone THEN the chosen error is no larger."""
    cells = sweep(BOARD, "mlp", seed=5)
    chosen = choose(cells, "length")
    line = choose([replace(one, static_mj=None) for one in cells], "length")
    assert chosen.held_out.within.median <= line.held_out.within.median


def test_without_static_power_no_roofline():
    """GIVEN modelled cells THEN only laws without static power are tried."""
    assert set(fits([replace(one, static_mj=None) for one in sweep(BOARD, "mlp")])) == {"two-term"}
    assert set(fits([replace(one, static_mj=None) for one in sweep(BOARD, "norm")])) == {"two-term-in-bytes"}
    assert set(fits(sweep(BOARD, "mlp"), pooled=True)) == {"per-call", "two-term", "roofline-floor"}


def test_of_several_models_no_law_of_one_e0():
    """GIVEN two models THEN a law in which calls count is taken; a law of one E0 only where there is no other."""
    cells = [
        one for size in SIZES[:2] for one in sweep(BOARD, "mlp", size, lengths=(32, 64), batches=(1,), seed=1)
    ]
    assert choose(cells, "model", pooled=True).law.name in {"per-call", "roofline-floor"}
    few = [replace(one, static_mj=None) for one in (cells[0], cells[1], cells[-1])]
    assert choose(few, "model", pooled=True).law.name == "two-term"


def test_rates_of_the_passes_add_a_law():
    """GIVEN the board's rates THEN a component may follow them; the whole, which is many components, may not."""
    cells = [one for size in SIZES[:2] for one in sweep(BOARD, "mlp", size)]
    assert "roofline-board-rates" in fits(cells, pooled=True, rates=rates_by_pass(cells))
    assert "board's rates" not in fits(cells, rates=rates_by_pass(cells))
    whole = [replace(one, subject="model") for one in cells]
    assert "board's rates" not in fits(whole, pooled=True, rates=rates_by_pass(cells))


def test_glue_has_no_roofline_and_no_time():
    """What has no work of its own follows the whole's FLOPs, and no time is said."""
    cells = [replace(one, subject=GLUE) for one in sweep(BOARD, "model")]
    found = choose(cells, "length")
    assert found.law.name == "two-term"
    assert found.predict(cells[0]).time_us is None


def test_time_follows_the_law_of_energy():
    """GIVEN joules that are time x watts THEN the predicted time is the predicted joules over the watts."""
    cells = [replace(one, energy_mj=one.time_us * 0.065, static_mj=None) for one in sweep(BOARD, "mlp", seed=2)]
    cells = [replace(one, energy_low_mj=None, energy_high_mj=None) for one in cells]
    said = choose(cells, "length").predict(work("mlp", SIZES[0], 2, 100))
    assert math.isclose(said.time_us.value * 0.065, said.energy_mj.value, rel_tol=1e-9)


def test_the_interval_covers_what_left_out_cells_were_off():
    """The half-width is at least the largest error of few left-out cells."""
    cells = sweep(BOARD, "attention", batches=(1,), seed=4)
    found = choose(cells, "length")
    said = found.predict(work("attention", SIZES[0], 1, 100)).energy_mj
    worst = found.held_out.within.largest
    assert (said.high - said.value) / said.value >= worst * (1 - 1e-9)


def test_nothing_from_nothing():
    """No cell, and one cell, give no law."""
    assert isinstance(choose([], "cell"), NoLaw)
    assert isinstance(choose(sweep(BOARD, "mlp")[:1], "cell"), NoLaw)


def test_errors_are_of_the_same_side():
    """An extrapolated prediction shows extrapolated errors; where there are none of its side, all."""
    found = choose(sweep(BOARD, "mlp", batches=(1,), seed=1), "length")
    inside = found.predict(work("mlp", SIZES[0], 1, 100))
    outside = found.predict(work("mlp", SIZES[0], 1, 9000))
    assert errors_beside(found.held_out, inside)[1] == "inside"
    assert errors_beside(found.held_out, outside)[1] == "outside"
    few = choose(sweep(BOARD, "mlp", batches=(1,), lengths=(32, 64), seed=1), "length")
    assert errors_beside(few.held_out, inside) == (few.held_out.within, "all")


def test_lengths_are_left_out_before_batches():
    """By model for a new model, by length where there are three, then by batch, else cell by cell."""
    cells = sweep(BOARD, "mlp")
    both = [*cells, *sweep(BOARD, "mlp", SIZES[1])]
    assert way_of(both, new_model=True) == "model"
    assert way_of(both, new_model=False) == "length"
    assert way_of(sweep(BOARD, "mlp", lengths=(32,), batches=(1, 2, 4)), new_model=False) == "batch"
    assert way_of(cells[:2], new_model=True) == "cell"


def test_a_fit_is_made_once():
    """GIVEN the same cells again THEN the law is remembered."""
    calls = []
    fit = remembering(lambda cells: calls.append(1) or two_term(cells))
    cells = sweep(BOARD, "mlp")
    assert fit(cells) is fit(list(cells))
    assert len(calls) == 1


def test_the_same_work_is_a_constant():
    """GIVEN a head that sees one token at any length THEN its energy is the mean, and said of that work alone."""
    cells = [replace(one, tokens=100 * index) for index, one in enumerate(_repeated(), 1)]
    found = choose(cells, "length", cells[0])
    assert isinstance(found.law, Constant)
    mean = sum(one.energy_mj for one in cells) / len(cells)
    assert math.isclose(found.predict(cells[0]).energy_mj.value, mean, rel_tol=0.001)
    assert not found.predict(cells[0]).extrapolated
    other = Shape(4, 100, cells[0].flops * 4, cells[0].bytes * 2)
    assert isinstance(choose(cells, "length", other), NoLaw)
    assert found.law.predict(other).extrapolated


def _repeated():
    shape = work("lm_head", SIZES[0], 1, 32)
    return [replace(cell(BOARD, "lm_head", SIZES[0], shape), energy_mj=energy) for energy in (50.0, 51.0, 49.0)]

"""Which law is taken: what the left-out cells favour, a constant for the same work, and none from nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from simulated_board import SIZES, Board, cell, straight, sweep, work

from energyscope.scaling.cells import OVERHEAD, Shape
from energyscope.scaling.fit import fitter
from energyscope.scaling.held_out import errors_beside, errors_of
from energyscope.scaling.law import NoLaw
from energyscope.scaling.law_choice import (
    ChosenLaw,
    candidates,
    choose,
    evaluate,
    leave_out_by,
    leave_out_ways,
    remembering,
)
from energyscope.scaling.time_law import rates_by_pass

BOARD = Board(form="floor")


def inside(chosen):
    """Return the errors of left-out cells inside the range of the others."""
    return errors_of(chosen.held_out.side(extrapolated=False))


@pytest.mark.parametrize("kind", ["mlp", "attention", "norm", "lm_head", "model"])
def test_the_chosen_law_predicts_what_was_left_out(kind):
    """GIVEN a board with a floor THEN the law that is taken predicts its cells within a few percent."""
    chosen = choose(sweep(BOARD, kind, seed=3), "length")
    assert isinstance(chosen, ChosenLaw)
    assert inside(chosen).median < 0.05
    assert chosen.law.cells == 12


def test_the_better_law_wins():
    """GIVEN cells of which the largest doubles its energy by FLOPs alone THEN the chosen error is no larger."""
    cells = sweep(BOARD, "mlp", seed=5)
    chosen = choose(cells, "length")
    line = choose([replace(item, static_mj=None) for item in cells], "length")
    assert inside(chosen).median <= inside(line).median


def test_without_static_power_no_roofline():
    """GIVEN modelled cells THEN only laws without static power are tried."""
    assert set(candidates([replace(item, static_mj=None) for item in sweep(BOARD, "mlp")])) == {"two-term"}
    assert set(candidates([replace(item, static_mj=None) for item in sweep(BOARD, "norm")])) == {
        "two-term-in-bytes"
    }
    assert set(candidates(sweep(BOARD, "mlp"), pooled=True)) == {"per-call", "two-term", "roofline-floor"}


def test_of_several_models_no_law_of_one_e0():
    """GIVEN two models THEN a law in which calls count is taken; a law of one E0 only where there is no other."""
    cells = [
        item for size in SIZES[:2] for item in sweep(BOARD, "mlp", size, lengths=(32, 64), batches=(1,), seed=1)
    ]
    assert choose(cells, "model", pooled=True).law.name in {"per-call", "roofline-floor"}
    few = [replace(item, static_mj=None) for item in (cells[0], cells[1], cells[-1])]
    assert choose(few, "model", pooled=True).law.name == "two-term"


def test_rates_of_the_passes_add_a_law():
    """GIVEN the board's rates THEN a component may follow them; the whole, which is many components, may not."""
    cells = [item for size in SIZES[:2] for item in sweep(BOARD, "mlp", size)]
    assert "roofline-board-rates" in candidates(cells, pooled=True, rates=rates_by_pass(cells))
    assert "roofline-board-rates" not in candidates(cells, rates=rates_by_pass(cells))
    whole = [replace(item, subject="model") for item in cells]
    assert "roofline-board-rates" not in candidates(whole, pooled=True, rates=rates_by_pass(cells))


def test_overhead_has_no_roofline_and_no_time():
    """What has no work of its own follows the whole's FLOPs, and no time is said."""
    cells = [replace(item, subject=OVERHEAD) for item in sweep(BOARD, "model")]
    chosen = choose(cells, "length")
    assert chosen.law.name == "two-term"
    assert chosen.predict(cells[0]).time_us is None


def test_time_follows_the_law_of_energy():
    """GIVEN joules that are time x watts THEN the predicted time is the predicted joules over the watts."""
    cells = [replace(item, energy_mj=item.time_us * 0.065, static_mj=None) for item in sweep(BOARD, "mlp", seed=2)]
    cells = [replace(item, energy_low_mj=None, energy_high_mj=None) for item in cells]
    prediction = choose(cells, "length").predict(work("mlp", SIZES[0], 2, 100))
    assert math.isclose(prediction.time_us.value * 0.065, prediction.energy_mj.value, rel_tol=1e-9)


def test_the_interval_covers_what_left_out_cells_were_off():
    """The half-width is at least the largest error of few left-out cells."""
    cells = sweep(BOARD, "attention", batches=(1,), seed=4)
    chosen = choose(cells, "length")
    prediction = chosen.predict(work("attention", SIZES[0], 1, 100)).energy_mj
    worst = inside(chosen).largest
    assert (prediction.high - prediction.value) / prediction.value >= worst * (1 - 1e-9)


def test_nothing_from_nothing():
    """No cell, and one cell, give no law."""
    assert isinstance(choose([], "cell"), NoLaw)
    assert isinstance(choose(sweep(BOARD, "mlp")[:1], "cell"), NoLaw)


def test_errors_are_of_the_same_side():
    """An extrapolated prediction shows extrapolated errors; where there are none of its side, all."""
    chosen = choose(sweep(BOARD, "mlp", batches=(1,), seed=1), "length")
    within = chosen.predict(work("mlp", SIZES[0], 1, 100))
    outside = chosen.predict(work("mlp", SIZES[0], 1, 9000))
    assert errors_beside(chosen.held_out, within)[1] == "inside"
    assert errors_beside(chosen.held_out, outside)[1] == "outside"
    few = choose(sweep(BOARD, "mlp", batches=(1,), lengths=(32, 64), seed=1), "length")
    assert errors_beside(few.held_out, within) == (inside(few), "all")


def test_lengths_are_left_out_before_batches():
    """By model for a new model, by length where there are three, then by batch, else cell by cell."""
    cells = sweep(BOARD, "mlp")
    both = [*cells, *sweep(BOARD, "mlp", SIZES[1])]
    assert leave_out_by(both, new_model=True) == "model"
    assert leave_out_by(both, new_model=False) == "length"
    assert leave_out_by(sweep(BOARD, "mlp", lengths=(32,), batches=(1, 2, 4)), new_model=False) == "batch"
    assert leave_out_by(cells[:2], new_model=True) == "cell"


def test_a_fit_is_made_once():
    """GIVEN the same cells again THEN the law is remembered."""
    calls = []
    fit = remembering(lambda cells: calls.append(1) or fitter("two-term")(cells))
    cells = sweep(BOARD, "mlp")
    assert fit(cells) is fit(list(cells))
    assert len(calls) == 1


def test_the_same_work_is_a_constant():
    """GIVEN a head that sees one token at any length THEN its energy is the mean, and said of that work alone."""
    cells = [replace(item, tokens=100 * index) for index, item in enumerate(_repeated(), 1)]
    chosen = choose(cells, "length", cells[0])
    assert chosen.law.name == "constant"
    mean = sum(item.energy_mj for item in cells) / len(cells)
    assert math.isclose(chosen.predict(cells[0]).energy_mj.value, mean, rel_tol=0.001)
    assert not chosen.predict(cells[0]).extrapolated
    other = Shape(4, 100, cells[0].flops * 4, cells[0].bytes * 2)
    assert isinstance(choose(cells, "length", other), NoLaw)
    assert chosen.law.predict(other).extrapolated


def _repeated():
    shape = work("lm_head", SIZES[0], 1, 32)
    return [replace(cell(BOARD, "lm_head", SIZES[0], shape), energy_mj=energy) for energy in (50.0, 51.0, 49.0)]


@pytest.mark.parametrize(
    ("lengths", "batches", "ways"),
    [
        ((32, 64, 128), (1, 4), ["length", "batch"]),
        ((32, 64), (1, 4), ["length", "batch", "cell"]),
        ((32, 64, 128), (1,), ["length"]),
        ((32,), (1, 4, 16), ["batch"]),
        ((32,), (1,), []),
    ],
)
def test_ways_that_come_to_the_same_are_left_out(
    lengths: tuple[int, ...], batches: tuple[int, ...], ways: list[str]
) -> None:
    """With one batch, leaving out cells is leaving out lengths; a single shape leaves nothing out."""
    assert leave_out_ways(sweep(Board(), "mlp", lengths=lengths, batches=batches)) == ways


def test_every_law_is_evaluated_in_every_way() -> None:
    """Each fitted law has its left-out cells by length and by batch."""
    evaluated = evaluate(sweep(Board(), "mlp", seed=1))
    assert set(evaluated.laws) == {"two-term", "roofline-floor"}
    assert set(evaluated.held_out) == {(law, by) for law in evaluated.laws for by in ("length", "batch")}
    assert all(len(held_out.cells) == 12 for held_out in evaluated.held_out.values())


def test_the_better_law_has_the_least_error() -> None:
    """GIVEN a board where launches are a floor THEN the roofline is better; where times say nothing, two terms."""
    floor = evaluate(sweep(Board(form="floor", launch_us=30.0), "attention", noise=0.003, seed=2))
    errors = {law: errors_of(floor.held_out[law, "length"].cells).median or 0 for law in floor.laws}
    assert floor.best == min(errors, key=lambda law: errors[law]) == "roofline-floor"
    cells = straight(100.0, 1.3, [1e11 * 2**step for step in range(6)], noise=0.01)
    assert (
        evaluate([replace(item, time_us=50.0 + 37 * (item.tokens % 5), bytes=1e9) for item in cells]).best
        == "two-term"
    )


def test_laws_that_cannot_be_had_keep_their_reason() -> None:
    """GIVEN two cells THEN there are laws of them, and no best one, since nothing evaluates them."""
    evaluated = evaluate(sweep(Board(), "mlp", lengths=(32, 512), batches=(1,)))
    assert evaluated.best is None
    assert {by for _, by in evaluated.held_out} == {"length"}


def test_what_does_the_same_work_is_a_constant() -> None:
    """GIVEN cells without a difference in work THEN no slope is fitted to their noise."""
    cells = [replace(item, flops=1e12, bytes=1e9) for item in sweep(Board(), "mlp", batches=(1,), seed=3)]
    evaluated = evaluate(cells)
    assert set(evaluated.laws) == {"constant"}
    assert evaluated.best == "constant"


def test_the_error_of_a_chosen_law_is_told_of_cells_that_did_not_choose_it() -> None:
    """GIVEN cells of noise alone THEN the nested errors are, on the whole, above those of the law that won."""
    won, nested = [], []
    for seed in range(12):
        cells = sweep(Board(), "mlp", noise=0.15, seed=seed)
        evaluated = evaluate(cells)
        assert evaluated.best is not None
        won.append(errors_of(evaluated.held_out[evaluated.best, "length"].cells).median or 0)
        nested.append(errors_of(evaluated.nested["length"].cells).median or 0)
        assert {item.cell for item in evaluated.nested["length"].cells} == set(
            sweep(Board(), "mlp", noise=0.15, seed=seed)
        )
    assert sum(nested) > sum(won)

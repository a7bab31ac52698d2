"""All laws of a subject, fitted and judged by what was left out of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_board import Board, straight, sweep

from energyscope.scaling.heldout import errors_of
from energyscope.scaling.judged import judge, ways_of


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
    assert ways_of(sweep(Board(), "mlp", lengths=lengths, batches=batches)) == ways


def test_every_law_is_judged_in_every_way() -> None:
    """Each fitted law has its left-out cells by length and by batch."""
    found = judge(sweep(Board(), "mlp", seed=1))
    assert set(found.laws) == {"two-term", "roofline-floor"}
    assert set(found.held_out) == {(law, by) for law in found.laws for by in ("length", "batch")}
    assert all(len(held.cells) == 12 for held in found.held_out.values())


def test_the_better_law_has_the_least_error() -> None:
    """GIVEN a board where launches are a floor THEN the roofline is better; where times say nothing, two terms."""
    floor = judge(sweep(Board(form="floor", launch_us=30.0), "attention", noise=0.003, seed=2))
    errors = {law: errors_of(floor.held_out[law, "length"].cells).median or 0 for law in floor.laws}
    assert floor.best == min(errors, key=lambda law: errors[law]) == "roofline-floor"
    cells = straight(100.0, 1.3, [1e11 * 2**step for step in range(6)], noise=0.01)
    assert (
        judge([replace(one, time_us=50.0 + 37 * (one.tokens % 5), bytes=1e9) for one in cells]).best == "two-term"
    )


def test_laws_that_cannot_be_had_keep_their_reason() -> None:
    """GIVEN two cells THEN there are laws of them, and no best one, since nothing judges them."""
    found = judge(sweep(Board(), "mlp", lengths=(32, 512), batches=(1,)))
    assert found.best is None
    assert {by for _, by in found.held_out} == {"length"}


def test_what_does_the_same_work_is_a_constant() -> None:
    """GIVEN cells without a difference in work THEN no slope is fitted to their noise."""
    cells = [replace(one, flops=1e12, bytes=1e9) for one in sweep(Board(), "mlp", batches=(1,), seed=3)]
    found = judge(cells)
    assert set(found.laws) == {"constant"}
    assert found.best == "constant"


def test_the_error_of_a_chosen_law_is_told_of_cells_that_did_not_choose_it() -> None:
    """GIVEN cells of noise alone THEN the nested errors are, on the whole, above those of the law that won."""
    won, nested = [], []
    for seed in range(12):
        cells = sweep(Board(), "mlp", noise=0.15, seed=seed)
        found = judge(cells)
        assert found.best is not None
        won.append(errors_of(found.held_out[found.best, "length"].cells).median or 0)
        nested.append(errors_of(found.nested["length"].cells).median or 0)
        assert {one.cell for one in found.nested["length"].cells} == set(
            sweep(Board(), "mlp", noise=0.15, seed=seed)
        )
    assert sum(nested) > sum(won)

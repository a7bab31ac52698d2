from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_board import Board, fitted, sweep

from energyscope.errors import UsageError
from energyscope.scaling.boards import on_one_board


def test_a_costlier_board_is_modelled_by_its_factor() -> None:
    """GIVEN a board that takes 8 % more at shared shapes THEN the factor is found and one law fits all cells."""
    first = sweep(Board(), "attention", seed=1)
    costly = [
        replace(cell, board="GPU-2", energy_mj=1.08 * cell.energy_mj)
        for cell in sweep(Board(), "attention", seed=2)[::2]
    ]
    joined = on_one_board([*first, *costly])
    assert joined.reference == "GPU-1"
    assert not joined.factors["GPU-2"].excludes(1 / 1.08)
    assert joined.factors["GPU-2"].known
    assert fitted("two-term", joined.cells).cells == 18


def test_boards_without_a_common_shape_are_refused() -> None:
    """GIVEN boards that share no shape THEN no factor can be told from the law itself."""
    first, second = sweep(Board(), "mlp", lengths=(32, 64)), sweep(Board(name="GPU-2"), "mlp", lengths=(128,))
    with pytest.raises(UsageError, match="share no shape"):
        on_one_board([*first, *second])


def test_one_board_stays_as_it_is() -> None:
    """GIVEN one board THEN its cells are unchanged."""
    cells = sweep(Board(), "mlp", seed=1)
    assert on_one_board(cells).cells == tuple(cells)

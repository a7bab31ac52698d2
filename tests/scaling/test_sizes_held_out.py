"""Left-out models: foretold from the others alone, within what the project aims at on a simulated board."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import median

import pytest
from simulated_board import SIZES, Board, Size
from size_scenes import scenes

from energyscope.scaling.from_runs import WHOLE
from energyscope.scaling.sizes_held_out import sizes_held_out

BOARD = Board(form="floor", launch_us=60.0)  # eager: small models wait for launches
LARGE = Size("70b", 8192, 80, 28672)


def of_whole(found, model=None):
    return [one for one in found if one["subject"] == WHOLE and model in (None, one["left_out"])]


@pytest.mark.parametrize("board", [BOARD, Board(form="sum"), Board(form="floor", launch_us=2.0)])
def test_a_left_out_size_is_foretold(board):
    """GIVEN four sizes with 2 % of noise THEN they are foretold from the others within 15 % (median), by each law.

    1B, 3B and 8B are so one by one; the small one, of a tenth of the next, may be further off.
    """
    found = sizes_held_out(scenes(board, noise=0.02, seed=1))
    assert {one["left_out"] for one in found} == {size.name for size in SIZES}
    for by_parts in (True, False):
        told = [one for one in of_whole(found) if (one["law"] == "sum-over-parts") == by_parts]
        assert len(told) == len(SIZES)
        assert median(one["median"] for one in told) < 0.15
        assert all(one["median"] < 0.15 for one in told if one["left_out"] != "small")


@pytest.mark.parametrize("shapes", [[(1, 32)], [(1, 32), (1, 64), (1, 128)]])
def test_a_large_model_from_small_ones_that_wait_for_launches(shapes):
    """GIVEN 1B and 3B whose layers wait for launches THEN the rates that their heads show foretell 70B's layers.

    Without the ceilings, a law of small layers foretells large ones as if they waited for launches too.
    """
    found = sizes_held_out(scenes(BOARD, (*SIZES[:2], LARGE), shapes, noise=0.01))
    (total,) = [one for one in of_whole(found, "70b") if one["law"] == "sum-over-parts"]
    assert total["extrapolated"]
    assert total["median"] < 0.15


def test_the_left_out_model_is_not_used():
    """GIVEN other energies of the left-out model THEN what is foretold of it stays the same."""
    before = scenes(BOARD, noise=0.02)
    after = [_doubled(one) if one.model == "3b" else one for one in before]
    for one, other in zip(
        of_whole(sizes_held_out(before), "3b"), of_whole(sizes_held_out(after), "3b"), strict=True
    ):
        said = [error["relative"] + 1 for error in one["errors"]]
        assert [2 * (error["relative"] + 1) for error in other["errors"]] == pytest.approx(said)


def test_components_are_foretold_too():
    """Each component has its own entry, with an error for each cell; it is plain JSON."""
    found = sizes_held_out(scenes(BOARD, SIZES[:2], noise=0.01))
    (mlp,) = [one for one in found if one["subject"] == "mlp" and one["left_out"] == "1b"]
    assert mlp["cells"] == len(mlp["errors"]) == 6
    assert mlp["worst"] == max(abs(one["relative"]) for one in mlp["errors"])
    assert json.loads(json.dumps(found)) == found


def test_one_model_and_two_boards_leave_nothing_out():
    """A model is foretold from others of the same board only."""
    one, other = scenes(BOARD, SIZES[:1]), scenes(BOARD, SIZES[1:2])
    assert sizes_held_out(one) == []
    moved = [
        replace(each, cells={name: replace(cell, board="GPU-2") for name, cell in each.cells.items()})
        for each in other
    ]
    assert sizes_held_out([*one, *moved]) == []


def test_without_all_parts_no_sum():
    """GIVEN moments that lack a part THEN the whole is told by its own law alone."""
    found = sizes_held_out([replace(one, parts=()) for one in scenes(BOARD, SIZES[:3])])
    assert {one["law"] for one in of_whole(found)}.isdisjoint({"sum-over-parts"})
    assert of_whole(found)


def _doubled(scene):
    cells = {
        name: replace(
            cell,
            energy_mj=2 * cell.energy_mj,
            energy_low_mj=2 * cell.energy_low_mj,
            energy_high_mj=2 * cell.energy_high_mj,
        )
        for name, cell in scene.cells.items()
    }
    return replace(scene, cells=cells)

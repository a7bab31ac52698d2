"""Sizes compared per token, parameter and FLOP, with shares and an exponent; each predicted from the others."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from statistics import median

import pytest
from simulated_board import SIZES, Board, Size
from size_observations import observation, observations, with_energy

from energyscope.reasons import reason
from energyscope.scaling.cells import UNEXPLAINED, WHOLE, Entry, Observation
from energyscope.scaling.sizes import sizes, sizes_held_out

BOARD = Board()
FACTS = {
    "1b": {"parameters": 1_000_000_000, "layers": 16},
    "3b": {"parameters": 3_000_000_000, "layers": 28},
    "8b": {"parameters": 8_000_000_000, "layers": 32},
    "small": {"parameters": 124_000_000, "layers": 12},
}


def compared(observations: list[Observation], known: Collection[str] = FACTS) -> list[Entry]:
    """Compare sizes where the parameters of some models are known."""
    return sizes([replace(item, **FACTS[item.model]) if item.model in known else item for item in observations])


def test_rows_are_by_parameters():
    """GIVEN four models at one shape THEN one entry, its rows from small to large, with energies per each."""
    (entry,) = compared(observations(BOARD, shapes=[(4, 128)]))
    assert [row["model"] for row in entry["rows"]] == ["small", "1b", "3b", "8b"]
    row, cell = entry["rows"][1], observation(BOARD, SIZES[0], (4, 128)).cells[WHOLE]
    assert row["energy_per_token_mj"]["value"] == pytest.approx(cell.energy_mj / 512)
    assert row["pj_per_parameter_token"]["value"] == pytest.approx(cell.energy_mj * 1e9 / 512 / 1e9)
    assert row["pj_per_flop"]["value"] == pytest.approx(cell.energy_mj * 1e9 / cell.flops)
    assert row["power_w"] == pytest.approx(cell.energy_mj / cell.time_us * 1e3)
    assert (row["layers"], entry["batch_size"], entry["tokens"]) == (16, 4, 128)


def test_the_exponent_is_found():
    """GIVEN energies that grow as parameters to the power 0.8 THEN so says the exponent, with an interval."""
    base = observations(BOARD, shapes=[(1, 128)])
    entries = [with_energy(item, 1e-4 * FACTS[item.model]["parameters"] ** 0.8) for item in base]
    (entry,) = compared(entries)
    exponent = entry["exponent"]
    assert exponent["value"] == pytest.approx(0.8)
    assert exponent["low"] <= 0.8 <= exponent["high"]
    assert entry["reason"] is None


def test_two_models_have_no_exponent():
    """Two models make an entry without an exponent, one makes none; an unknown size is shown but not fitted."""
    (entry,) = compared(observations(BOARD, SIZES[:2], [(1, 128)]))
    assert (entry["exponent"], entry["reason"]) == (None, reason("few-sizes", sizes=2, needed=3))
    assert compared(observations(BOARD, SIZES[:1], [(1, 128)])) == []
    (entry,) = compared(observations(BOARD, SIZES[:3], [(1, 128)]), known=("3b", "8b"))
    assert entry["rows"][-1]["parameters"] is None
    assert entry["rows"][-1]["pj_per_parameter_token"] is None
    assert entry["exponent"] is None


def test_shares_add_up_to_one():
    """Overhead and what is unexplained are shares too; a negative one is shown."""
    (entry,) = compared(observations(BOARD, shapes=[(1, 128)]))
    for row in entry["rows"]:
        assert sum(item["value"] for item in row["shares"].values()) == pytest.approx(1.0)
        assert row["shares"][UNEXPLAINED]["low"] < row["shares"][UNEXPLAINED]["value"]
    smaller = [
        with_energy(item, item.cells[WHOLE].energy_mj * 0.9, half_width=0.01)
        for item in observations(BOARD, shapes=[(1, 128)])
    ]
    (entry,) = compared(smaller)
    assert all(row["shares"][UNEXPLAINED]["value"] < 0 for row in entry["rows"])
    assert all(
        sum(item["value"] for item in row["shares"].values()) == pytest.approx(1.0) for row in entry["rows"]
    )


def test_without_all_parts_no_shares():
    """An observation that lacks a part shows its energies alone."""
    entries = [replace(item, parts=()) for item in observations(BOARD, SIZES[:2], [(1, 128)])]
    (entry,) = compared(entries)
    assert [row["shares"] for row in entry["rows"]] == [{}, {}]


def test_only_what_is_alike_is_compared():
    """GIVEN two boards, shapes or caches THEN models are compared within each; it is plain JSON."""
    first, second = observations(BOARD, SIZES[:2], [(1, 128)])
    board = {subject: replace(cell, board="GPU-2") for subject, cell in second.cells.items()}
    for other in (replace(second, cells=board), replace(second, tokens=64), replace(second, kv_cache="dynamic")):
        assert compared([first, other]) == []
    entries = compared([first, second])
    assert json.loads(json.dumps(entries)) == entries


EAGER = Board(form="floor", launch_us=60.0)  # eager: small models wait for launches
LARGE = Size("70b", 8192, 80, 28672)


def of_whole(entries, model=None):
    return [item for item in entries if item["subject"] == WHOLE and model in (None, item["left_out"])]


@pytest.mark.parametrize("board", [EAGER, Board(form="sum"), Board(form="floor", launch_us=2.0)])
def test_a_left_out_size_is_predicted(board):
    """GIVEN four sizes with 2 % of noise THEN each is predicted from the others within 15 % (median), by each law.

    1B, 3B and 8B are so one by one; the small one, of a tenth of the next, may be further off.
    """
    entries = sizes_held_out(observations(board, noise=0.02, seed=1))
    assert {item["left_out"] for item in entries} == {size.name for size in SIZES}
    for by_parts in (True, False):
        wholes = [item for item in of_whole(entries) if (item["law"] == "sum-over-parts") == by_parts]
        assert len(wholes) == len(SIZES)
        assert median(item["median"] for item in wholes) < 0.15
        assert all(item["median"] < 0.15 for item in wholes if item["left_out"] != "small")


@pytest.mark.parametrize("shapes", [[(1, 32)], [(1, 32), (1, 64), (1, 128)]])
def test_a_large_model_from_small_ones_that_wait_for_launches(shapes):
    """GIVEN 1B and 3B whose layers wait for launches THEN the rates that their heads show predict 70B's layers.

    Without the ceilings, a law of small layers predicts large ones as if they waited for launches too.
    """
    entries = sizes_held_out(observations(EAGER, (*SIZES[:2], LARGE), shapes, noise=0.01))
    (total,) = [item for item in of_whole(entries, "70b") if item["law"] == "sum-over-parts"]
    assert total["extrapolated"]
    assert total["median"] < 0.15


def test_the_left_out_model_is_not_used():
    """GIVEN other energies of the left-out model THEN what is predicted of it stays the same."""
    before = observations(EAGER, noise=0.02)
    after = [_doubled(item) if item.model == "3b" else item for item in before]
    for item, other in zip(
        of_whole(sizes_held_out(before), "3b"), of_whole(sizes_held_out(after), "3b"), strict=True
    ):
        factors = [error["relative"] + 1 for error in item["errors"]]
        assert [2 * (error["relative"] + 1) for error in other["errors"]] == pytest.approx(factors)


def test_components_are_predicted_too():
    """Each component has its own entry, with an error for each cell; it is plain JSON."""
    entries = sizes_held_out(observations(EAGER, SIZES[:2], noise=0.01))
    (mlp,) = [item for item in entries if item["subject"] == "mlp" and item["left_out"] == "1b"]
    assert mlp["cells"] == len(mlp["errors"]) == 6
    assert mlp["worst"] == max(abs(item["relative"]) for item in mlp["errors"])
    assert json.loads(json.dumps(entries)) == entries


def test_one_model_and_two_boards_leave_nothing_out():
    """A model is predicted from others of the same board only."""
    item, other = observations(EAGER, SIZES[:1]), observations(EAGER, SIZES[1:2])
    assert sizes_held_out(item) == []
    moved = [
        replace(each, cells={name: replace(cell, board="GPU-2") for name, cell in each.cells.items()})
        for each in other
    ]
    assert sizes_held_out([*item, *moved]) == []


def test_without_all_parts_no_sum():
    """GIVEN observations that lack a part THEN the whole is told by its own law alone."""
    entries = sizes_held_out([replace(item, parts=()) for item in observations(EAGER, SIZES[:3])])
    assert {item["law"] for item in of_whole(entries)}.isdisjoint({"sum-over-parts"})
    assert of_whole(entries)


def _doubled(observation):
    cells = {
        name: replace(
            cell,
            energy_mj=2 * cell.energy_mj,
            energy_low_mj=2 * cell.energy_low_mj,
            energy_high_mj=2 * cell.energy_high_mj,
        )
        for name, cell in observation.cells.items()
    }
    return replace(observation, cells=cells)

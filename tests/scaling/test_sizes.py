"""Sizes compared: joules per token, parameter and FLOP, shares that are not renormalised, and their exponent."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from simulated_board import SIZES, Board
from size_scenes import scene, scenes, with_energy

from energyscope.reasons import reason
from energyscope.scaling.from_runs import UNEXPLAINED, WHOLE
from energyscope.scaling.sizes import sizes

BOARD = Board()
FACTS = {
    "1b": {"parameters": 1_000_000_000, "layers": 16},
    "3b": {"parameters": 3_000_000_000, "layers": 28},
    "8b": {"parameters": 8_000_000_000, "layers": 32},
    "small": {"parameters": 124_000_000, "layers": 12},
}


def test_rows_are_by_parameters():
    """GIVEN four models at one shape THEN one entry, its rows from small to large, with energies per each."""
    (entry,) = sizes(scenes(BOARD, shapes=[(4, 128)]), FACTS)
    assert [row["model"] for row in entry["rows"]] == ["small", "1b", "3b", "8b"]
    row, cell = entry["rows"][1], scene(BOARD, SIZES[0], (4, 128)).cells[WHOLE]
    assert row["energy_per_token_mj"]["value"] == pytest.approx(cell.energy_mj / 512)
    assert row["pj_per_parameter_token"]["value"] == pytest.approx(cell.energy_mj * 1e9 / 512 / 1e9)
    assert row["pj_per_flop"]["value"] == pytest.approx(cell.energy_mj * 1e9 / cell.flops)
    assert row["power_w"] == pytest.approx(cell.energy_mj / cell.time_us * 1e3)
    assert (row["layers"], entry["batch_size"], entry["tokens"]) == (16, 4, 128)


def test_the_exponent_is_found():
    """GIVEN energies that grow as parameters to the power 0.8 THEN so says the exponent, with an interval."""
    base = scenes(BOARD, shapes=[(1, 128)])
    found = [with_energy(one, 1e-4 * FACTS[one.model]["parameters"] ** 0.8) for one in base]
    (entry,) = sizes(found, FACTS)
    exponent = entry["exponent"]
    assert exponent["value"] == pytest.approx(0.8)
    assert exponent["low"] <= 0.8 <= exponent["high"]
    assert entry["reason"] is None


def test_two_models_have_no_exponent():
    """Two models make an entry without an exponent, one makes none; an unknown size is shown but not fitted."""
    (entry,) = sizes(scenes(BOARD, SIZES[:2], [(1, 128)]), FACTS)
    assert (entry["exponent"], entry["reason"]) == (None, reason("few-sizes", sizes=2, needed=3))
    assert sizes(scenes(BOARD, SIZES[:1], [(1, 128)]), FACTS) == []
    (entry,) = sizes(scenes(BOARD, SIZES[:3], [(1, 128)]), {"3b": FACTS["3b"], "8b": FACTS["8b"]})
    assert entry["rows"][-1]["parameters"] is None
    assert entry["rows"][-1]["pj_per_parameter_token"] is None
    assert entry["exponent"] is None


def test_shares_add_up_to_one():
    """Glue and what is unexplained are shares too; a negative one is shown."""
    (entry,) = sizes(scenes(BOARD, shapes=[(1, 128)]), FACTS)
    for row in entry["rows"]:
        assert sum(one["value"] for one in row["shares"].values()) == pytest.approx(1.0)
        assert row["shares"][UNEXPLAINED]["low"] < row["shares"][UNEXPLAINED]["value"]
    smaller = [
        with_energy(one, one.cells[WHOLE].energy_mj * 0.9, half_width=0.01)
        for one in scenes(BOARD, shapes=[(1, 128)])
    ]
    (entry,) = sizes(smaller, FACTS)
    assert all(row["shares"][UNEXPLAINED]["value"] < 0 for row in entry["rows"])
    assert all(sum(one["value"] for one in row["shares"].values()) == pytest.approx(1.0) for row in entry["rows"])


def test_without_all_parts_no_shares():
    """A moment that lacks a part shows its energies alone."""
    found = [replace(one, parts=()) for one in scenes(BOARD, SIZES[:2], [(1, 128)])]
    (entry,) = sizes(found, FACTS)
    assert [row["shares"] for row in entry["rows"]] == [{}, {}]


def test_only_what_is_alike_is_compared():
    """GIVEN two boards, shapes or caches THEN models are compared within each; it is plain JSON."""
    first, second = scenes(BOARD, SIZES[:2], [(1, 128)])
    board = {subject: replace(cell, board="GPU-2") for subject, cell in second.cells.items()}
    for other in (replace(second, cells=board), replace(second, tokens=64), replace(second, kv_cache="dynamic")):
        assert sizes([first, other], FACTS) == []
    found = sizes([first, second], FACTS)
    assert json.loads(json.dumps(found)) == found

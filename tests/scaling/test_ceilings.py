"""The board's best rates: found in any component of the same passes, and never exceeded by a foretold time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from simulated_board import SIZES, Board, Size, sweep, work

from energyscope.scaling.ceilings import Bounded, Ceilings, bounded, ceilings_of, rates_by_pass
from energyscope.scaling.cell import Shape
from energyscope.scaling.prediction import NoLaw
from energyscope.scaling.roofline import roofline

BOARD = Board(form="floor", launch_us=60.0)  # MLPs of 1B and 3B wait for launches, their heads do not
LARGE = Size("70b", 8192, 80, 28672)
SHORT = {"lengths": (32, 64), "batches": (1,)}


def small(kind):
    return [one for size in SIZES[:2] for one in sweep(BOARD, kind, size, **SHORT)]


def test_the_best_rate_is_found():
    """GIVEN heads that memory limits THEN the least time for a byte is the board's, though MLPs wait."""
    alone = ceilings_of(small("mlp"))
    beside = ceilings_of(small("mlp"), rates_by_pass(small("lm_head")))
    assert alone.us_per_byte > 1.1 / BOARD.gb_per_s / 1e3
    assert beside.us_per_byte == pytest.approx(1 / BOARD.gb_per_s / 1e3)


def test_other_passes_do_not_count():
    """GIVEN heads of another model THEN a fit without that model knows nothing of them."""
    others = [replace(one, model="3b") for one in small("lm_head")]
    ours = [one for one in small("mlp") if one.model == "1b"]
    assert ceilings_of(ours, rates_by_pass(others)) == ceilings_of(ours)


def test_large_layers_do_not_wait_for_launches():
    """GIVEN MLPs of 1B and 3B that wait for launches THEN 70B's are as slow as memory, with the heads' rate."""
    shape = work("mlp", LARGE, 1, 32)
    law = bounded(small("mlp"), rates=rates_by_pass(small("lm_head")), mixed=["model"])
    assert isinstance(law, Bounded)
    said = law.predict(shape)
    assert said.time_us.value == pytest.approx(BOARD.time_us(shape), rel=0.02)
    assert said.energy_mj.value > law.law.predict(shape).energy_mj.value


def test_within_its_cells_it_is_the_roofline():
    """No measured time lies below the ceilings, so that what was measured is foretold as before."""
    cells = sweep(BOARD, "mlp", seed=1)
    law, plain = bounded(cells), roofline(cells)
    assert law.name == plain.name
    assert (law.call_mj, law.pj_per_flop, law.pj_per_byte) == (plain.call_mj, plain.pj_per_flop, plain.pj_per_byte)
    for one in cells:
        assert law.predict(one).energy_mj.value == pytest.approx(plain.predict(one).energy_mj.value, rel=0.05)


def test_what_has_no_work_has_no_bound():
    """GIVEN no FLOPs or no cell of bytes THEN that rate bounds nothing, and no NaN comes out."""
    assert Ceilings(math.inf, 1.0).least_us(Shape(1, 1, 5.0, 3.0)) == 3.0
    assert Ceilings(math.inf, math.inf).least_us(Shape(1, 1, 5.0, 3.0)) == 0.0


def test_without_static_power_no_law():
    """The roofline's reason is passed on."""
    assert isinstance(bounded([replace(one, static_mj=None) for one in small("mlp")], mixed=["model"]), NoLaw)

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from simulated_board import SIZES, Board, sweep, work

from energyscope.reasons import reason
from energyscope.scaling.cell import Cell
from energyscope.scaling.prediction import NoLaw
from energyscope.scaling.regimes import Form
from energyscope.scaling.roofline import Roofline, roofline


def fitted(cells: list[Cell], form: Form = "sum", *, call_energy: bool = False) -> Roofline:
    law = roofline(cells, form, call_energy=call_energy)
    assert isinstance(law, Roofline)
    return law


def test_exact_cells_give_their_board() -> None:
    """GIVEN cells without noise THEN static power, J/FLOP and J/byte are the board's, and shapes are foretold."""
    law = fitted(sweep(Board(), "mlp"))
    assert law.pj_per_flop is not None
    assert law.pj_per_byte is not None
    assert law.static_w == pytest.approx(120)
    assert (law.pj_per_flop.value, law.pj_per_byte.value) == pytest.approx((0.6, 60))
    shape = work("mlp", SIZES[0], 2, 300)
    assert law.predict(shape).energy_mj.value == pytest.approx(Board().energy_mj(shape))
    assert law.flags == ()


@pytest.mark.parametrize(("form", "launch_us"), [("sum", 6.0), ("sum", 60.0), ("floor", 60.0)])
def test_intervals_cover_the_truth(form: Form, launch_us: float) -> None:
    """GIVEN 1 % of noise in 300 draws THEN J/FLOP, J/byte and new cells are inside of intervals in 90-99 %."""
    board, shape = Board(form=form, launch_us=launch_us), work("attention", SIZES[0], 2, 200)
    inside = []
    for seed in range(300):
        law = fitted(sweep(board, "attention", seed=seed), form)
        assert law.pj_per_flop is not None
        assert law.pj_per_byte is not None
        new = board.energy_mj(shape) * (1 + 0.01 * np.random.default_rng(30_000 + seed).standard_normal())
        told = ((law.pj_per_flop, 0.6), (law.pj_per_byte, 60), (law.predict(shape).energy_mj, new))
        inside.append([not one.excludes(true) for one, true in told])
    share = np.mean(inside, axis=0)
    assert np.all((share >= 0.90) & (share <= 0.99))


def test_an_active_bound_is_flagged() -> None:
    """GIVEN energies that fall with FLOPs beyond static power THEN J/FLOP is 0 without limits, and flagged."""
    cells = [replace(one, energy_mj=(one.static_mj or 0) + 1e-6 * one.bytes / one.flops**0.5 * 1e3)
             for one in sweep(Board(), "attention")]  # fmt: skip
    law = fitted(cells)
    assert law.pj_per_flop is not None
    assert (law.pj_per_flop.value, law.pj_per_flop.known) == (0, False)
    assert reason("term-held-at-zero", term="J/FLOP") in law.flags


def test_what_a_call_costs_is_found_over_models_and_said_to_be_untold_in_one() -> None:
    """GIVEN 1 mJ a call THEN it is found over models; in an MLP alone it cannot be told from weights and FLOPs."""
    dear = [
        [replace(one, energy_mj=one.energy_mj + one.calls) for one in sweep(Board(), "mlp", size)]
        for size in SIZES
    ]
    over = roofline([one for cells in dear for one in cells], "sum", mixed=("model",))
    assert isinstance(over, Roofline)
    assert over.call_mj is not None
    assert over.call_mj.value == pytest.approx(1)
    single = fitted(dear[0], call_energy=True)
    assert reason("term-not-separable", term="energy per call") in single.flags
    shape = work("mlp", SIZES[0], 2, 300)
    assert single.predict(shape).energy_mj.value == pytest.approx(Board().energy_mj(shape) + shape.calls)


def test_no_flops_leave_no_j_per_flop() -> None:
    """GIVEN norms THEN J/FLOP is None and not 0, no compute sets the time, and energy is foretold."""
    law = fitted(sweep(Board(), "norm", seed=1))
    assert law.pj_per_flop is None
    assert law.time.tflops is None
    assert reason("limit-not-seen", limit="compute") in law.flags
    shape = work("norm", SIZES[0], 2, 200)
    assert law.predict(shape).energy_mj.value == pytest.approx(Board().energy_mj(shape), rel=0.02)


def test_the_modelled_meter_has_no_such_law() -> None:
    """GIVEN cells without static energy, or one cell, THEN there is no law, with the reason."""
    cells = sweep(Board(), "mlp")
    law = roofline([replace(one, static_mj=None) for one in cells])
    assert isinstance(law, NoLaw)
    assert law.reason.code == "no-static-power"
    assert isinstance(roofline(cells[:1]), NoLaw)


def test_a_law_is_plain_data() -> None:
    """GIVEN a law THEN it goes into JSON as it is."""
    assert json.loads(json.dumps(asdict(fitted(sweep(Board(), "mlp", seed=1)))))["static_w"] == pytest.approx(120)

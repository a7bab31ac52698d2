from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_board import Board, straight, sweep

from energyscope.errors import UsageError
from energyscope.reasons import reason
from energyscope.scaling.cell import Cell, Shape
from energyscope.scaling.prediction import NoLaw
from energyscope.scaling.two_term import TwoTerm, two_term

FLOPS = [1e9 * 2**step for step in range(6)]


def fitted(cells: list[Cell]) -> TwoTerm:
    law = two_term(cells)
    assert isinstance(law, TwoTerm)
    return law


def test_exact_cells_give_e0_and_k() -> None:
    """GIVEN 40 mJ + 0.8 pJ/FLOP without noise THEN that is found, and all of the variance explained."""
    law = fitted(straight(40, 0.8, FLOPS))
    assert (law.fixed_mj.value, law.marginal_pj_per_flop.value) == pytest.approx((40, 0.8))
    assert law.r2 == pytest.approx(1)
    assert law.residuals == pytest.approx([0] * 6, abs=1e-9)
    assert law.flags == ()


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """GIVEN 1 % of noise in 300 draws THEN truth and new cells lie inside of 95 % intervals in 90-99 % of them."""
    inside = np.zeros((300, 3))
    wanted = Shape(1, 200, 7e9, 7e7)
    for seed in range(300):
        law = fitted(straight(5, 0.8, FLOPS, noise=0.01, seed=seed))
        new = (5 + 0.8 * 7) * (1 + 0.01 * np.random.default_rng(10_000 + seed).standard_normal())
        found = (law.fixed_mj, law.marginal_pj_per_flop, law.predict(wanted).energy_mj)
        inside[seed] = [not one.excludes(true) for one, true in zip(found, (5, 0.8, new), strict=True)]
    assert np.all((inside.mean(axis=0) >= 0.90) & (inside.mean(axis=0) <= 0.99))


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.permutations(range(6)))
def test_units_and_order_do_not_matter(energy: float, flops: float, order: list[int]) -> None:
    """GIVEN energies x c and FLOPs x d in another order THEN E0 x c and k x c / d, intervals and R2 alike."""
    cells = straight(5, 0.8, FLOPS, noise=0.02, seed=3)
    changed = [replace(cells[index], energy_mj=energy * cells[index].energy_mj,
                       energy_low_mj=energy * (cells[index].energy_low_mj or 0),
                       energy_high_mj=energy * (cells[index].energy_high_mj or 0),
                       flops=flops * cells[index].flops) for index in order]  # fmt: skip
    law, other = fitted(cells), fitted(changed)
    assert other.fixed_mj.low == pytest.approx(energy * (law.fixed_mj.low or 0))
    assert other.marginal_pj_per_flop.high == pytest.approx(energy / flops * (law.marginal_pj_per_flop.high or 0))
    assert other.r2 == pytest.approx(law.r2)
    assert other.residuals == pytest.approx([law.residuals[index] for index in order], abs=1e-9)


def test_one_cell_is_no_law_and_two_have_no_interval() -> None:
    """GIVEN one cell THEN no law, with the reason; GIVEN two THEN a line without intervals or R2."""
    cells = straight(5, 0.8, FLOPS)
    none = two_term(cells[:1])
    assert isinstance(none, NoLaw)
    assert none.reason == reason("few-cells", cells=1, needed=2)
    law = fitted(cells[:2])
    assert not law.fixed_mj.known
    assert (law.r2, law.predict(cells[2]).energy_mj.low) == (None, None)


@pytest.mark.parametrize("kind", ["norm", "lm_head"])
def test_without_different_flops_there_is_no_law(kind: str) -> None:
    """GIVEN norms, or a head that sees one token at each length, THEN the reason names their FLOPs."""
    law = two_term(sweep(Board(), kind, batches=(1,)))
    assert isinstance(law, NoLaw)
    assert (law.reason.code, law.reason.values["measure"]) == ("same-amount", "FLOPs")


def test_negative_terms_are_shown_and_flagged() -> None:
    """GIVEN an E0 or a k below 0 THEN it is shown as it is, with a flag that tells whether noise can be it."""
    fixed = fitted(straight(-0.5, 0.8, FLOPS))
    assert fixed.fixed_mj.value == pytest.approx(-0.5)
    assert fixed.flags == (reason("term-significantly-negative", term="E0"),)
    falling = fitted(straight(100, -0.8, FLOPS))
    assert falling.marginal_pj_per_flop.value == pytest.approx(-0.8)
    assert falling.flags[0].values == {"term": "k"}
    noisy = fitted(straight(-0.001, 0.8, FLOPS, noise=0.02, seed=3))
    assert noisy.fixed_mj.value > 0 or noisy.flags == (reason("term-negative-holds-zero", term="E0"),)


def test_boards_are_not_mixed_unless_asked_for() -> None:
    """GIVEN cells of two boards THEN they are refused, or fitted with a flag when asked for."""
    cells = straight(5, 0.8, FLOPS)
    cells[0] = replace(cells[0], board="GPU-2")
    with pytest.raises(UsageError, match="several boards"):
        two_term(cells)
    law = two_term(cells, mixed=("board",))
    assert isinstance(law, TwoTerm)
    assert law.flags == (reason("cells-mixed", field="board", names=["GPU-1", "GPU-2"]),)


def test_predictions_outside_of_the_data_say_so() -> None:
    """GIVEN cells up to 32 GFLOPs THEN 8 are inside, and 64 extrapolated by a factor of two."""
    law = fitted(straight(5, 0.8, FLOPS, noise=0.01))
    inside, outside = (law.predict(Shape(1, law.span.tokens[0], *work)) for work in ((8e9, 8e7), (64e9, 32e7)))
    assert (inside.extrapolated, inside.why) == (False, None)
    assert outside.extrapolated
    assert outside.why == reason("beyond-cells", measure="FLOPs", factor=2.0, end="most")


def test_a_law_is_plain_data() -> None:
    """GIVEN a law THEN it goes into JSON as it is."""
    assert json.loads(json.dumps(asdict(fitted(straight(5, 0.8, FLOPS)))))["subject"] == "mlp"

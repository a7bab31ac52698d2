"""Every law is found where it is planted, says how sure it is, and is refused where its cells do not tell it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_board import SIZES, Board, Size, cell, fitted, over, refused, straight, sweep, work

from energyscope.errors import UsageError
from energyscope.reasons import reason
from energyscope.scaling.cells import Cell, Shape
from energyscope.scaling.fit import same_work
from energyscope.scaling.law import FORMS, Law, LawName
from energyscope.scaling.time_law import rates_by_pass

FLOPS = [1e9 * 2**step for step in range(6)]
FLOOR = Board(form="floor")
MEMORY_BOUND = Board(tflops=1e9)  # energy is then a sum of a call, FLOPs and bytes, exactly
LAUNCHED = Board(form="floor", launch_us=45.0, pj_per_flop=0.0)  # layers of 1B wait for launches, heads do not
SHORT = {"lengths": (32, 64), "batches": (1,)}


def two_term(cells: list[Cell]) -> Law:
    return fitted("two-term", cells)


def k_of(law: Law):
    return law.coefficients["marginal_pj_per_flop"]


def repeated(*energies: float) -> list[Cell]:
    item = cell(FLOOR, "mlp", SIZES[0], work("mlp", SIZES[0], 1, 32))
    return [replace(item, energy_mj=energy, energy_low_mj=None, energy_high_mj=None) for energy in energies]


def at_board_rates(kind: str = "mlp", noise: float = 0.0, **options) -> Law:
    options = options or SHORT
    heads = over(LAUNCHED, "lm_head", SIZES[:2], noise=noise, **options)
    cells = over(LAUNCHED, kind, SIZES[:2], noise=noise, **options)
    return fitted("roofline-board-rates", cells, rates=rates_by_pass(heads), mixed=["model"])


# Two terms


def test_exact_cells_give_e0_and_k() -> None:
    """GIVEN 40 mJ + 0.8 pJ/FLOP without noise THEN that is found, and all of the variance explained."""
    law = two_term(straight(40, 0.8, FLOPS))
    assert (law.coefficients["fixed_mj"].value, k_of(law).value) == pytest.approx((40, 0.8))
    assert law.r2 == pytest.approx(1)
    assert law.residuals == pytest.approx([0] * 6, abs=1e-9)
    assert law.flags == ()


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """GIVEN 1 % of noise in 300 draws THEN truth and new cells lie inside of 95 % intervals in 90-99 % of them."""
    inside = np.zeros((300, 3))
    wanted = Shape(1, 200, 7e9, 7e7)
    for seed in range(300):
        law = two_term(straight(5, 0.8, FLOPS, noise=0.01, seed=seed))
        new = (5 + 0.8 * 7) * (1 + 0.01 * np.random.default_rng(10_000 + seed).standard_normal())
        intervals = (law.coefficients["fixed_mj"], k_of(law), law.predict(wanted).energy_mj)
        inside[seed] = [not item.excludes(true) for item, true in zip(intervals, (5, 0.8, new), strict=True)]
    assert np.all((inside.mean(axis=0) >= 0.90) & (inside.mean(axis=0) <= 0.99))


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.permutations(range(6)))
def test_units_and_order_do_not_matter(energy: float, flops: float, order: list[int]) -> None:
    """GIVEN energies x c and FLOPs x d in another order THEN E0 x c and k x c / d, intervals and R2 alike."""
    cells = straight(5, 0.8, FLOPS, noise=0.02, seed=3)
    changed = [replace(cells[index], energy_mj=energy * cells[index].energy_mj,
                       energy_low_mj=energy * (cells[index].energy_low_mj or 0),
                       energy_high_mj=energy * (cells[index].energy_high_mj or 0),
                       flops=flops * cells[index].flops) for index in order]  # fmt: skip
    law, other = two_term(cells), two_term(changed)
    assert other.coefficients["fixed_mj"].low == pytest.approx(energy * law.coefficients["fixed_mj"].low)
    assert k_of(other).high == pytest.approx(energy / flops * k_of(law).high)
    assert other.r2 == pytest.approx(law.r2)
    assert other.residuals == pytest.approx([law.residuals[index] for index in order], abs=1e-9)


def test_one_cell_is_no_line_and_two_have_no_interval() -> None:
    """GIVEN one cell THEN no law, with the reason; GIVEN two THEN a line without intervals or R2."""
    cells = straight(5, 0.8, FLOPS)
    assert refused("two-term", cells[:1]) == reason("few-cells", cells=1, needed=2)
    law = two_term(cells[:2])
    assert not law.coefficients["fixed_mj"].known
    assert (law.r2, law.predict(cells[2]).energy_mj.low) == (None, None)


@pytest.mark.parametrize("kind", ["norm", "lm_head"])
def test_without_different_flops_there_is_no_line(kind: str) -> None:
    """GIVEN norms, or a head that sees one token at each length, THEN the reason names their FLOPs."""
    why = refused("two-term", sweep(Board(), kind, batches=(1,)))
    assert (why.code, why.values["measure"]) == ("same-amount", "FLOPs")


def test_negative_terms_are_shown_and_flagged() -> None:
    """GIVEN an E0 or a k below 0 THEN it is shown as it is, with a flag that tells whether noise can be it."""
    fixed = two_term(straight(-0.5, 0.8, FLOPS))
    assert fixed.coefficients["fixed_mj"].value == pytest.approx(-0.5)
    assert fixed.flags == (reason("term-significantly-negative", term="E0"),)
    falling = two_term(straight(100, -0.8, FLOPS))
    assert k_of(falling).value == pytest.approx(-0.8)
    assert falling.flags[0].values == {"term": "k"}
    noisy = two_term(straight(-0.001, 0.8, FLOPS, noise=0.02, seed=3))
    at_least = noisy.coefficients["fixed_mj"].value > 0
    assert at_least or noisy.flags == (reason("term-negative-holds-zero", term="E0"),)


@pytest.mark.parametrize("name", FORMS)
def test_boards_are_not_mixed_unless_asked_for(name: LawName) -> None:
    """GIVEN cells of two boards THEN every law refuses them, or is fitted with a flag when asked for."""
    cells = repeated(99.0, 100.0, 101.0, 100.0) if name == "constant" else straight(5, 0.8, FLOPS, noise=0.01)
    cells = [replace(cells[0], board="GPU-2"), *cells[1:]]
    with pytest.raises(UsageError, match="several boards"):
        fitted(name, cells)
    flags = fitted(name, cells, mixed=("board",)).flags
    assert flags[-1] == reason("cells-mixed", field="board", names=["GPU-1", "GPU-2"])


def test_a_law_is_plain_data() -> None:
    """GIVEN a law THEN it goes into JSON as it is."""
    laws = (two_term(straight(5, 0.8, FLOPS)), fitted("roofline-floor", sweep(FLOOR, "mlp", seed=1)))
    assert [json.loads(json.dumps(asdict(law)))["subject"] for law in laws] == ["mlp", "mlp"]


# Bytes, and the same work


def test_bytes_carry_what_has_no_flops() -> None:
    """GIVEN norms THEN E0 and k over bytes are found; GIVEN one amount THEN the reason speaks of bytes."""
    cells = [
        replace(item, energy_mj=5 + 2e-7 * item.bytes, energy_low_mj=None, energy_high_mj=None)
        for item in sweep(FLOOR, "norm", batches=(1,))
    ]
    law = fitted("two-term-in-bytes", cells)
    assert law.coefficients["fixed_mj"].value == pytest.approx(5)
    assert law.coefficients["pj_per_byte"].value == pytest.approx(200)
    same = [cell(FLOOR, "norm", SIZES[0], work("norm", SIZES[0], 1, 32))] * 3
    assert refused("two-term-in-bytes", same) == reason("same-amount", cells=3, measure="bytes")


def test_a_constant_is_the_mean_with_an_interval_around_a_further_cell() -> None:
    """GIVEN four energies of one work THEN their mean is said, with Student's interval for a fifth."""
    cells = repeated(98.0, 100.0, 102.0, 100.0)
    prediction = fitted("constant", cells).predict(cells[0])
    energy = prediction.energy_mj
    assert energy.value == pytest.approx(100.0, rel=1e-3)
    expected = 3.182 * math.sqrt(8 / 3) * math.sqrt(1 + 1 / 4)
    assert energy.high - energy.value == pytest.approx(expected, rel=0.03)
    assert not prediction.extrapolated
    assert not fitted("constant", cells[:1]).predict(cells[0]).energy_mj.known


def test_a_constant_needs_the_same_work() -> None:
    """GIVEN cells of different work THEN there is no constant; work within 0.1 % is the same."""
    cells = sweep(FLOOR, "mlp")
    assert refused("constant", cells) == reason("different-work")
    assert refused("constant", []).code == "few-cells"
    assert not same_work(cells)
    assert same_work([cells[0], replace(cells[0], flops=cells[0].flops * 1.0005)])


# Per call, over models


def test_exact_cells_give_call_flop_and_byte() -> None:
    """GIVEN energies that are such a sum THEN its terms are found: static power is in the call and the bytes."""
    cells = [item for size in SIZES for item in sweep(MEMORY_BOUND, "mlp", size)]
    law = fitted("per-call", cells, mixed=["model"])
    values = [law.coefficients[name].value for name in ("call_mj", "pj_per_flop", "pj_per_byte")]
    assert values == pytest.approx([120 * 6e-3, 0.6, 60 + 120 / 3.5], rel=1e-3)
    assert max(map(abs, law.residuals)) < 1e-6
    assert law.flags == ()


def test_a_model_that_differs_is_seen() -> None:
    """GIVEN one of four models at 1.5 times its energy THEN the residuals of the models lie far apart."""
    cells = over(Board(), "mlp", without="3b") + sweep(Board(pj_per_flop=1.2, pj_per_byte=120), "mlp", SIZES[1])
    law = fitted("per-call", cells, mixed=["model"])
    by_model = {
        size.name: np.median([residual for item, residual in zip(cells, law.residuals, strict=True)
                              if item.model == size.name]) for size in SIZES
    }  # fmt: skip
    assert by_model["3b"] > 0.15
    assert min(by_model.values()) < -0.02


def test_kinds_are_not_mixed() -> None:
    """GIVEN cells of two kinds THEN refused unless asked for; GIVEN three cells THEN too few."""
    cells = [*over(Board(), "mlp"), *over(Board(), "attention")]
    with pytest.raises(UsageError, match="several subjects"):
        fitted("per-call", cells, mixed=["model"])
    law = fitted("per-call", cells, mixed=("model", "subject"))
    assert law.flags == (reason("cells-mixed", field="subject", names=["attention", "mlp"]),)
    assert refused("per-call", cells[:3]) == reason("few-cells", cells=3, needed=4)


# Rooflines


def test_exact_cells_give_their_board() -> None:
    """GIVEN cells without noise THEN static power, J/FLOP and J/byte are the board's, and shapes are predicted."""
    law = fitted("roofline-floor", sweep(FLOOR, "attention"))
    assert law.static_w == pytest.approx(120)
    assert law.coefficients["pj_per_flop"].value == pytest.approx(0.6)
    assert law.coefficients["pj_per_byte"].value == pytest.approx(60)
    shape = work("attention", SIZES[0], 2, 300)
    assert law.predict(shape).energy_mj.value == pytest.approx(FLOOR.energy_mj(shape))


@pytest.mark.parametrize("launch_us", [6.0, 60.0])
def test_intervals_of_a_roofline_cover_the_truth(launch_us: float) -> None:
    """GIVEN 1 % of noise in 200 draws THEN J/FLOP, J/byte and new cells are inside of intervals in 90-99 %.

    Four sizes tell what a call, a FLOP and a byte take; new cells of a single one are predicted as surely.
    """
    board, shape = Board(form="floor", launch_us=launch_us), work("attention", SIZES[0], 2, 200)
    inside = []
    for seed in range(200):
        cells = [item for index, size in enumerate(SIZES)
                 for item in sweep(board, "attention", size, seed=10 * seed + index)]  # fmt: skip
        law = fitted("roofline-floor", cells, mixed=["model"])
        own = fitted("roofline-floor", [item for item in cells if item.model == SIZES[0].name])
        new = board.energy_mj(shape) * (1 + 0.01 * np.random.default_rng(30_000 + seed).standard_normal())
        pairs = (
            (law.coefficients["pj_per_flop"], 0.6),
            (law.coefficients["pj_per_byte"], 60),
            (law.predict(shape).energy_mj, new),
            (own.predict(shape).energy_mj, new),
        )
        inside.append([not interval.excludes(true) for interval, true in pairs])
    share = np.mean(inside, axis=0)
    assert np.all((share >= 0.90) & (share <= 0.99))


def test_an_active_bound_is_flagged() -> None:
    """GIVEN energies that fall with FLOPs beyond static power THEN J/FLOP is 0 without limits, and flagged."""
    cells = [replace(item, energy_mj=(item.static_mj or 0) + 1e-6 * item.bytes / item.flops**0.5 * 1e3)
             for item in sweep(FLOOR, "attention")]  # fmt: skip
    law = fitted("roofline-floor", cells)
    per_flop = law.coefficients["pj_per_flop"]
    assert (per_flop.value, per_flop.known) == (0, False)
    assert reason("term-held-at-zero", term="J/FLOP") in law.flags


def test_what_a_call_costs_is_found_over_models_and_said_to_be_untold_in_one() -> None:
    """GIVEN 1 mJ a call THEN it is found over models; in an MLP alone it cannot be told from weights and FLOPs."""
    costly = [
        [replace(item, energy_mj=item.energy_mj + item.calls) for item in sweep(FLOOR, "mlp", size)]
        for size in SIZES
    ]
    law = fitted("roofline-floor", [item for cells in costly for item in cells], mixed=("model",))
    assert law.coefficients["call_mj"].value == pytest.approx(1)
    single = fitted("roofline-floor", costly[0])
    assert reason("term-not-separable", term="energy per call") in single.flags
    shape = work("mlp", SIZES[0], 2, 300)
    assert single.predict(shape).energy_mj.value == pytest.approx(FLOOR.energy_mj(shape) + shape.calls)


def test_no_flops_leave_no_j_per_flop() -> None:
    """GIVEN norms THEN J/FLOP is left out and not 0, no compute sets the time, and energy is predicted."""
    law = fitted("roofline-floor", sweep(FLOOR, "norm", seed=1))
    assert "pj_per_flop" not in law.coefficients
    assert law.time.tflops is None
    assert reason("limit-not-seen", limit="compute") in law.flags
    shape = work("norm", SIZES[0], 2, 200)
    assert law.predict(shape).energy_mj.value == pytest.approx(FLOOR.energy_mj(shape), rel=0.02)


@pytest.mark.parametrize("name", ["roofline-floor", "roofline-board-rates"])
def test_the_modelled_meter_has_no_roofline(name: LawName) -> None:
    """GIVEN cells without static energy, or one cell, THEN there is no law, with the reason."""
    cells = sweep(FLOOR, "mlp")
    assert refused(name, [replace(item, static_mj=None) for item in cells]).code == "no-static-power"
    assert refused(name, cells[:1]).code == "few-cells"


# Rooflines of several models, which know the board's rates


def test_large_layers_do_not_wait_for_launches() -> None:
    """GIVEN MLPs of 1B and 3B that wait for launches THEN 70B's are as slow as memory, with the heads' rate."""
    board, shape = Board(form="floor", launch_us=60.0), work("mlp", Size("70b", 8192, 80, 28672), 1, 32)
    cells = [item for size in SIZES[:2] for item in sweep(board, "mlp", size, **SHORT)]
    heads = [item for size in SIZES[:2] for item in sweep(board, "lm_head", size, **SHORT)]
    bounded = fitted("roofline-floor", cells, rates=rates_by_pass(heads), mixed=["model"]).predict(shape)
    alone = fitted("roofline-floor", cells, mixed=["model"]).predict(shape)
    assert bounded.time_us.value == pytest.approx(board.time_us(shape), rel=0.02)
    assert bounded.energy_mj.value > alone.energy_mj.value


def test_within_its_cells_the_ceilings_change_nothing() -> None:
    """No measured time lies below the ceilings, so that what was measured is predicted as before."""
    cells = sweep(FLOOR, "mlp", seed=1)
    bounded, plain = fitted("roofline-floor", cells, rates={}), fitted("roofline-floor", cells)
    assert bounded.coefficients == plain.coefficients
    for item in cells:
        energy = plain.predict(item).energy_mj.value
        assert bounded.predict(item).energy_mj.value == pytest.approx(energy, rel=0.05)


def test_launches_are_found_at_the_boards_rates() -> None:
    """GIVEN layers of 1B that wait for launches, and of 3B that do not THEN t0 is the launch's time."""
    assert at_board_rates().time.launch_us.value == pytest.approx(45.0)
    assert at_board_rates(noise=0.02).time.launch_us.value == pytest.approx(45.0, rel=0.05)


def test_no_launch_where_none_shows() -> None:
    """GIVEN cells as fast as the board THEN t0 sets no time of theirs, and the times are the board's."""
    heads = over(LAUNCHED, "lm_head", SIZES[:2], noise=0.0, **SHORT)
    times = at_board_rates("lm_head").time.values(heads)
    assert times == pytest.approx([item.time_us for item in heads], rel=1e-3)


def test_a_large_model_from_small_ones() -> None:
    """GIVEN energies of launches and bytes alone THEN 70B's layers are predicted, flagged as extrapolated."""
    shape = work("mlp", Size("70b", 8192, 80, 28672), 1, 32)
    prediction = at_board_rates().predict(shape)
    assert prediction.time_us.value == pytest.approx(LAUNCHED.time_us(shape), rel=0.02)
    assert prediction.energy_mj.value == pytest.approx(LAUNCHED.energy_mj(shape), rel=0.02)
    assert prediction.extrapolated


def test_intervals_hold_a_further_measurement() -> None:
    """GIVEN noise THEN energy and time of a shape among the cells lie in the prediction intervals."""
    shape = work("mlp", SIZES[0], 1, 100)
    prediction = at_board_rates(noise=0.02, lengths=(32, 64, 128, 256), batches=(1,)).predict(shape)
    assert not prediction.energy_mj.excludes(LAUNCHED.energy_mj(shape))
    assert not prediction.time_us.excludes(LAUNCHED.time_us(shape))


def test_without_flops_no_joules_per_flop() -> None:
    """Norms have no J/FLOP; nothing is said of what no cell has."""
    assert set(at_board_rates("norm").coefficients) == {"call_mj", "pj_per_byte"}
    assert set(at_board_rates("mlp").coefficients) == {"call_mj", "pj_per_flop", "pj_per_byte"}


def test_no_cell_left_over_has_no_interval() -> None:
    """GIVEN as many cells as terms THEN energy and time have no limits, rather than wrong ones."""
    first, *_, last = over(FLOOR, "mlp", SIZES[:2], lengths=(32, 1024), batches=(1,))
    cells = [first, last]
    law = fitted("roofline-board-rates", cells, rates={}, mixed=["model"])
    prediction = law.predict(work("mlp", SIZES[0], 1, 48))
    assert law.freedom == 0
    assert prediction.energy_mj.value > 0
    assert (prediction.energy_mj.low, prediction.energy_mj.high, prediction.time_us.low) == (None, None, None)

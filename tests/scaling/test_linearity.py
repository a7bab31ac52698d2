"""How straight energy is over FLOPs: where the two-term law breaks, and J/FLOP between neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated_board import SIZES, Board, cell, fitted, straight, sweep, work

from energyscope.reasons import reason
from energyscope.scaling.linearity import left_out_errors, per_flop, per_flop_ratio, quotients, reach, trend

FLOPS = [1e9 * 2**step for step in range(7)]
SIX = FLOPS[:6]


def test_the_closed_form_is_a_second_fit() -> None:
    """GIVEN noisy cells THEN errors from leverages are those of fits to the others, to rounding."""
    cells = straight(5, 0.8, FLOPS, noise=0.05, seed=4)
    errors = left_out_errors(cells)
    again = []
    for index, left_out in enumerate(cells):
        law = fitted("two-term", [*cells[:index], *cells[index + 1 :]])
        again.append(law.predict(left_out).energy_mj.value / left_out.energy_mj - 1)
    assert errors == pytest.approx(np.array(again), abs=1e-9)


def test_a_law_that_holds_reaches_the_last_cell() -> None:
    """GIVEN a straight line THEN the law holds for all cells, in any order."""
    entry = reach(straight(5, 0.8, FLOPS, noise=0.01)[::-1])
    assert tuple(entry[key] for key in ("holds", "within", "first_beyond", "to_flops")) == (
        True,
        7,
        None,
        FLOPS[-1],
    )


def test_the_break_is_found() -> None:
    """GIVEN cells that take half as much again from 32 GFLOPs on THEN the law reaches to 16 and no further."""
    cells = [
        replace(item, energy_mj=item.energy_mj * (1.5 if item.flops > 2e10 else 1))
        for item in straight(5, 0.8, FLOPS)
    ]
    entry = reach(cells)
    assert (entry["holds"], entry["within"], entry["to_flops"]) == (False, 5, FLOPS[4])
    assert entry["first_beyond"] == {"batch_size": 1, "tokens": cells[5].tokens}


def test_nowhere_and_too_few_are_told_apart() -> None:
    """GIVEN energies that no line follows THEN nothing holds; GIVEN two cells THEN the reason says so."""
    wild = [
        replace(item, energy_mj=10.0 ** (1 + index % 2 * 2)) for index, item in enumerate(straight(5, 0.8, FLOPS))
    ]
    entry = reach(wild)
    assert (entry["holds"], entry["within"], entry["first_beyond"]) == (False, 0, None)
    assert entry["reason"].code == "law-breaks-at-once"
    assert reach(wild[:2])["reason"] == reason("few-cells", cells=2, needed=3)


def test_quotients_are_k_between_neighbours() -> None:
    """GIVEN 0.8 pJ/FLOP THEN each neighbouring pair gives it, with an interval, in order of FLOPs."""
    entries = quotients(straight(5, 0.8, SIX)[::-1])
    assert [item["from_flops"] for item in entries] == SIX[:-1]
    assert [item["pj_per_flop"]["value"] for item in entries] == pytest.approx([0.8] * 5)
    assert all(item["pj_per_flop"]["low"] < 0.8 < item["pj_per_flop"]["high"] for item in entries)


def test_equal_flops_have_no_quotient() -> None:
    """GIVEN two cells with the same FLOPs THEN there is no quotient between them."""
    first, other = straight(5, 0.8, SIX[:2])
    assert len(quotients([first, first, other])) == 1


@pytest.mark.parametrize(("bend", "verdict"), [(0.0, "flat"), (0.25, "rising"), (-0.12, "falling")])
def test_the_trend_is_told(bend: float, verdict: str) -> None:
    """GIVEN energies whose J/FLOP changes by a share per doubling THEN the verdict and the share are found."""
    cells = straight(1, 0.8, SIX, noise=0.002, seed=5)
    bent = [replace(item, energy_mj=item.energy_mj * (1 + bend * step)) for step, item in enumerate(cells)]
    entry = trend(bent)
    assert entry["verdict"] == verdict
    assert (entry["change"]["value"] > 0) == (bend > 0) or bend == 0


def test_noise_and_few_cells_are_no_trend_and_not_flat() -> None:
    """GIVEN noisy cells, or three, THEN it cannot be told, with the reason."""
    noisy, few = trend(straight(5, 0.8, SIX, noise=0.15, seed=2)), trend(straight(5, 0.8, SIX[:3]))
    assert (noisy["verdict"], few["verdict"]) == ("unclear", "unclear")
    assert noisy["reason"].code == "trend-unclear"
    assert few["reason"] == reason("few-flops", amounts=3, needed=4)


def test_a_launch_floor_makes_marginal_energy_rise() -> None:
    """GIVEN launches that hide small shapes THEN their marginal J/FLOP rises."""
    cells = sweep(Board(form="floor", launch_us=60), "mlp", batches=(1,), seed=1)
    assert trend(cells)["verdict"] == "rising"


def test_attention_against_mlp() -> None:
    """GIVEN twice the energy per FLOP THEN the ratio of J/FLOP is two, inside its interval."""
    costly = replace(
        cell(Board(), "mlp", SIZES[0], work("mlp", SIZES[0], 1, 128)),
        energy_mj=100.0, energy_low_mj=99.0, energy_high_mj=101.0,
    )  # fmt: skip
    cheap = replace(costly, energy_mj=50.0, energy_low_mj=49.0, energy_high_mj=51.0)
    ratio = per_flop_ratio(costly, cheap)
    assert ratio is not None
    assert ratio.value == pytest.approx(2)
    assert 1.9 < (ratio.low or 0) < 2 < (ratio.high or 0) < 2.1


def test_without_flops_there_is_no_ratio() -> None:
    """GIVEN norms, which have no FLOPs, THEN J/FLOP is None, and so is a ratio with it."""
    norm, mlp = sweep(Board(), "norm")[0], sweep(Board(), "mlp")[0]
    assert per_flop(norm) is None
    assert per_flop_ratio(norm, mlp) is None

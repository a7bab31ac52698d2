from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_board import SIZES, Board, cell, straight, sweep, work

from energyscope.reasons import reason
from energyscope.scaling.marginal import (
    energy_ratio,
    marginal_ratio,
    per_flop,
    per_flop_ratio,
    quotients,
    trend,
)
from energyscope.scaling.prediction import NoLaw
from energyscope.scaling.two_term import two_term

FLOPS = [1e9 * 2**step for step in range(6)]


def test_quotients_are_k_between_neighbours() -> None:
    """GIVEN 0.8 pJ/FLOP THEN each neighbouring pair gives it, with an interval, in order of FLOPs."""
    found = quotients(straight(5, 0.8, FLOPS)[::-1])
    assert [one.from_flops for one in found] == FLOPS[:-1]
    assert [one.pj_per_flop.value for one in found] == pytest.approx([0.8] * 5)
    assert all(one.pj_per_flop.known for one in found)


def test_equal_flops_have_no_quotient() -> None:
    """GIVEN two cells with the same FLOPs THEN there is no quotient between them."""
    one, other = straight(5, 0.8, FLOPS[:2])
    assert len(quotients([one, one, other])) == 1


@pytest.mark.parametrize(("bend", "verdict"), [(0.0, "flat"), (0.25, "rising"), (-0.12, "falling")])
def test_the_trend_is_told(bend: float, verdict: str) -> None:
    """GIVEN energies whose J/FLOP changes by a share per doubling THEN the verdict and the share are found."""
    cells = straight(1, 0.8, FLOPS, noise=0.002, seed=5)
    bent = [replace(one, energy_mj=one.energy_mj * (1 + bend * step)) for step, one in enumerate(cells)]
    found = trend(bent)
    assert found.verdict == verdict
    assert found.change is not None
    assert (found.change.value > 0) == (bend > 0) or bend == 0


def test_noise_and_few_cells_are_no_trend_and_not_flat() -> None:
    """GIVEN noisy cells, or three, THEN it cannot be told, with the reason."""
    noisy, few = trend(straight(5, 0.8, FLOPS, noise=0.15, seed=2)), trend(straight(5, 0.8, FLOPS[:3]))
    assert (noisy.verdict, few.verdict) == ("unclear", "unclear")
    assert noisy.reason is not None
    assert noisy.reason.code == "trend-unclear"
    assert few.reason == reason("few-flops", amounts=3, needed=4)


def test_a_launch_floor_makes_marginal_energy_rise() -> None:
    """GIVEN launches that hide small shapes THEN their marginal J/FLOP rises."""
    cells = sweep(Board(form="floor", launch_us=60), "mlp", batches=(1,), seed=1)
    assert trend(cells).verdict == "rising"


def test_attention_against_mlp() -> None:
    """GIVEN twice the energy per FLOP THEN ratios of J/FLOP, energy and k are two, inside their intervals."""
    shape = work("mlp", SIZES[0], 1, 128)
    dear = replace(
        cell(Board(), "mlp", SIZES[0], shape), energy_mj=100.0, energy_low_mj=99.0, energy_high_mj=101.0
    )
    cheap = replace(dear, energy_mj=50.0, energy_low_mj=49.0, energy_high_mj=51.0)
    for found in (per_flop_ratio(dear, cheap), energy_ratio(dear, cheap)):
        assert found is not None
        assert found.value == pytest.approx(2)
        assert 1.9 < (found.low or 0) < 2 < (found.high or 0) < 2.1
    laws = [two_term(straight(5, k, FLOPS, noise=0.01, seed=index)) for index, k in enumerate((1.6, 0.8))]
    ratio = marginal_ratio(*laws)
    assert ratio is not None
    assert not ratio.excludes(2)


def test_without_flops_there_is_no_ratio() -> None:
    """GIVEN norms, which have no FLOPs, THEN J/FLOP is None, and so is a ratio with it or with no law."""
    norm, mlp = sweep(Board(), "norm")[0], sweep(Board(), "mlp")[0]
    assert per_flop(norm) is None
    assert per_flop_ratio(norm, mlp) is None
    assert marginal_ratio(NoLaw("norm", "no FLOPs"), two_term(straight(5, 0.8, FLOPS))) is None

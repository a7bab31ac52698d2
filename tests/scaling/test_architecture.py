from __future__ import annotations

import pytest
from simulated_board import LENGTHS, SIZES, Board, sweep, work

from energyscope.errors import UsageError
from energyscope.reasons import reason, split
from energyscope.scaling.architecture import PerCall, per_call, terms_of
from energyscope.scaling.cell import Cell
from energyscope.scaling.prediction import NoLaw
from energyscope.scaling.two_term import TwoTerm, two_term

MEMORY_BOUND = Board(tflops=1e9)  # energy is then a sum of a call, FLOPs and bytes, exactly


def over(board: Board, kind: str, *, without: str = "") -> list[Cell]:
    named = [(index, size) for index, size in enumerate(SIZES) if size.name != without]
    return [one for index, size in named for one in sweep(board, kind, size, seed=index)]


def test_exact_cells_give_call_flop_and_byte() -> None:
    """GIVEN energies that are such a sum THEN its terms are found: static power is in the call and the bytes."""
    cells = [one for size in SIZES for one in sweep(MEMORY_BOUND, "mlp", size)]
    law = per_call(cells)
    assert isinstance(law, PerCall)
    assert law.pj_per_flop is not None
    assert law.pj_per_byte is not None
    assert law.call_mj.value == pytest.approx(120 * 6e-3, rel=1e-3)
    assert (law.pj_per_flop.value, law.pj_per_byte.value) == pytest.approx((0.6, 60 + 120 / 3.5), rel=1e-3)
    assert law.models == ("1b", "3b", "8b", "small")
    assert max(map(abs, law.by_model.values())) < 1e-6


@pytest.mark.parametrize("kind", ["attention", "mlp"])
@pytest.mark.parametrize("name", ["1b", "3b"])
def test_e0_and_k_follow_from_the_architecture(kind: str, name: str) -> None:
    """GIVEN other sizes' cells THEN E0 and k of one that was left out are within 10 % of those measured on it."""
    size = next(one for one in SIZES if one.name == name)
    law = per_call(over(Board(), kind, without=name))
    own = two_term(sweep(Board(), kind, size, batches=(1,), seed=7))
    assert isinstance(law, PerCall)
    assert isinstance(own, TwoTerm)
    terms = terms_of(law, [work(kind, size, 1, tokens) for tokens in LENGTHS])
    assert not isinstance(terms, NoLaw)
    assert terms.fixed_mj.value == pytest.approx(own.fixed_mj.value, rel=0.10)
    assert terms.marginal_pj_per_flop.value == pytest.approx(own.marginal_pj_per_flop.value, rel=0.10)
    assert terms.fixed_mj.known
    assert not terms.extrapolated


def test_a_larger_model_than_any_measured_is_extrapolated() -> None:
    """GIVEN sizes up to 3B THEN the 8B's MLP is outside of their range, and it is said how."""
    law = per_call([one for one in over(Board(), "mlp") if one.model != "8b"])
    assert isinstance(law, PerCall)
    found = law.predict(work("mlp", SIZES[2], 4, 1024))
    assert found.extrapolated
    assert found.why is not None
    assert {(one.code, one.values["end"]) for one in split(found.why)} == {("beyond-cells", "most")}
    assert found.energy_mj.value == pytest.approx(Board().energy_mj(work("mlp", SIZES[2], 4, 1024)), rel=0.15)


def test_a_model_that_differs_is_seen() -> None:
    """GIVEN one of four models at 1.5 times its energy THEN the medians of models lie far apart."""
    cells = over(Board(), "mlp", without="3b") + sweep(Board(pj_per_flop=1.2, pj_per_byte=120), "mlp", SIZES[1])
    law = per_call(cells)
    assert isinstance(law, PerCall)
    assert law.by_model["3b"] > 0.15
    assert min(law.by_model.values()) < -0.02


def test_kinds_are_not_mixed_and_one_length_gives_no_terms() -> None:
    """GIVEN cells of two kinds THEN refused unless asked for; GIVEN one length THEN no E0 and k."""
    cells = [*over(Board(), "mlp"), *over(Board(), "attention")]
    with pytest.raises(UsageError, match="several subjects"):
        per_call(cells)
    law = per_call(cells, mixed=("model", "subject"))
    assert isinstance(law, PerCall)
    assert law.flags == (reason("cells-mixed", field="subject", names=["attention", "mlp"]),)
    assert isinstance(terms_of(law, [work("mlp", SIZES[0], 1, 64)]), NoLaw)
    few = per_call(cells[:3])
    assert isinstance(few, NoLaw)
    assert few.reason == reason("few-cells", cells=3, needed=4)


def test_norms_have_a_law_without_flops() -> None:
    """GIVEN norms THEN J/FLOP is None, J/byte is found, and a left-out size is told."""
    law = per_call(over(Board(), "norm", without="3b"))
    assert isinstance(law, PerCall)
    assert law.pj_per_flop is None
    shape = work("norm", SIZES[1], 1, 256)
    assert law.predict(shape).energy_mj.value == pytest.approx(Board().energy_mj(shape), rel=0.05)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from simulated_board import KINDS, SIZES, Board, straight, sweep, work

from energyscope.intervals import Interval
from energyscope.reasons import reason
from energyscope.scaling.architecture import per_call
from energyscope.scaling.cell import Cell, Shape
from energyscope.scaling.heldout import By, best_of, errors_of, leave_out, leave_out_of_sum, scene, widened
from energyscope.scaling.prediction import NoLaw, Prediction
from energyscope.scaling.roofline import roofline
from energyscope.scaling.two_term import two_term

FLOPS = [1e9 * 2**step for step in range(6)]
SUM = partial(roofline, form="sum", call_energy=False)


@pytest.mark.parametrize(("by", "folds"), [("length", 6), ("batch", 2), ("cell", 12)])
def test_every_cell_is_foretold_once_from_others(by: By, folds: int) -> None:
    """GIVEN 6 lengths x 2 batches THEN each cell is foretold once, by a fit that never saw its group."""
    cells = sweep(Board(), "mlp", seed=1)
    seen: list[set[tuple[object, ...]]] = []

    def watched(some: Sequence[Cell]):
        seen.append({scene(one) for one in some})
        return two_term(some)

    held = leave_out(cells, watched, by)
    assert (held.folds, len(seen)) == (folds, folds)
    assert sorted(scene(one.cell) for one in held.cells) == sorted(scene(one) for one in cells)
    assert sum(len(cells) - len(fold) for fold in seen) == len(cells)


def test_a_law_that_holds_errs_by_nothing_and_noise_by_its_size() -> None:
    """GIVEN exact cells THEN held-out errors are 0; GIVEN 1 % of noise THEN about 1 %, within the intervals."""
    exact = leave_out(straight(5, 0.8, FLOPS), two_term, "cell")
    assert exact.within.largest == pytest.approx(0, abs=1e-9)
    noisy = [leave_out(sweep(Board(), "attention", seed=seed), SUM, "length") for seed in range(20)]
    found = errors_of(one for held in noisy for one in held.cells if not one.prediction.extrapolated)
    assert found.median is not None
    assert 0.003 < found.median < 0.015
    assert 0.90 <= found.inside / found.with_interval <= 0.995


def test_a_wrong_cell_is_seen() -> None:
    """GIVEN one cell at three times its energy THEN it is the largest error, -2/3, and outside of its interval."""
    cells = straight(5, 0.8, FLOPS, noise=0.01, seed=1)
    cells[3] = replace(cells[3], energy_mj=3 * cells[3].energy_mj)
    (found,) = [one for one in leave_out(cells, two_term, "cell").cells if one.cell == cells[3]]
    assert found.error == pytest.approx(-2 / 3, abs=0.02)
    assert found.inside is False


def test_extrapolation_is_counted_apart() -> None:
    """GIVEN six lengths THEN the shortest and the longest are extrapolated, the others not."""
    held = leave_out(straight(5, 0.8, FLOPS), two_term, "length")
    assert (held.within.cells, held.beyond.cells) == (4, 2)
    assert {one.cell.flops for one in held.cells if one.prediction.extrapolated} == {FLOPS[0], FLOPS[-1]}


def test_what_cannot_be_left_out_is_said() -> None:
    """GIVEN one batch THEN the reason; GIVEN two cells THEN that each fold had none to fit."""
    cells = straight(5, 0.8, FLOPS)
    assert leave_out(cells, two_term, "batch").reason == reason("single-group", by="batch")
    assert leave_out(cells, two_term, "batch").within.median is None
    failed = leave_out(cells[:2], two_term, "length").failed
    assert len(failed) == 2
    assert failed[0] == reason(
        "no-law-without", by="length", left_out="32", why=reason("few-cells", cells=1, needed=2)
    )


def test_a_model_left_out_is_foretold_by_the_others() -> None:
    """GIVEN four sizes of one board THEN the law per call foretells each size within 15 %, median."""
    cells = [one for index, size in enumerate(SIZES) for one in sweep(Board(), "attention", size, seed=index)]
    held = leave_out(cells, per_call, "model")
    assert held.folds == 4
    assert len(held.cells) == 48
    median = errors_of(held.cells).median
    assert median is not None
    assert median < 0.15


def test_the_whole_is_foretold_as_a_sum_of_its_parts() -> None:
    """GIVEN parts that add up to the model THEN their held-out sum meets it, without parts that cannot be told."""
    parts = {kind: sweep(Board(), kind, seed=index) for index, kind in enumerate(KINDS)}
    whole = sweep(Board(), "model", seed=9)
    held = leave_out_of_sum(parts, whole, SUM, "length")
    found = errors_of(held.cells)
    assert found.cells == 12
    assert found.median is not None
    assert found.median < 0.02
    assert {one.prediction.law for one in held.cells} == {"sum-over-parts"}
    without = leave_out_of_sum(parts, whole, two_term, "length")
    assert without.cells == ()
    assert any(one.values["part"] == "norm" for one in without.failed)


def test_the_form_that_holds_out_better_is_chosen() -> None:
    """GIVEN boards of either form THEN that form is chosen by its held-out error."""
    fits = {form: partial(roofline, form=form, call_energy=False) for form in ("sum", "floor")}
    for form in ("sum", "floor"):
        cells = sweep(Board(form=form, launch_us=60), "attention", seed=2)
        assert best_of(cells, fits, "cell") == form
    assert best_of(straight(5, 0.8, FLOPS[:2]), {"two": two_term}, "length") is None


def test_by_model_the_worst_model_decides() -> None:
    """GIVEN a law that is right for two models and far off for a third THEN one a little off for all is better."""
    cells = [one for size in SIZES[:3] for one in sweep(Board(), "mlp", size, lengths=(32,), batches=(1,))]

    def times(factors: dict[str, float]):
        exact = {one.flops: one for one in cells}

        class Law:
            subject = "mlp"

            def predict(self, work: Shape) -> Prediction:
                one = exact[work.flops]
                energy = one.energy_mj * factors.get(one.model, 1.0)
                return Prediction("mlp", "planted", Interval(energy), None, extrapolated=False)

        return lambda _: Law()

    fits = {"one far off": times({"8b": 3.0}), "all near": times(dict.fromkeys(("1b", "3b", "8b"), 1.1))}
    assert best_of(cells, fits, "model") == "all near"
    assert best_of(cells, fits, "cell") == "one far off"


def test_an_interval_is_widened_to_the_errors_of_left_out_cells() -> None:
    """GIVEN a law off by up to 10 % THEN predictions within its data are told no more sharply than that."""
    cells = sweep(Board(form="floor", launch_us=60), "attention", seed=2)
    law, held = two_term(cells), leave_out(cells, two_term, "cell")
    assert not isinstance(law, NoLaw)
    wide = widened(law.predict(work("attention", SIZES[0], 2, 200)), held).energy_mj
    largest = held.within.largest
    assert largest is not None
    assert wide.low is not None
    assert wide.low <= wide.value * (1 - largest) + 1e-9

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from simulated_board import KINDS, SIZES, Board, fitted, over, straight, sweep, work

from energyscope.intervals import Interval
from energyscope.reasons import reason
from energyscope.scaling.cells import Cell, Shape
from energyscope.scaling.fit import Fitter, fitter
from energyscope.scaling.held_out import By, best_of, errors_of, leave_out, leave_out_of_sum, widened
from energyscope.scaling.law import LawName, Prediction
from energyscope.scaling.time_law import pass_of

FLOPS = [1e9 * 2**step for step in range(6)]
TWO_TERM, ROOFLINE = fitter("two-term"), fitter("roofline-floor")
FLOOR = Board(form="floor")


@pytest.mark.parametrize(("by", "folds"), [("length", 6), ("batch", 2), ("cell", 12)])
def test_every_cell_is_predicted_once_from_others(by: By, folds: int) -> None:
    """GIVEN 6 lengths x 2 batches THEN each cell is predicted once, by a fit that never saw its group."""
    cells = sweep(Board(), "mlp", seed=1)
    seen: list[set[tuple[object, ...]]] = []

    def watched(some: Sequence[Cell]):
        seen.append({pass_of(item) for item in some})
        return TWO_TERM(some)

    held_out = leave_out(cells, watched, by)
    assert len(seen) == folds
    assert sorted(pass_of(item.cell) for item in held_out.cells) == sorted(pass_of(item) for item in cells)
    assert sum(len(cells) - len(fold) for fold in seen) == len(cells)


def test_a_law_that_holds_errs_by_nothing_and_noise_by_its_size() -> None:
    """GIVEN exact cells THEN held-out errors are 0; GIVEN 1 % of noise THEN about 1 %, within the intervals."""
    exact = leave_out(straight(5, 0.8, FLOPS), TWO_TERM, "cell")
    assert errors_of(exact.side(extrapolated=False)).largest == pytest.approx(0, abs=1e-9)
    noisy = [leave_out(sweep(FLOOR, "attention", seed=seed), ROOFLINE, "length") for seed in range(20)]
    errors = errors_of(item for held_out in noisy for item in held_out.cells if not item.prediction.extrapolated)
    assert errors.median is not None
    assert 0.003 < errors.median < 0.015
    assert 0.90 <= errors.inside / errors.with_interval <= 0.995


def test_a_wrong_cell_is_seen() -> None:
    """GIVEN one cell at three times its energy THEN it is the largest error, -2/3, and outside of its interval."""
    cells = straight(5, 0.8, FLOPS, noise=0.01, seed=1)
    cells[3] = replace(cells[3], energy_mj=3 * cells[3].energy_mj)
    (outlier,) = [item for item in leave_out(cells, TWO_TERM, "cell").cells if item.cell == cells[3]]
    assert outlier.error == pytest.approx(-2 / 3, abs=0.02)
    assert outlier.inside is False


def test_extrapolation_is_counted_apart() -> None:
    """GIVEN six lengths THEN the shortest and the longest are extrapolated, the others not."""
    held_out = leave_out(straight(5, 0.8, FLOPS), TWO_TERM, "length")
    assert [len(held_out.side(extrapolated=beyond)) for beyond in (False, True)] == [4, 2]
    assert {item.cell.flops for item in held_out.cells if item.prediction.extrapolated} == {FLOPS[0], FLOPS[-1]}


def test_what_cannot_be_left_out_is_said() -> None:
    """GIVEN one batch THEN the reason; GIVEN two cells THEN that each fold had none to fit."""
    cells = straight(5, 0.8, FLOPS)
    assert leave_out(cells, TWO_TERM, "batch").reason == reason("single-group", by="batch")
    assert leave_out(cells, TWO_TERM, "batch").errors.median is None
    failed = leave_out(cells[:2], TWO_TERM, "length").failed
    assert len(failed) == 2
    assert failed[0] == reason(
        "no-law-without", by="length", left_out="32", why=reason("few-cells", cells=1, needed=2)
    )


def test_a_model_left_out_is_predicted_by_the_others() -> None:
    """GIVEN four sizes of one board THEN the law per call predicts each size within 15 %, median."""
    cells = over(Board(), "attention")
    held_out = leave_out(cells, fitter("per-call", mixed=["model"]), "model")
    assert {item.cell.model for item in held_out.cells} == {size.name for size in SIZES}
    assert len(held_out.cells) == 48
    median = errors_of(held_out.cells).median
    assert median is not None
    assert median < 0.15


def test_the_whole_is_predicted_as_a_sum_of_its_parts() -> None:
    """GIVEN parts that add up to the model THEN their held-out sum meets it, without parts that cannot be told."""
    parts = {kind: sweep(FLOOR, kind, seed=index) for index, kind in enumerate(KINDS)}
    whole = [
        replace(cells[0], subject="model", energy_mj=sum(item.energy_mj for item in cells))
        for cells in zip(*parts.values(), strict=True)
    ]
    held_out = leave_out_of_sum(parts, whole, dict.fromkeys(parts, ROOFLINE), "length")
    errors = errors_of(held_out.cells)
    assert errors.cells == 12
    assert errors.median is not None
    assert errors.median < 0.02
    assert {item.prediction.law for item in held_out.cells} == {"sum-over-parts"}
    without = leave_out_of_sum(parts, whole, dict.fromkeys(parts, TWO_TERM), "length")
    assert without.cells == ()
    assert any(item.values["part"] == "norm" for item in without.failed)


def best(cells: Sequence[Cell], fits: dict[LawName, Fitter], by: By) -> LawName | None:
    return best_of({name: leave_out(cells, fit, by) for name, fit in fits.items()})


def test_the_law_that_holds_out_better_is_best() -> None:
    """GIVEN a floor of launches THEN a roofline is best, a line where there is one; none where nothing is told."""
    fits: dict[LawName, Fitter] = {"two-term": TWO_TERM, "roofline-floor": ROOFLINE}
    assert best(sweep(Board(form="floor", launch_us=60), "attention", seed=2), fits, "cell") == "roofline-floor"
    assert best(straight(5, 0.8, FLOPS), fits, "cell") == "two-term"
    assert best(straight(5, 0.8, FLOPS[:2]), {"two-term": TWO_TERM}, "length") is None


def test_by_model_the_worst_model_decides() -> None:
    """GIVEN a law that is right for two models and far off for a third THEN one a little off for all is better."""
    cells = [item for size in SIZES[:3] for item in sweep(Board(), "mlp", size, lengths=(32,), batches=(1,))]

    def times(factors: dict[str, float]):
        exact = {item.flops: item for item in cells}

        class Law:
            subject = "mlp"

            def predict(self, work: Shape) -> Prediction:
                item = exact[work.flops]
                energy = item.energy_mj * factors.get(item.model, 1.0)
                return Prediction("mlp", "constant", Interval(energy))

        return lambda _: Law()

    fits = {"one far off": times({"8b": 3.0}), "all near": times(dict.fromkeys(("1b", "3b", "8b"), 1.1))}
    assert best(cells, fits, "model") == "all near"
    assert best(cells, fits, "cell") == "one far off"


def test_an_interval_is_widened_to_the_errors_of_left_out_cells() -> None:
    """GIVEN a law off by up to 10 % THEN predictions within its data are told no more sharply than that."""
    cells = sweep(Board(form="floor", launch_us=60), "attention", seed=2)
    law, held_out = fitted("two-term", cells), leave_out(cells, TWO_TERM, "cell")
    wide = widened(law.predict(work("attention", SIZES[0], 2, 200)), held_out).energy_mj
    largest = errors_of(held_out.side(extrapolated=False)).largest
    assert largest is not None
    assert wide.low is not None
    assert wide.low <= wide.value * (1 - largest) + 1e-9

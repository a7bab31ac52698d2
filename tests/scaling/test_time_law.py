"""Times: launches, compute and memory are found in them, and the best rates that any component shows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from simulated_board import SIZES, Board, sweep, work

from energyscope.reasons import reason
from energyscope.scaling.cells import Cell, Shape
from energyscope.scaling.time_law import Ceilings, TimeLaw, ceilings_of, rates_by_pass, time_law

FLOOR = Board(form="floor")


def fitted(cells: list[Cell]) -> TimeLaw:
    law = time_law(cells)
    assert law is not None
    return law


def test_exact_times_give_launch_compute_and_memory() -> None:
    """GIVEN times without noise, of cells that all three limit, THEN t0, F and B are found, and all times told."""
    board = Board(form="floor", launch_us=20.0)
    law = fitted([item for size in SIZES for item in sweep(board, "mlp", size)])
    assert law.launch_us.value == pytest.approx(20, rel=1e-6)
    assert (law.tflops.value, law.gb_per_s.value) == pytest.approx((600, 3500), rel=1e-6)
    shape = work("mlp", SIZES[0], 2, 300)
    assert law.interval(shape).value == pytest.approx(board.time_us(shape))


def test_intervals_cover_the_truth() -> None:
    """GIVEN 1 % of noise in 300 draws THEN t0 and new times lie inside of 95 % intervals in 90-99 % of them."""
    shape = work("norm", SIZES[0], 2, 200)
    inside = []
    for seed in range(300):
        law = fitted(sweep(FLOOR, "norm", seed=seed))
        new = FLOOR.time_us(shape) * (1 + 0.01 * np.random.default_rng(20_000 + seed).standard_normal())
        inside.append([not law.launch_us.excludes(FLOOR.launch_us), not law.interval(shape).excludes(new)])
    share = np.mean(inside, axis=0)
    assert np.all((share >= 0.90) & (share <= 0.99))


def test_what_no_cell_shows_is_not_told() -> None:
    """GIVEN launches that hide memory throughout THEN B is mostly None: noise alone may not make a regime."""
    board = Board(form="floor", launch_us=60.0)
    laws = [fitted(sweep(board, "attention", seed=seed)) for seed in range(50)]
    assert sum(law.gb_per_s is None for law in laws) >= 40


def test_launch_and_memory_of_one_model_are_not_told_apart() -> None:
    """GIVEN an MLP whose small shapes take the same time, by its weights or by launches, THEN the law says so."""
    law = fitted(sweep(FLOOR, "mlp", lengths=(16, 32, 48, 64), batches=(1,), seed=1))
    assert reason("launch-or-memory") in law.flags
    apart = fitted([item for size in SIZES for item in sweep(FLOOR, "mlp", size, seed=1)])
    assert apart.flags == ()


def test_what_is_not_told_apart_is_the_hosts_pace_where_the_run_was_eager() -> None:
    """GIVEN two cells whose times fit launches and memory alike THEN launches set them if the run was eager."""
    graph = sweep(FLOOR, "mlp", lengths=(16, 32), batches=(1,), seed=1)
    law = fitted([replace(item, execution="eager") for item in graph])
    assert reason("launch-or-memory") in law.flags
    assert (law.regimes, law.gb_per_s) == ((0, 0), None)
    longer = work("mlp", SIZES[2], 1, 32)
    assert law.interval(longer).value == pytest.approx(law.launch_us.value * longer.calls)


def test_order_does_not_matter() -> None:
    """GIVEN cells in another order THEN the law is the same."""
    cells = sweep(Board(form="floor", launch_us=30), "attention", seed=3)
    assert fitted(cells[::-1]).fit.coefficients == pytest.approx(fitted(cells).fit.coefficients)


def small(kind: str) -> list[Cell]:
    board = Board(form="floor", launch_us=60.0)  # MLPs of 1B and 3B wait for launches, their heads do not
    return [item for size in SIZES[:2] for item in sweep(board, kind, size, lengths=(32, 64), batches=(1,))]


def test_the_best_rate_is_found() -> None:
    """GIVEN heads that memory limits THEN the least time for a byte is the board's, though MLPs wait."""
    alone = ceilings_of(small("mlp"))
    beside = ceilings_of(small("mlp"), rates_by_pass(small("lm_head")))
    assert alone.us_per_byte > 1.1 / FLOOR.gb_per_s / 1e3
    assert beside.us_per_byte == pytest.approx(1 / FLOOR.gb_per_s / 1e3)


def test_other_passes_do_not_count() -> None:
    """GIVEN heads of another model THEN a fit without that model knows nothing of them."""
    others = [replace(item, model="3b") for item in small("lm_head")]
    ours = [item for item in small("mlp") if item.model == "1b"]
    assert ceilings_of(ours, rates_by_pass(others)) == ceilings_of(ours)


def test_what_has_no_work_has_no_bound() -> None:
    """GIVEN no FLOPs or no cell of bytes THEN that rate bounds nothing, and no NaN comes out."""
    assert Ceilings(math.inf, 1.0).least_us(Shape(1, 1, 5.0, 3.0)) == 3.0
    assert Ceilings(math.inf, math.inf).least_us(Shape(1, 1, 5.0, 3.0)) == 0.0

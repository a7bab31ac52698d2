from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated_board import SIZES, Board, sweep, work

from energyscope.scaling.regimes import Form
from energyscope.scaling.time_law import time_law


@pytest.mark.parametrize("form", ["sum", "floor"])
def test_exact_times_give_launch_compute_and_memory(form: Form) -> None:
    """GIVEN times without noise, of cells that all three limit, THEN t0, F and B are found, and all times told."""
    board = Board(form=form, launch_us=20.0)
    cells = [one for size in SIZES for one in sweep(board, "mlp", size)]
    law = time_law(cells, form)
    assert law is not None
    assert law.tflops is not None
    assert law.gb_per_s is not None
    assert law.launch_us.value == pytest.approx(20, rel=1e-6)
    assert (law.tflops.value, law.gb_per_s.value) == pytest.approx((600, 3500), rel=1e-6)
    shape = work("mlp", SIZES[0], 2, 300)
    assert law.time_us(shape).value == pytest.approx(board.time_us(shape))


@pytest.mark.parametrize(("form", "kind"), [("sum", "attention"), ("sum", "norm"), ("floor", "norm")])
def test_intervals_cover_the_truth(form: Form, kind: str) -> None:
    """GIVEN 1 % of noise in 300 draws THEN t0 and new times lie inside of 95 % intervals in 90-99 % of them."""
    board, shape = Board(form=form), work(kind, SIZES[0], 2, 200)
    inside = []
    for seed in range(300):
        law = time_law(sweep(board, kind, seed=seed), form)
        assert law is not None
        new = board.time_us(shape) * (1 + 0.01 * np.random.default_rng(20_000 + seed).standard_normal())
        inside.append([not law.launch_us.excludes(board.launch_us), not law.time_us(shape).excludes(new)])
    share = np.mean(inside, axis=0)
    assert np.all((share >= 0.90) & (share <= 0.99))


def test_what_no_cell_shows_is_not_told() -> None:
    """GIVEN launches that hide memory throughout THEN B is mostly None: noise alone may not make a regime."""
    board = Board(form="floor", launch_us=60.0)
    laws = [time_law(sweep(board, "attention", seed=seed), "floor") for seed in range(50)]
    assert sum(law is not None and law.gb_per_s is None for law in laws) >= 40


def test_launch_and_memory_of_one_model_are_not_told_apart() -> None:
    """GIVEN an MLP whose small shapes take the same time, by its weights or by launches, THEN the law says so."""
    law = time_law(sweep(Board(form="floor"), "mlp", lengths=(16, 32, 48, 64), batches=(1,), seed=1), "floor")
    assert law is not None
    assert not law.told
    apart = time_law([one for size in SIZES for one in sweep(Board(form="floor"), "mlp", size, seed=1)], "floor")
    assert apart is not None
    assert apart.told


def test_what_is_not_told_apart_is_the_hosts_pace_where_the_run_was_eager() -> None:
    """GIVEN two cells whose times fit launches and memory alike THEN launches set them if the run was eager."""
    graph = sweep(Board(form="floor"), "mlp", lengths=(16, 32), batches=(1,), seed=1)
    eager = [replace(one, execution="eager") for one in graph]
    law = time_law(eager, "floor")
    assert law is not None
    assert (law.told, law.regimes, law.gb_per_s) == (False, (0, 0), None)
    longer = work("mlp", SIZES[2], 1, 32)
    assert law.time_us(longer).value == pytest.approx(law.launch_us.value * longer.calls)


def test_order_does_not_matter() -> None:
    """GIVEN cells in another order THEN the law is the same."""
    cells = sweep(Board(form="floor", launch_us=30), "attention", seed=3)
    one, other = time_law(cells, "floor"), time_law(cells[::-1], "floor")
    assert one is not None
    assert other is not None
    assert other.fit.coefficients == pytest.approx(one.fit.coefficients)

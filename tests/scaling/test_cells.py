from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from planted_observations import observation
from simulated_board import Board, straight, sweep

from energyscope.errors import UsageError
from energyscope.reasons import reason
from energyscope.scaling.cells import (
    FIELDS,
    FLOOR,
    Cell,
    Observation,
    check_alike,
    common_parts,
    counts_executed,
    deviations,
    on_executed_flops,
)


def test_a_cell_is_plain_data() -> None:
    """GIVEN a cell WHEN it is written as JSON and read back THEN it is the same."""
    cell = sweep(Board(), "mlp", seed=1)[0]
    assert Cell(**json.loads(json.dumps(asdict(cell)))) == cell


@pytest.mark.parametrize("field", FIELDS)
def test_cells_that_differ_are_refused_unless_asked_for(field: str) -> None:
    """GIVEN one cell of another board (or any other field) THEN it is refused by name, or remarked on if asked."""
    cells = sweep(Board(), "mlp")[:2]
    other = [cells[0], replace(cells[1], **{field: "other"})]
    with pytest.raises(UsageError, match=f"several {field}s.*other"):
        check_alike(other)
    names = sorted({str(getattr(cells[0], field)), "other"})
    assert check_alike(other, (field,)) == (reason("cells-mixed", field=field, names=names),)
    assert check_alike(cells) == ()


@pytest.mark.parametrize(
    "change",
    [{"energy_mj": 0.0}, {"energy_mj": float("nan")}, {"time_us": 0.0}, {"calls": 0}, {"flops": -1.0}],
)
def test_what_no_measurement_gives_is_refused(change: dict[str, float]) -> None:
    """GIVEN an energy of 0, no time or negative work THEN there is no such cell."""
    with pytest.raises(ValueError, match="cell"):
        replace(sweep(Board(), "mlp")[0], **change)


def test_laws_count_executed_flops_where_all_cells_have_them() -> None:
    """GIVEN executed FLOPs of every cell THEN laws count those, and each cell keeps its nominal ones."""
    half = with_executed(observation(1, 64), 0.5)
    cell = half.cells["mlp"]
    (counted,), notes = on_executed_flops([half])
    assert (counted.cells["mlp"].flops, counted.cells["mlp"].nominal_flops) == (cell.flops / 2, cell.flops)
    assert notes == []
    assert counts_executed([counted])


def test_one_run_without_executed_flops_leaves_all_nominal() -> None:
    """GIVEN a run of before beside a new one THEN no law joins the two counts: all are nominal, with its name."""
    new, old = with_executed(observation(1, 64), 0.5), with_executed(observation(1, 32), None)
    observations, notes = on_executed_flops([new, old])
    assert observations == [new, old]
    assert notes == [reason("executed-flops-not-recorded", runs=["b1-s32"])]
    assert not counts_executed(observations)


def with_executed(measured: Observation, share: float | None) -> Observation:
    cells = {
        name: replace(cell, executed_flops=None if share is None else cell.flops * share)
        for name, cell in measured.cells.items()
    }
    return replace(measured, cells=cells)


def test_weights_join_the_cells_own_deviation_and_the_floor() -> None:
    """GIVEN a half-width of 1.96 sigma THEN the deviation is the root of sigma^2 + FLOOR^2, relative."""
    cells = [
        replace(
            cell,
            energy_low_mj=cell.energy_mj * (1 - 1.96 * 0.03),
            energy_high_mj=cell.energy_mj * (1 + 1.96 * 0.03),
        )
        for cell in straight(10, 1, [1e9, 2e9])
    ]
    energy = np.array([cell.energy_mj for cell in cells])
    assert deviations(cells) == pytest.approx(energy * np.hypot(0.03, FLOOR), rel=1e-3)


def test_a_cell_without_an_interval_is_no_better_than_the_worst() -> None:
    """GIVEN a cell without limits beside one of 10 % THEN both have the same relative deviation."""
    first, second, third = straight(10, 1, [1e9, 2e9, 4e9])
    vague = replace(first, energy_low_mj=first.energy_mj * 0.9, energy_high_mj=first.energy_mj * 1.1)
    unknown = replace(second, energy_low_mj=None, energy_high_mj=None)
    relative = deviations([vague, unknown, third]) / [vague.energy_mj, unknown.energy_mj, third.energy_mj]
    assert relative[1] == pytest.approx(relative[0])
    assert relative[2] < relative[0]


def test_parts_must_be_the_same() -> None:
    """GIVEN runs of two granularities THEN there is no sum, and the parts that differ are named."""
    first, second = observation(1, 32, run="a"), replace(observation(1, 64, run="b"), parts=("mlp.up", "mlp.down"))
    parts, why = common_parts([replace(first, parts=("mlp",)), second])
    assert parts == ()
    assert why == reason("parts-differ", first="a", second="b", parts=["mlp", "mlp.down", "mlp.up"])
    assert common_parts([first, replace(second, parts=())]) == (first.parts, None)
    assert common_parts([replace(first, parts=())])[0] == ()

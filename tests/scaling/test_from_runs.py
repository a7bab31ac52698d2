"""Cells of run directories: parts add up to the whole, nothing is counted twice, and nothing unknown becomes 0."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from run_builder import Shape, build_run

from energyscope.errors import RunError
from energyscope.runs.store import load_run
from energyscope.scaling.cells import OVERHEAD, RESIDUAL, UNEXPLAINED, WHOLE
from energyscope.scaling.from_runs import board_of, cells_of, limit_of

REPORTS = Path(__file__).resolve().parents[2] / "reports"


def only(run):
    (observation,) = cells_of(run)
    return observation


@pytest.mark.parametrize("granularity", ["medium", "fine"])
def test_parts_add_up_to_the_whole(tmp_path, granularity):
    """GIVEN a run with overhead WHEN its parts are added THEN they are the whole, nothing renormalised."""
    observation = only(build_run(tmp_path / "run", Shape(granularity=granularity)))
    assert set(RESIDUAL) <= set(observation.parts)
    assert math.isclose(
        sum(observation.cells[part].energy_mj for part in observation.parts), observation.cells[WHOLE].energy_mj
    )


def test_what_holds_parts_is_none(tmp_path):
    """GIVEN a fine run THEN layers, attention and MLPs have cells, and are not among the parts."""
    observation = only(build_run(tmp_path / "run"))
    groups = set(observation.cells) - set(observation.parts) - {WHOLE}
    assert groups == {"layer", "attention", "mlp"}


def test_a_kind_is_summed_over_the_layers(tmp_path):
    """A cell's energy, FLOPs, bytes, time and calls are the sums of its components' rows."""
    run = build_run(tmp_path / "run")
    cell = only(run).cells["mlp.up"]
    rows = run.energy[run.energy["kind"] == "mlp.up"]
    assert len(rows) == 4
    for name, column in (
        ("energy_mj", "energy_mj"),
        ("flops", "flops"),
        ("executed_flops", "executed_flops"),
        ("bytes", "bytes"),
        ("time_us", "time_us"),
    ):
        assert math.isclose(getattr(cell, name), rows[column].sum())
    assert cell.calls == rows["calls"].sum()


def test_the_whole_model_calls_its_layers(tmp_path):
    """What grows with the launches of a whole model is the number of its layers."""
    assert only(build_run(tmp_path / "run", Shape(layers=7), model={"layers": 7})).cells[WHOLE].calls == 7


def test_an_invalid_row_takes_part(tmp_path):
    """GIVEN rows of quality `invalid` THEN their energy counts, with its interval."""
    run = build_run(tmp_path / "run")
    before = only(run).cells["lm_head"]
    run.energy["quality"] = "invalid"
    assert only(run).cells["lm_head"] == before
    assert before.energy_low_mj < before.energy_mj < before.energy_high_mj


def test_a_row_without_energy_keeps_its_kind_out(tmp_path):
    """GIVEN one norm without energy THEN norms have no cell but a reason, and there is no sum over parts."""
    run = build_run(tmp_path / "run")
    run.energy.loc[run.energy["component"].str.endswith("h.1.ln_1"), "energy_mj"] = None
    observation = only(run)
    lacking = observation.left_out["norm"]
    assert (lacking.code, lacking.values["missing"]) == ("components-without-energy", 1)
    assert lacking.values["component"].endswith("h.1.ln_1")
    assert "norm" not in observation.cells
    assert observation.parts == ()
    assert UNEXPLAINED not in observation.cells


def test_without_work_there_is_no_cell(tmp_path):
    """GIVEN a run from before FLOPs and bytes were counted THEN all reasons say so."""
    run = build_run(tmp_path / "run")
    run.energy[["flops", "bytes"]] = None
    observation = only(run)
    assert observation.cells == {}
    assert observation.left_out[WHOLE].code == "no-flops-or-bytes"


def test_a_run_from_before_executed_flops_has_cells_without_them(tmp_path):
    """GIVEN a table without the column THEN cells have nominal FLOPs, and no executed ones."""
    run = build_run(tmp_path / "run")
    del run.energy["executed_flops"]
    cells = only(run).cells
    assert all(cell.flops for cell in (cells[WHOLE], cells["mlp.up"]))
    assert {cell.executed_flops for cell in cells.values()} == {None}


def test_overhead_that_was_not_measured_is_not_zero(tmp_path):
    """GIVEN no overhead THEN neither it nor what is unexplained is told, and why."""
    observation = only(build_run(tmp_path / "run", Shape(glue=False)))
    assert not set(RESIDUAL) & set(observation.cells)
    assert observation.left_out[OVERHEAD].code == "overhead-not-measured"
    assert observation.parts == ()


def test_modelled_joules_have_no_static_part(tmp_path):
    """GIVEN a modelled run THEN its cells say so by their meter, and no roofline can be fitted to them."""
    cells = only(build_run(tmp_path / "run", Shape(modelled=True))).cells
    assert {cell.meter for cell in cells.values()} == {"modelled"}
    assert {cell.static_mj for cell in cells.values()} == {None}


def test_each_moment_has_its_cells():
    """GIVEN the report of a generation THEN its prefill and both contexts of its steps are apart."""
    observations = cells_of(load_run(REPORTS / "llama-3.2-1b-generation-h200"))
    assert [(item.phase, item.tokens, item.kv_cache) for item in observations] == [
        ("prefill", 128, "dynamic"), ("decode", 1024, "dynamic"), ("decode", 192, "dynamic"),
    ]  # fmt: skip
    assert observations[1].cells["mlp.up"].flops < observations[0].cells["mlp.up"].flops
    assert set(observations[2].cells) == {WHOLE}
    assert observations[2].parts == ()


def test_a_run_without_a_profile_is_refused(tmp_path):
    """GIVEN a run of a benchmark alone THEN the message says which stage is missing."""
    with pytest.raises(RunError, match="--stages profile"):
        cells_of(build_run(tmp_path / "run", Shape(profile=False, benchmark=True)))


@pytest.mark.parametrize(
    ("device", "board"),
    [
        ({"uuid": "GPU-1", "name": "H200"}, "GPU-1"),
        ({"uuid": "GPU-1", "measured": ["GPU-2", "GPU-1"]}, "GPU-1+GPU-2"),
        ({"uuid": None, "name": "a processor", "measured": []}, "a processor"),
        ({}, "unknown"),
    ],
)
def test_a_board_is_what_its_joules_come_from(device, board):
    """A GPU is its UUID, several are all of them, and a CPU has a name alone."""
    assert board_of({"device": device}) == board


@pytest.mark.parametrize(
    ("document", "limit"),
    [
        ({"device": {"power_limit_w": 400.0, "default_power_limit_w": 700.0}}, "400 W"),
        ({"device": {"power_limit_w": 700.0, "default_power_limit_w": 700.0}}, ""),
        ({"device": {"power_limit_w": 400.0, "default_power_limit_w": None}}, ""),
        ({"device": None}, ""),
        ({"settings": {"locked_clock_mhz": 1200.0}, "device": {}}, "1200 MHz"),
    ],
)
def test_what_a_board_was_held_to(document, limit):
    """A power limit below the default is one, whoever set it; a locked clock is known of a sweep's cells alone."""
    assert limit_of(document) == limit

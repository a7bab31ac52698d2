"""A sweep over limits: each cell at its own, the board put back at the end, and refusals before anything."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
import torch

from energyscope.errors import MeterError, UsageError
from energyscope.metering.claims import claimed
from energyscope.metering.nvml.board import Board
from energyscope.runs.store import load_run
from energyscope.runs.sweeps import sweep_rows
from energyscope.scaling.from_runs import limit_of
from energyscope.settings.run import RunSettings
from energyscope.stages import resume_sweep, sweep_limits
from energyscope.stages import sweep as module
from energyscope.stages.measured_devices import MeasuredDevices
from energyscope.stages.resume_sweep import settings_in
from energyscope.stages.sweep import SweepSettings, sweep

RUN: dict[str, Any] = {
    "granularity": "coarse", "layers": "kinds", "phase": "prefill", "passes": 2, "component_budget_s": 0.05,
    "window_s": 0.02,
}  # fmt: skip


def settings(root: Path, **options: Any) -> SweepSettings:
    run = {**RUN, **options.pop("run", {})}
    return SweepSettings(
        RunSettings("tiny-gpt2", root=root, **run),
        **{"lengths": (8,), "name": "limited", "allow_clock_changes": True, **options},
    )


@pytest.fixture
def board(fake_nvml, monkeypatch):
    """A fake GPU of 700 W that is held to 650; models run on the CPU, as if they ran there."""
    name = f"GPU-{uuid.uuid4()}"
    fake_nvml(f"gpu {name} Fake H200\nat 0 limit_w 650")
    here = MeasuredDevices(torch.device("cpu"), (name,))
    monkeypatch.setattr(module, "find_devices", lambda _: here)
    real = module.open_meters
    monkeypatch.setattr(module, "open_meters", lambda run, _: real(run, ()))
    return Board(name)


def now(board: Board) -> tuple[float, float]:
    state = board.state()
    return state["power_limit_w"], state["sm_clock_mhz"]


def test_every_cell_is_measured_at_its_limit(board, tmp_path, monkeypatch):
    """GIVEN two power limits and a clock THEN cells run at these, in turn, and the board is put back."""
    seen = {}
    real = module.run_loaded

    def run_loaded(chosen: RunSettings, *rest: Any, **options: Any) -> Any:
        seen[chosen.name] = now(board)
        return real(chosen, *rest, **options)

    monkeypatch.setattr(module, "run_loaded", run_loaded)
    made = sweep(settings(tmp_path, power_limits=(400, 300), clocks=(1200,)))
    assert seen == {
        "fp32-b1-s8": (650, 1980),
        "fp32-b1-s8-400W": (400, 1980),
        "fp32-b1-s8-300W": (300, 1980),
        "fp32-b1-s8-1200MHz": (650, 1200),
    }
    assert now(board) == (650, 1980)
    assert {cell.state for cell in made.cells} == {"done"}
    assert [row["held_to"] for row in sweep_rows(made)] == ["", "400 W", "300 W", "1200 MHz"]
    clocks = [load_run(made.path / name).document["settings"]["locked_clock_mhz"] for name in seen]
    assert clocks == [None, None, None, 1200.0]
    assert settings_in(made).limits == ("", "400 W", "300 W", "1200 MHz")


def test_the_board_is_put_back_where_a_cell_is_interrupted(board, tmp_path, monkeypatch):
    """GIVEN Ctrl-C in the middle of a limited cell THEN it is as it was found before the sweep ends."""

    def run_loaded(*_: Any, **__: Any) -> Any:
        if now(board)[0] == 400:
            raise KeyboardInterrupt
        raise UsageError("not measured")

    monkeypatch.setattr(module, "run_loaded", run_loaded)
    with pytest.raises(KeyboardInterrupt):
        sweep(settings(tmp_path, power_limits=(400,)))
    assert now(board) == (650, 1980)


def test_a_limit_above_the_default_is_one_too(board, fake_nvml, tmp_path):
    """GIVEN a board of at most 600 W, 450 by default, THEN 600 W is a limit, is measured once, and is put back."""
    fake_nvml(f"gpu {board.uuid} Fake RTX\nat 0 default_limit_w 450\nat 0 max_limit_w 600\nat 0 limit_w 450")
    made = sweep(settings(tmp_path, power_limits=(600, 450, 600)))
    assert [cell.held_to for cell in made.cells] == ["", "600 W", "450 W"]
    assert {cell.state for cell in made.cells} == {"done"}
    assert now(board)[0] == 450
    device = {"default_power_limit_w": 450.0}
    assert [limit_of({"device": {**device, "power_limit_w": watts}}) for watts in (600.0, 450.0)] == ["600 W", ""]


def test_a_gpu_that_others_use_is_left_alone(board, tmp_path):
    """GIVEN a run of somebody on the board THEN the sweep is refused, and no limit is changed."""
    with claimed([board.uuid], "another"), pytest.raises(UsageError, match="another process uses this GPU"):
        sweep(settings(tmp_path, power_limits=(400,)))
    assert now(board) == (650, 1980)


def test_a_resume_that_may_not_change_it_loses_nothing(board, fake_nvml, tmp_path, monkeypatch):
    """GIVEN a limited sweep that was stopped WHEN who resumes it may set no limit THEN it stays as it was."""
    monkeypatch.setattr(resume_sweep, "find_devices", module.find_devices)
    monkeypatch.setattr(resume_sweep, "_check_alike", lambda *_: None)  # the model is on the CPU here
    real, limited = module.run_loaded, []

    def run_loaded(chosen: RunSettings, *rest: Any, **options: Any) -> Any:
        limited.append(chosen.name)
        if len(limited) > 1:
            raise KeyboardInterrupt
        return real(chosen, *rest, **options)

    monkeypatch.setattr(module, "run_loaded", run_loaded)
    with pytest.raises(KeyboardInterrupt):
        sweep(settings(tmp_path, power_limits=(400,)))
    before = (tmp_path / "limited" / "sweep.json").read_text()
    fake_nvml(f"gpu {board.uuid} Fake H200\nat 0 fail nvmlDeviceSetPowerManagementLimit 4")
    with pytest.raises(MeterError, match="cannot be set"):
        resume_sweep.resume(tmp_path / "limited")
    assert (tmp_path / "limited" / "sweep.json").read_text() == before


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"power_limits": (100,)}, "takes power limits of 200 to 700 W, not 100 W"),
        ({"clocks": (3000,)}, "at most 1980 MHz, not 3000 MHz"),
    ],
)
def test_limits_out_of_range_are_refused_before_anything(board, tmp_path, limits, message):
    """GIVEN a limit that the board does not take THEN one line says what it takes, and no directory is made."""
    with pytest.raises(UsageError, match=message):
        sweep(settings(tmp_path, **limits))
    assert not (tmp_path / "limited").exists()
    assert now(board) == (650, 1980)


def test_who_may_not_change_it_is_told_before_anything(fake_nvml, tmp_path, monkeypatch):
    """GIVEN a user who may not set limits THEN the sweep is refused before a directory is made."""
    name = f"GPU-{uuid.uuid4()}"
    fake_nvml(f"gpu {name} Fake H200\nat 0 fail nvmlDeviceSetPowerManagementLimit 4")
    monkeypatch.setattr(module, "find_devices", lambda _: MeasuredDevices(torch.device("cpu"), (name,)))
    with pytest.raises(MeterError, match="power limit of this GPU cannot be set"):
        sweep(settings(tmp_path, power_limits=(400,)))
    assert not (tmp_path / "limited").exists()


def test_a_model_on_the_cpu_has_no_limits(tmp_path):
    """GIVEN no NVIDIA GPU THEN limits are refused in one line."""
    where = MeasuredDevices(torch.device("cpu"), ())
    with (
        pytest.raises(UsageError, match="for a model on one NVIDIA GPU"),
        sweep_limits.limits_held(("", "400 W"), where),
    ):
        pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power_limits": (400,), "allow_clock_changes": False}, "--power-limit changes the GPU for all"),
        ({"clocks": (1200,), "allow_clock_changes": False}, "--gpu-clock changes the GPU for all"),
        ({}, "--allow-clock-changes is for --power-limit and --gpu-clock"),
        ({"power_limits": (400,), "models": ("tiny-gpt2", "tiny-llama")}, "for one model and execution"),
        ({"power_limits": (400,), "run": {"device": "cpu"}}, "changes one GPU"),
        ({"power_limits": (400,), "run": {"meter": "modelled"}}, "--meter modelled does not see"),
        ({"power_limits": (0,)}, "--power-limit must be 1 or more"),
    ],
)
def test_what_limits_cannot_be_combined_with(tmp_path, options, message):
    """Limits need leave to change the GPU, one model in this process, and a GPU."""
    with pytest.raises(UsageError, match=message):
        settings(tmp_path, **options).check()

"""A sweep's plan: every cell, why one is not possible, and nothing loaded, measured or written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from energyscope.errors import UsageError
from energyscope.settings.run import RunSettings
from energyscope.stages import sweep_dry_run as module
from energyscope.stages import sweep_engine
from energyscope.stages.sweep import SweepSettings
from energyscope.stages.sweep_dry_run import in_bytes, preview_sweep, seconds_of
from energyscope.stages.sweep_engine import workers_of


def settings(root: Path, model: str = "tiny-gpt2", **options: Any) -> SweepSettings:
    run = RunSettings(model, root=root, layers="kinds", device="cpu", phase=options.pop("phase", "prefill"))
    return SweepSettings(run, **{"lengths": (16, 64), "batch_sizes": (1, 4), **options})


def test_every_cell_is_there_and_nothing_is_made(tmp_path: Path) -> None:
    """The cells are the sweep's in their order, with a time, and the directory of runs is not made."""
    asked = settings(tmp_path / "runs", precisions=("fp32", "bf16"))
    plan = preview_sweep(asked)
    assert [cell.name for cell in plan.cells] == [cell.name for cell in asked.cells()]
    assert (plan.measured, plan.done, plan.stopped) == (8, 0, None)
    assert plan.windows > 0
    assert 0 < plan.seconds <= plan.seconds_most
    assert not (tmp_path / "runs").exists()


def test_a_length_without_positions_stops_the_sweep(tmp_path: Path) -> None:
    """GIVEN a length beyond the model's positions THEN its cells say so, the others do not, nor would it begin."""
    plan = preview_sweep(settings(tmp_path, lengths=(16, 4096)))
    assert {cell.tokens for cell in plan.cells if cell.refused} == {4096}
    assert "tiny-gpt2 has 512 positions" in str(plan.stopped)


def test_only_impossible_lengths_are_a_plan_too(tmp_path: Path) -> None:
    """GIVEN no possible cell THEN there is still a plan that says why."""
    plan = preview_sweep(settings(tmp_path, lengths=(4096,)))
    assert (plan.measured, plan.parameters) == (0, None)


def test_what_a_cell_holds_is_no_more_than_it_takes(tmp_path: Path) -> None:
    """The largest cell holds its weights and logits at least; smaller ones are not counted while that has room."""
    plan = preview_sweep(settings(tmp_path))
    counted = {cell.name: cell.least_bytes for cell in plan.cells if cell.least_bytes is not None}
    assert list(counted) == ["fp32-b4-s64"]
    assert plan.parameters is not None
    assert counted["fp32-b4-s64"] >= 4 * plan.parameters


def test_a_cell_beyond_the_memory_is_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN room for the weights and little more THEN the large cell does not fit, and the small one is tried."""
    monkeypatch.setattr(module, "usable_bytes", lambda _: 6_000_000)
    plan = preview_sweep(settings(tmp_path, batch_sizes=(1, 64), lengths=(16, 512)))
    refused = {cell.name: cell.refused for cell in plan.cells}
    assert "does not fit: it holds " in str(refused["fp32-b64-s512"])
    assert "6 MB are free" in str(refused["fp32-b64-s512"])
    assert refused["fp32-b1-s16"] is None


def test_only_waiting_cells_are_planned(tmp_path: Path) -> None:
    """GIVEN a sweep that is gone on with THEN its finished cells are counted and not planned."""
    plan = preview_sweep(settings(tmp_path), waiting={"fp32-b4-s64"})
    assert ([cell.name for cell in plan.cells], plan.done) == (["fp32-b4-s64"], 3)
    assert preview_sweep(settings(tmp_path), waiting=()).cells == ()


def test_cells_are_shared_out_to_workers(tmp_path: Path) -> None:
    """GIVEN two workers and three equal cells THEN one of them measures two."""
    plan = replace(preview_sweep(settings(tmp_path, workers=2)), seconds=10.0, seconds_most=20.0)
    plan = replace(plan, cells=plan.cells[:3])
    assert plan.workers == 2
    assert seconds_of([plan], 1) == (30.0, 60.0)
    assert seconds_of([plan], 2) == (20.0, 40.0)
    assert seconds_of([plan, plan], 9) == (10.0, 20.0)


@pytest.mark.parametrize(
    ("options", "workers"),
    [
        ({"engine": "auto"}, 1),
        ({"engine": "local"}, 1),
        ({"engine": "ray", "workers": 3}, 3),
        ({"engine": "ray", "address": "auto"}, None),
        ({"engine": "slurm", "workers": 4}, 4),
        ({"engine": "slurm"}, None),
    ],
)
def test_how_many_cells_are_measured_at_once(tmp_path: Path, options: dict[str, Any], workers: int | None) -> None:
    """Known without asking a cluster, or not at all."""
    assert workers_of(settings(tmp_path, **options)) == workers


def test_a_worker_for_each_gpu(
    tmp_path: Path, fake_nvml: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a GPU and two MIG slices of another one, which take turns, THEN two cells are measured at once."""
    fake_nvml("gpu GPU-a Fake H200\ngpu GPU-b Fake H200\nmig MIG-1 Slice\nmig MIG-2 Slice")
    monkeypatch.setattr(sweep_engine, "pick_device", lambda _: torch.device("cuda"))
    assert workers_of(settings(tmp_path, engine="local", gpus=("GPU-a", "MIG-1", "MIG-2"))) == 2


def test_what_generates_no_text_has_no_steps(tmp_path: Path) -> None:
    """GIVEN an encoder WHEN decode steps are planned THEN it is refused as the sweep would be."""
    with pytest.raises(UsageError, match="generates no text"):
        preview_sweep(settings(tmp_path, "tiny-distilbert", phase="decode"))


@pytest.mark.parametrize(
    ("amount", "words"), [(2_130_000, "2.13 MB"), (5_210_000_000, "5.21 GB"), (10**12, "1,000 GB")]
)
def test_memory_is_written_in_fitting_units(amount: int, words: str) -> None:
    """Three digits, and no powers of ten."""
    assert in_bytes(amount) == words

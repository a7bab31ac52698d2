"""A sweep by an engine: several models, each cell a process, the same rows whoever measures them."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyscope.engines.cell import CellTask
from energyscope.errors import DeviceError
from energyscope.runs.laws import load_laws
from energyscope.runs.store import load_run
from energyscope.runs.sweeps import TABLE_FILE, Sweep, load_sweep, write_sweep
from energyscope.settings.run import RunSettings
from energyscope.settings.sweep import SweepSettings
from energyscope.stages import sweep_engine
from energyscope.stages.resume_sweep import preview_resume, resume
from energyscope.stages.sweep import sweep

TOO_LONG = 4096  # more than gpt2 has positions, and not more than llama-3.2-1b


def settings(root: Path, **options: Any) -> SweepSettings:
    common = RunSettings(
        "tiny-gpt2", granularity="coarse", layers="kinds", phase="prefill", device="cpu", passes=2,
        component_budget_s=0.05, window_s=0.02, root=root,
    )  # fmt: skip
    return SweepSettings(
        common,
        **{"models": ("tiny-gpt2", "tiny-llama"), "lengths": (8,), "name": "swept", "workers": 2, **options},
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A sweep of two models by two processes; not to be changed."""
    return sweep(settings(tmp_path_factory.mktemp("runs")))


def rows(made: Sweep) -> list[dict[str, str]]:
    with (made.path / TABLE_FILE).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_cell_is_a_run_of_its_model(made: Sweep) -> None:
    """Names say which model, and each run has its own; the table and the laws hold all of them."""
    assert [cell.name for cell in made.cells] == ["tiny-gpt2-auto-b1-s8", "tiny-llama-auto-b1-s8"]
    for cell, row in zip(made.cells, rows(made), strict=True):
        run = load_run(made.path / cell.name)
        assert run.document["model"]["name"] == cell.model == row["model"]
        assert run.document["workload"]["sequence_length"] == cell.tokens
        assert (cell.state, row["precision"], bool(cell.host)) == ("done", "fp32", True)
        assert float(row["energy_mj"]) > 0
    assert {source["model"] for source in load_laws(made.path)["sources"]} == {"tiny-gpt2", "tiny-llama"}


def test_ray_measures_the_same_cells(made: Sweep, tmp_path: Path) -> None:
    """GIVEN Ray instead of threads THEN the same cells, rows and settings of each run; joules are modelled."""
    by_ray = sweep(settings(tmp_path, engine="ray"))
    alike = ("cell", "model", "execution", "precision", "batch_size", "tokens", "phase", "state", "reason", "run")
    assert [[row[key] for key in alike] for row in rows(by_ray)] == [
        [row[key] for key in alike] for row in rows(made)
    ]
    for cell in made.cells:
        one, other = (dict(load_run(each.path / cell.name).document["settings"]) for each in (made, by_ray))
        assert {**one, "root": None} == {**other, "root": None}


def test_what_was_finished_and_not_recorded_is_not_measured_again(made: Sweep, tmp_path: Path) -> None:
    """GIVEN a sweep that was killed after a cell ended THEN its resume finds that one, and measures the other."""
    copy = replace(made, path=tmp_path / "swept", cells=[replace(cell, state="waiting") for cell in made.cells])
    shutil.copytree(made.path, copy.path)
    write_sweep(copy)
    shutil.rmtree(copy.path / made.cells[-1].name)
    before = (copy.path / made.cells[0].name / "run.json").read_bytes()
    assert [plan.measured for plan in preview_resume(copy.path)] == [1, 1]
    done = resume(copy.path)
    assert [cell.state for cell in done.cells] == ["done"] * 2
    assert [cell.seconds is None for cell in done.cells] == [True, False]
    assert (copy.path / made.cells[0].name / "run.json").read_bytes() == before


def test_a_length_that_one_model_has_no_positions_for_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN two models THEN what one of them cannot do is recorded, and no worker is asked for it."""
    asked: list[CellTask] = []

    class Engine:
        def check(self) -> None: ...

        def measure(self, tasks: list[CellTask]) -> Any:
            asked.extend(tasks)
            yield from ()

    monkeypatch.setattr(sweep_engine, "engine_of", lambda *_: Engine())
    with pytest.raises(DeviceError, match="no cell of the sweep was measured"):
        sweep(settings(tmp_path, models=("gpt2", "llama-3.2-1b"), lengths=(TOO_LONG,)))
    cells = load_sweep(tmp_path / "swept").cells
    assert [cell.state for cell in cells] == ["failed", "waiting"]
    assert "is too long" in str(cells[0].reason)
    assert [task.name for task in asked] == [f"llama-3.2-1b-auto-b1-s{TOO_LONG}"]


def test_a_worker_is_told_all_that_a_cell_is(tmp_path: Path) -> None:
    """The words are a command line of `energyscope run`: the model, and every setting that is no default."""
    asked = settings(tmp_path, executions=("eager", "cuda-graph"), precisions=("bf16",), batch_sizes=(4,))
    made = Sweep(tmp_path / "swept", "swept", "", "", None, {}, asked.cells())
    [*_, last] = made.cells
    task = sweep_engine.task_of(asked, made, last, on_gpu=True)
    assert task.name == "tiny-llama-cuda-graph-bf16-b4-s8"
    assert task.options == (
        "tiny-llama", "--granularity=coarse", "--precision=bf16", "--phase=prefill", "--batch-size=4",
        "--sequence-length=8", "--stages=profile", "--layers=kinds", "--execution=cuda-graph", "--device=cpu",
        "--passes=2", "--component-budget=0.05", "--window=0.02",
    )  # fmt: skip

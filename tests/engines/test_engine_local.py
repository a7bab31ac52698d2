"""Cells on this machine: one at a time in each place, and what becomes of cells and places that are lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from energyscope.engines import RETRIES
from energyscope.engines import local as module
from energyscope.engines.cell import CellLostError, CellResult, CellTask
from energyscope.engines.local import LocalEngine


def tasks(root: Path, count: int, **fields: object) -> list[CellTask]:
    return [CellTask(f"cell{number}", str(root), ("--help",), on_gpu=False, **fields) for number in range(count)]  # type: ignore[arg-type]


class Worker:
    """Stands for `measure_cell`: takes a while, and loses what it is told to lose."""

    def __init__(self, lost: dict[str, int] | None = None, dead: str | None = None) -> None:
        self.lost, self.dead = Counter(lost or {}), dead
        self.busy: Counter[str] = Counter()
        self.most = 0
        self.places: list[tuple[str, str]] = []
        self.lock = threading.Lock()

    def __call__(self, task: CellTask, stop: threading.Event) -> CellResult:
        place = task.gpus[0] if task.gpus else "cpu"
        with self.lock:
            self.places.append((task.name, place))
            self.busy[place] += 1
            self.most = max(self.most, self.busy[place])
        stop.wait(0.05)
        with self.lock:
            self.busy[place] -= 1
            self.lost[task.name] -= 1
        if place == self.dead:
            raise CellLostError("its GPU is gone", place, gpu_is_lost=True)
        if self.lost[task.name] >= 0:
            raise CellLostError("it was killed", place)
        return CellResult(task.name, "done", gpu=place)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker()
    monkeypatch.setattr(module, "measure_cell", made)
    monkeypatch.setattr(module, "LOOK_S", 0.02)
    return made


def test_each_gpu_measures_one_cell_at_a_time(worker: Worker, tmp_path: Path) -> None:
    """GIVEN two GPUs THEN both are used, neither for two cells at once, and each cell is done once."""
    results = list(LocalEngine(["A", "B"]).measure(tasks(tmp_path, 9)))
    assert sorted(result.name for result in results) == [f"cell{number}" for number in range(9)]
    assert {result.gpu for result in results} == {"A", "B"}
    assert worker.most == 1


def test_a_cell_of_one_gpu_is_measured_there(worker: Worker, tmp_path: Path) -> None:
    """GIVEN cells that are for B THEN A takes none of them."""
    assert {result.gpu for result in LocalEngine(["A", "B"]).measure(tasks(tmp_path, 4, gpus=("B",)))} == {"B"}


def test_a_lost_cell_is_measured_again_but_not_for_ever(worker: Worker, tmp_path: Path) -> None:
    """GIVEN a cell that is lost once, and one that always is, THEN the first is done, and the other failed."""
    worker.lost.update(cell0=1, cell1=99)
    results = {result.name: result for result in LocalEngine([None]).measure(tasks(tmp_path, 3))}
    assert [results[f"cell{number}"].state for number in range(3)] == ["done", "failed", "done"]
    assert results["cell1"].why == f"lost {RETRIES + 1} times: it was killed"


def test_a_lost_gpu_measures_nothing_more(worker: Worker, tmp_path: Path) -> None:
    """GIVEN a GPU that is gone THEN its cell is measured elsewhere; when the last one goes, the others say so."""
    worker.dead = "A"
    results = list(LocalEngine(["A", "B"]).measure(tasks(tmp_path, 5)))
    assert {result.gpu for result in results} == {"B"}
    assert sum(place == "A" for _, place in worker.places) == 1
    left = list(LocalEngine(["A"]).measure(tasks(tmp_path, 2)))
    assert {(result.state, result.why) for result in left} == {("failed", "no GPU is left")}


def test_cells_of_a_gpu_that_is_gone_do_not_wait_for_it(worker: Worker, tmp_path: Path) -> None:
    """GIVEN cells that are for a GPU that is lost, or was never there, THEN they fail, and the others are done."""
    worker.dead = "A"
    [first, second, other] = tasks(tmp_path, 3)
    given = [replace(first, gpus=("A",)), replace(second, gpus=("C",)), replace(other, gpus=("B",))]
    results = {result.name: result for result in LocalEngine(["A", "B"]).measure(given)}
    assert [results[task.name].state for task in given] == ["failed", "failed", "done"]
    assert "C is not visible here" in str(results[second.name].why)


def test_an_unforeseen_error_is_the_reason_of_its_cell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIVEN a defect in a worker THEN its cell has failed with it, and nothing waits for ever."""

    def broken(task: CellTask, stop: threading.Event) -> CellResult:
        raise ValueError(f"{task.name} is broken")

    monkeypatch.setattr(module, "measure_cell", broken)
    assert [result.why for result in LocalEngine([None]).measure(tasks(tmp_path, 1))] == ["cell0 is broken"]


def test_who_stops_early_stops_all_places(worker: Worker, tmp_path: Path) -> None:
    """WHEN no more results are wanted THEN the threads end with the cells that they measure."""
    with closing(LocalEngine(["A", "B"]).measure(tasks(tmp_path, 50))) as results:  # type: ignore[type-var]
        next(results)
    begun = len(worker.places)
    time.sleep(0.2)
    assert len(worker.places) == begun < 50

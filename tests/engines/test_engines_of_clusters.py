"""Ray and Slurm: the same cells, the same results as here, by processes that these start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from energyscope.engines.cell import CellResult, CellTask
from energyscope.engines.on_ray import RayEngine
from energyscope.engines.on_slurm import Queue, SlurmEngine
from energyscope.errors import UsageError

OPTIONS = (
    "tiny-gpt2", "--device=cpu", "--stages=profile", "--granularity=coarse", "--passes=1", "--window=0.02",
    "--component-budget=0.05", "--sequence-length=8", "--layers=kinds",
)  # fmt: skip


def tasks(root: Path) -> list[CellTask]:
    wrong = CellTask("wrong", str(root), ("no-such-model",), on_gpu=False)
    return [wrong, *(CellTask(f"cell{number}", str(root), OPTIONS, on_gpu=False) for number in range(2))]


@pytest.mark.parametrize(
    "engine", [RayEngine(None, workers=2, gpus=0), SlurmEngine(2, cluster="local")], ids=["ray", "slurm"]
)
def test_cells_are_measured_by_workers(engine: RayEngine | SlurmEngine, tmp_path: Path) -> None:
    """GIVEN two cells and one that cannot be THEN two runs are there, and the third says what its run said."""
    engine.check()
    results = {result.name: result for result in engine.measure(tasks(tmp_path))}
    assert {name: result.state for name, result in results.items()} == {
        "wrong": "failed", "cell0": "done", "cell1": "done",
    }  # fmt: skip
    assert str(results["wrong"].why).startswith("no model is called")
    assert all((tmp_path / name / "per_layer_energy.csv").is_file() for name in ("cell0", "cell1"))


def test_a_cluster_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIVEN no sbatch on the path THEN it is said before anything is made."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="use a login node"):
        SlurmEngine(1).check()


@pytest.mark.parametrize(
    ("engine", "package"), [(RayEngine(None, 1, 0), "ray"), (SlurmEngine(1), "slurm")], ids=["ray", "slurm"]
)
def test_a_missing_package_is_named(
    engine: RayEngine | SlurmEngine, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN an installation without the extra THEN the message says what to install."""
    monkeypatch.setattr(f"energyscope.engines.on_{package}.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=rf"pip install 'energyscope-llm\[{package}\]'"):
        engine.check()


def test_a_cell_whose_jobs_are_lost_has_failed_in_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIVEN jobs that are always lost THEN each cell is submitted three times, and then has failed."""
    rounds: list[int] = []

    def lost(
        _engine: SlurmEngine, _module: object, given: list[CellTask]
    ) -> Iterator[tuple[CellTask, CellResult]]:
        rounds.append(len(given))
        yield from ((task, CellResult(task.name, "lost", "NODE_FAIL")) for task in given)

    monkeypatch.setattr(SlurmEngine, "_round", lost)
    results = list(SlurmEngine(2, cluster="local").measure(tasks(tmp_path)))
    assert rounds == [3, 3, 3]
    assert {(result.state, result.why) for result in results} == {("failed", "lost 3 times: NODE_FAIL")}


def squeue(folder: Path, *answers: str) -> Queue:
    """Return a queue of which ``squeue`` gives one answer after the other; an empty one is no answer."""
    for number, answer in enumerate(answers):
        (folder / f"{number}").write_text(answer, encoding="utf-8")
    code = (
        "import pathlib, sys; first = min(pathlib.Path(sys.argv[1]).iterdir());"
        "answer = first.read_text(); first.unlink(); print(answer); sys.exit(not answer)"
    )
    return Queue((sys.executable, "-c", code, str(folder)))


@pytest.mark.parametrize(
    ("answers", "gone"),
    [
        (["7_0 7_1", "7_1", "7_1"], [set(), set(), {"7_0"}]),
        (["7_1", "7_0 7_1", "7_1"], [set(), set(), set()]),
        (["7_1", "", "7_1"], [set(), set(), {"7_0"}]),
        (["", "", ""], [set(), set(), set()]),
    ],
    ids=["ended", "submitted late", "controller away for a while", "controller away"],
)
def test_a_job_is_gone_that_two_looks_at_the_queue_lack(
    answers: list[str], gone: list[set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN looks at Slurm's queue THEN only a job that two that were answered lack has ended."""
    monkeypatch.setattr("energyscope.engines.on_slurm.QUEUE_LOOK_S", 0.0)
    monkeypatch.setattr("energyscope.engines.on_slurm.ANSWER_S", 30.0)
    queue = squeue(tmp_path, *answers)
    assert [queue.left_by(["7_0", "7_1"]) for _ in answers] == gone


def test_the_queue_is_not_asked_more_often_than_it_should_be(tmp_path: Path) -> None:
    """GIVEN two looks at once THEN the controller is asked once."""
    queue = squeue(tmp_path, "7_1", "7_1")
    assert [queue.left_by(["7_0"]) for _ in range(2)] == [set(), set()]
    assert len(list(tmp_path.iterdir())) == 1

"""A cell of a sweep as a process: how it ends, that it is measured once, and that it never outlives its worker."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from energyscope.engines import cell as module
from energyscope.engines.cell import LOGS, CellLostError, CellTask, measure_cell

RUN = ("tiny-gpt2", "--device=cpu", "--stages=profile", "--granularity=coarse", "--layers=kinds", "--passes=1")
LONG = (*RUN, "--window=20")
SHORT = (*RUN, "--window=0.02", "--component-budget=0.05", "--sequence-length=8")


def task(root: Path, name: str = "cell", options: tuple[str, ...] = SHORT) -> CellTask:
    return CellTask(name, str(root), options, on_gpu=False)


def processes_of(root: Path) -> list[int]:
    """Return the processes whose command line names a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and f"--root={root}".encode() in words:
            found.append(int(entry.name))
    return found


def wait_for(condition: object, seconds: float = 60.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_a_cell_is_a_run_and_is_measured_once(tmp_path: Path) -> None:
    """GIVEN a cell that is given out twice THEN the second worker finds it finished, and touches nothing."""
    first = measure_cell(task(tmp_path))
    document = (tmp_path / "cell" / "run.json").read_text(encoding="utf-8")
    assert (first.state, first.why) == ("done", None)
    assert first.seconds is not None
    assert json.loads(document)["stages"]["profile"]["state"] == "done"
    second = measure_cell(task(tmp_path))
    assert (second.state, second.seconds) == ("done", None)
    assert (tmp_path / "cell" / "run.json").read_text(encoding="utf-8") == document


def test_a_cell_that_fails_says_what_its_run_said(tmp_path: Path) -> None:
    """The reason is the run's own line, and all that it printed is kept."""
    result = measure_cell(task(tmp_path, options=("no-such-model",)))
    assert result.state == "failed"
    assert str(result.why).startswith("no model is called 'no-such-model'")
    assert "no-such-model" in (tmp_path / LOGS / "cell.txt").read_text(encoding="utf-8")


def test_what_was_left_half_way_is_measured_anew(tmp_path: Path) -> None:
    """GIVEN what a killed worker left THEN nothing of it stays; a link in a cell's place is not followed."""
    left = tmp_path / "cell"
    left.mkdir()
    (left / "left-behind").touch()
    assert measure_cell(task(tmp_path)).state == "done"
    assert not (left / "left-behind").exists()
    (tmp_path / "linked").symlink_to(left)
    assert "is a link" in str(measure_cell(task(tmp_path, "linked")).why)
    assert (left / "run.json").exists()


def test_a_killed_process_is_lost_and_not_failed(tmp_path: Path) -> None:
    """GIVEN a run that is killed THEN the cell can be measured elsewhere: that is no result."""

    def kill() -> None:
        wait_for(lambda: processes_of(tmp_path))
        for process in processes_of(tmp_path):
            os.kill(process, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(CellLostError, match="SIGKILL"):
        measure_cell(task(tmp_path, options=LONG))
    thread.join()


def test_a_cell_that_is_told_to_stop_leaves_no_process(tmp_path: Path) -> None:
    """GIVEN a stop while it measures THEN the run ends, in words, and the cell is interrupted."""
    stop = threading.Event()

    def stop_it() -> None:
        wait_for((tmp_path / "cell" / "journal.jsonl").exists)
        stop.set()

    thread = threading.Thread(target=stop_it)
    thread.start()
    assert measure_cell(task(tmp_path, options=LONG), stop).state == "interrupted"
    thread.join()
    assert not processes_of(tmp_path)
    assert "stopped" in (tmp_path / LOGS / "cell.txt").read_text(encoding="utf-8")


def test_no_cell_outlives_a_worker_that_is_killed(tmp_path: Path) -> None:
    """GIVEN a worker that SIGKILL ends THEN its run ends as well."""
    code = f"""
from energyscope.engines.cell import CellTask, measure_cell
measure_cell(CellTask("cell", {str(tmp_path)!r}, {LONG!r}, on_gpu=False))
"""
    worker = subprocess.Popen([sys.executable, "-c", code])
    wait_for((tmp_path / "cell" / "journal.jsonl").exists)
    worker.kill()
    worker.wait()
    wait_for(lambda: not processes_of(tmp_path), seconds=20.0)
    assert not processes_of(tmp_path)


def test_a_run_that_somebody_stops_is_lost_and_a_worker_without_a_gpu_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN SIGTERM from outside (preemption), or no GPU, THEN another worker may measure the cell."""

    def stop() -> None:
        wait_for((tmp_path / "cell" / "journal.jsonl").exists)
        for process in processes_of(tmp_path):
            os.kill(process, signal.SIGTERM)

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(CellLostError, match="told to stop"):
        measure_cell(task(tmp_path, options=LONG))
    thread.join()
    monkeypatch.setattr(module, "BROKEN_S", 0.0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(CellLostError, match="no GPU is visible"):
        measure_cell(CellTask("other", str(tmp_path), SHORT, on_gpu=True))


def test_a_finished_cell_whose_table_is_gone_is_measured_again(tmp_path: Path) -> None:
    """GIVEN a cell that says it is finished and cannot be read THEN it is not taken for done."""
    measure_cell(task(tmp_path))
    (tmp_path / "cell" / "per_layer_energy.csv").write_text("", encoding="utf-8")
    assert measure_cell(task(tmp_path)).seconds is not None


def test_a_loss_travels_between_processes() -> None:
    """GIVEN a loss that an engine pickles THEN it says the same on the other side."""
    lost = pickle.loads(pickle.dumps(CellLostError("gone", "GPU-a", gpu_is_lost=True)))  # noqa: S301
    assert (str(lost), lost.gpu, lost.gpu_is_lost) == ("gone", "GPU-a", True)

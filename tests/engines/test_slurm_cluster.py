"""Sweeps on a real Slurm.

Run with `pytest -m slurm tests/engines` where sbatch is; tools/one_node_slurm.sh starts a Slurm of one node.
"""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]
CELLS = 4
FIRST_JOBS_S = 60.0


@pytest.fixture
def sweep(tmp_path: Path) -> subprocess.Popen[bytes]:
    """Begin a sweep of four cells, two at once, and return it when the first ones run."""
    command = (
        "sweep", "tiny-gpt2", "--device", "cpu", "--sequence-length", "8,16", "--batch-size", "1,2",
        "--engine", "slurm", "--workers", "2", "--root", str(tmp_path), "--name", "it",
        "--component-budget", "0.1", "--passes", "2",
    )  # fmt: skip
    begun = subprocess.Popen([sys.executable, "-m", "energyscope", *command])
    until(lambda: len(workers(tmp_path)) == 2, FIRST_JOBS_S)
    return begun


def until(holds: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def workers(root: Path) -> list[int]:
    """Return the processes that measure cells of a sweep in jobs."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] != b"srun" and b"submitit.core._submit" in words and f"{root}/it/slurm".encode() in words:
            found.append(int(process.name))
    return found


def queue() -> str:
    return subprocess.run(["squeue", "--noheader", "--me"], capture_output=True, text=True, check=True).stdout


def states(root: Path) -> list[str]:
    with (root / "it" / "sweep.csv").open(encoding="utf-8") as lines:
        return [row["state"] for row in csv.DictReader(lines)]


def test_a_cell_whose_worker_is_killed_is_measured_again(sweep: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN a worker that dies of SIGKILL, so that its job leaves no result, THEN the cell is submitted again."""
    subprocess.run(["kill", "-KILL", str(workers(tmp_path)[0])], check=True)
    assert sweep.wait() == 0
    assert states(tmp_path) == ["done"] * CELLS
    assert len(list((tmp_path / "it" / "slurm").glob("[0-9]*_submission.sh"))) == 2


def test_a_sweep_that_is_stopped_cancels_its_jobs(sweep: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """GIVEN SIGTERM THEN the sweep says so by its exit code, and nothing of it is left in Slurm."""
    sweep.send_signal(signal.SIGTERM)
    assert sweep.wait() == 128 + signal.SIGTERM
    until(lambda: not queue() and not workers(tmp_path), 30.0)


def test_jobs_that_outlive_their_sweep_are_not_measured_twice(
    sweep: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """GIVEN a sweep that dies of SIGKILL, whose jobs go on, THEN its resume takes their cells as they are."""
    sweep.kill()
    sweep.wait()
    until(lambda: not queue(), 120.0)
    measured = {path: path.stat().st_mtime_ns for path in (tmp_path / "it").glob("*/run.json")}
    assert len(measured) == CELLS
    resume = [sys.executable, "-m", "energyscope", "sweep", "--resume", str(tmp_path / "it")]
    assert subprocess.run(resume, check=False).returncode == 0
    assert states(tmp_path) == ["done"] * CELLS
    assert {path: path.stat().st_mtime_ns for path in measured} == measured

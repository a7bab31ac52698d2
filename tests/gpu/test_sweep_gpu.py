"""Sweeps by an engine on a real GPU: cells are on it alone, whoever began them, and say which it was."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from energyscope.loading.devices import cuda_uuid
from energyscope.runs.store import load_run

pytestmark = pytest.mark.gpu

SWEEP = (
    "sweep", "gpt2", "--weights", "random", "--precision", "bf16", "--granularity", "coarse",
    "--sequence-length", "64", "--component-budget", "0.2", "--engine", "local", "--gpus", "0",
    "--execution", "cuda-graph",  # eager, so small a model waits for the host: 5.6 and 7.1 ms in two runs
)  # fmt: skip


def test_two_sweeps_share_a_gpu_one_cell_at_a_time(tmp_path: Path) -> None:
    """GIVEN two sweeps that are begun at once on one GPU THEN one waits, and both measure what the other does."""
    commands = [
        [sys.executable, "-m", "energyscope", *SWEEP, "--root", str(tmp_path), "--name", name]
        for name in ("one", "two")
    ]
    sweeps = [subprocess.Popen(command) for command in commands]
    assert [sweep.wait() for sweep in sweeps] == [0, 0]
    spans, energies = [], []
    for name in ("one", "two"):
        [row] = csv.DictReader((tmp_path / name / "sweep.csv").open(encoding="utf-8"))
        assert row["board"].removeprefix("GPU-") == cuda_uuid(torch.device("cuda:0")).removeprefix("GPU-")
        assert row["modelled"] == "False"
        energies.append(float(row["energy_mj"]))
        folder = load_run(tmp_path / name / row["cell"]).path
        ended = (folder / "run.json").stat().st_mtime
        spans.append((ended - float(row["seconds"]), ended))
    (_, first_ended), (second_began, _) = sorted(spans)
    assert second_began >= first_ended - 3.0  # a process ends a little after its last file
    assert energies[0] == pytest.approx(energies[1], rel=0.1)

"""A GPU that a run measures is claimed, and a second run learns whose it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from energyscope.metering import claims
from energyscope.metering.claims import claimed

HOLDER = """
import pathlib, sys
from energyscope.metering import claims
claims.FOLDER = pathlib.Path(sys.argv[1])
with claims.claimed(["GPU-a"], "first"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Locks lie in a folder of the test."""
    monkeypatch.setattr(claims, "FOLDER", tmp_path)
    return tmp_path


@pytest.fixture
def holder(folder):
    """Another process that measures GPU-a."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_second_run_learns_who_measures_its_gpu(holder):
    """GIVEN a run on a GPU THEN another one is told its name and process, and of other GPUs nothing."""
    with claimed(["GPU-a", "GPU-b"], "second") as others:
        (other,) = others
    assert other.words.startswith(f"first (process {holder.pid}) measures on GPU-a too")


def test_a_run_that_was_killed_holds_nothing(holder):
    """WHEN the process that held a GPU was killed THEN the GPU is free, and so it is after a run's end."""
    holder.kill()
    holder.wait()
    for _ in range(2):
        with claimed(["GPU-a"], "second") as others:
            assert others == []


def test_a_lock_that_cannot_be_taken_stops_nothing(folder):
    """GIVEN a link or a directory in the lock's place THEN nothing is claimed, said or written through it."""
    (folder / "elsewhere").write_text("kept")
    (folder / "energyscope-GPU-a.lock").symlink_to(folder / "elsewhere")
    (folder / "energyscope-GPU-b.lock").mkdir()
    with claimed(["GPU-a", "GPU-b"], "second") as others:
        assert others == []
    assert (folder / "elsewhere").read_text() == "kept"

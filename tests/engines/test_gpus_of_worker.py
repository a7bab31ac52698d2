"""Which GPUs a worker sees, by UUID, and that a GPU measures one cell at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyscope.engines import gpus as module
from energyscope.engines.gpus import VISIBLE, answers, take_gpu, visible_gpus
from energyscope.errors import DeviceError
from energyscope.metering import claims
from energyscope.metering.claims import claimed

A, B = "GPU-1a2b-00", "GPU-1a9f-11"
TWO = f"gpu {A} Fake H200\nat 0 power_w 200\ngpu {B} Fake T4\nat 0 power_w 50"


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "FOLDER", tmp_path)
    monkeypatch.setattr(module, "ASK_S", 0.05)


@pytest.mark.parametrize(
    ("named", "seen"),
    [
        (None, [A, B]),
        ("1", [B]),
        (f"{B},{A}", [B, A]),
        ("GPU-1a9f", [B]),
        ("", []),
        ("-1", []),
        (f"{A},9,{B}", [A]),
    ],
)
def test_a_worker_sees_what_cuda_would(
    fake_nvml: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, named: str | None, seen: list[str]
) -> None:
    """GIVEN numbers, UUIDs or their beginnings, as Ray and Slurm give them, THEN these GPUs, by UUID, in order."""
    fake_nvml(TWO)
    monkeypatch.delenv(VISIBLE, raising=False)
    if named is not None:
        monkeypatch.setenv(VISIBLE, named)
    assert [gpu.uuid for gpu in visible_gpus()] == seen


def test_a_gpu_that_is_lost_does_not_answer(fake_nvml: Callable[[str], Any]) -> None:
    """WHEN a board is gone from NVML's list THEN it does not answer, and the other one does."""
    machine = fake_nvml(TWO)
    assert answers(B)
    machine.write(f"gpu {A} Fake H200")
    assert (answers(A), answers(B)) == (True, False)


def test_a_gpu_is_held_by_one_cell_at_a_time() -> None:
    """GIVEN a GPU that is held THEN another worker takes the free one, and a third waits until one is released."""
    taken: list[str] = []

    def third() -> None:
        with take_gpu((A, B)) as gpu:
            taken.append(gpu)

    with take_gpu((A, B)) as first:
        with take_gpu((A, B)) as second:
            assert (first, second) == (A, B)
            thread = threading.Thread(target=third)
            thread.start()
            time.sleep(0.3)
            assert not taken
        thread.join(timeout=5)
        assert taken == [B]


def test_slices_of_one_board_take_turns(fake_nvml: Callable[[str], Any]) -> None:
    """GIVEN two MIG slices, whose joules are those of their board, THEN cells are measured on one at a time."""
    fake_nvml(f"gpu {A} Fake H200\nmig MIG-1 Slice\nmig MIG-2 Slice\ngpu {B} Fake T4")
    with take_gpu(("MIG-1",)), take_gpu(("MIG-2", B)) as other:
        assert other == B
    with claimed([A], "somebody's run with --whole-gpu"), take_gpu(("MIG-2", B)) as other:
        assert other == B


def test_who_waits_for_a_gpu_can_be_stopped() -> None:
    """GIVEN a stop while no GPU is free THEN the wait ends."""
    stop = threading.Event()
    stop.set()
    with take_gpu((A,)), pytest.raises(DeviceError, match="stopped while waiting"), take_gpu((A,), stop):
        pytest.fail("it was held twice")


def test_a_cell_waits_for_a_run_that_is_none_of_the_sweep() -> None:
    """GIVEN a run on a GPU THEN a cell takes the other one, and that run is not told of the cell."""
    with claimed([A], "somebody's run"), take_gpu((A, B)) as gpu:
        assert gpu == B
        with claimed([B], "the cell's own run") as others:
            assert others == []


def test_no_gpu_is_one_line(fake_nvml: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a worker without a GPU THEN it is told what to do."""
    fake_nvml(TWO)
    monkeypatch.setenv(VISIBLE, "")
    with pytest.raises(DeviceError, match="give it one, or use --device cpu"), take_gpu(()):
        pytest.fail("there is none")

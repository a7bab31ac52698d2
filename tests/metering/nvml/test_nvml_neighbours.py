"""Other users of the GPU are found by process, by use and by memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from energyscope.metering.nvml.board import Board
from energyscope.metering.nvml.meter import board_neighbours
from energyscope.metering.nvml.neighbours import HIDDEN, Neighbours, Usage, own_processes
from energyscope.reasons import reason

MIB = 1 << 20
US = os.getpid()


def neighbours(*usages):
    """Return neighbours that see one usage when they are made, and the following ones at each check."""
    script = iter(usages)
    return Neighbours(lambda: next(script))


def test_nobody_else_is_no_finding():
    """GIVEN our own process alone on an idle GPU THEN nothing is found."""
    alone = Usage([US], 0.0, 900 * MIB)
    assert neighbours(alone, alone, alone).signs(800 * MIB) == []


def test_another_process_is_named():
    """A process that is not ours is named by its id."""
    shared = Usage([US, 1], 0.0, 900 * MIB)
    assert neighbours(shared, shared).signs(800 * MIB) == [reason("other-process", pid=1)]


def test_our_own_children_are_not_neighbours():
    """Processes that we started belong to us."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in own_processes()
        usage = Usage([US, child.pid], 0.0, None)
        assert neighbours(usage, usage).signs(MIB) == []
        child.communicate()
    assert child.pid not in own_processes()


@pytest.mark.parametrize("processes", [[], [4711]])
def test_a_list_without_us_is_not_trusted(processes):
    """WHEN we hold memory and the list does not name us THEN no process is blamed, and a note says why."""
    hidden = Usage(processes, 0.0, 900 * MIB)
    watching = neighbours(hidden, hidden, hidden)
    assert watching.signs(800 * MIB) == []
    assert watching.signs(800 * MIB) == []
    assert watching.notes == [HIDDEN]


def test_a_busy_gpu_is_found():
    """More than 5 % of use while nothing of ours runs is somebody else."""
    quiet, busy = Usage([US], 0.05, None), Usage([US], 0.4, None)
    watching = neighbours(quiet, quiet, busy)
    assert watching.signs(MIB) == []
    assert watching.signs(MIB) == [reason("busy-without-us", share=0.4)]


def test_memory_that_grows_without_us_is_found_once():
    """Growth of over 256 MiB beyond our own is somebody else; the same growth is not reported twice."""
    before, after = Usage([US], 0.0, 1000 * MIB), Usage([US], 0.0, 1300 * MIB)
    watching = neighbours(before, before, after, after)
    assert watching.signs(500 * MIB) == []
    assert watching.signs(500 * MIB) == [reason("memory-grew", mib=300.0)]
    assert watching.signs(500 * MIB) == []


def test_our_own_growth_is_not_a_neighbour():
    """Memory that grew by what we took is ours."""
    watching = neighbours(*(Usage([US], 0.0, used * MIB) for used in (1000, 1000, 9000)))
    assert watching.signs(500 * MIB) == []
    assert watching.signs(8500 * MIB) == []


def test_memory_taken_between_opening_and_the_first_check_is_found():
    """Beyond a CUDA context of our own, growth since the meter was opened is somebody else."""
    opened, own, foreign = (Usage([US], 0.0, used * MIB) for used in (500, 1500, 5500))
    assert neighbours(opened, own).signs(500 * MIB) == []
    assert neighbours(opened, foreign).signs(500 * MIB) == [reason("memory-grew", mib=4500.0)]


def test_an_unknown_own_share_blames_nobody():
    """WHEN it is not known what we hold THEN memory says nothing."""
    watching = neighbours(*(Usage(None, None, used * MIB) for used in (0, 0, 9000)))
    assert watching.signs(None) == []
    assert watching.signs(None) == []


def test_through_nvml(fake_nvml):
    """On the fake library, another process and a busy GPU are both reported."""
    fake_nvml("gpu GPU-aaaa\nprocess self 500\nprocess 1 600\nat 0 utilisation 50")
    assert len(board_neighbours(Board("GPU-aaaa")).signs(500 * MIB)) == 2


def test_the_other_ranks_are_ours_too(monkeypatch):
    """GIVEN a process that torchrun started THEN all that torchrun started belongs to the run."""
    import os

    assert os.getppid() not in own_processes()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert {os.getppid(), os.getpid()} <= own_processes()

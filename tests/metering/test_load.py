"""Who else keeps the processor busy, by a /proc of our own making."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from energyscope.metering import load
from energyscope.metering.load import TICKS_PER_S, OtherLoad
from energyscope.reasons import reason


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that lets time pass, in which all processes and our own take some processor time (s)."""
    now = {"s": 100.0, "all": 500.0, "own": 20.0}
    monkeypatch.setattr(load, "time", SimpleNamespace(monotonic=lambda: now["s"]))
    monkeypatch.setattr(load, "own_processes", lambda: {os.getpid(), 99_999_999})  # the second one has ended
    (tmp_path / str(os.getpid())).mkdir()

    def passes(seconds, all_s, own_s):
        now["s"] += seconds
        now["all"] += all_s
        now["own"] += own_s
        every, own = round(now["all"] * TICKS_PER_S), round(now["own"] * TICKS_PER_S)
        (tmp_path / "stat").write_text(f"cpu  {every - 200} 100 100 77777 55555 1 2 0 0 0\ncpu0 1 2 3\n")
        times = f"{own - 30} 10 15 5"  # user, system, and those of children that have ended
        (tmp_path / str(os.getpid()) / "stat").write_text(f"1 (a (b) c) R 1 1 1 0 -1 4 0 0 0 0 {times} 20 0 1 0\n")

    passes(0, 0, 0)
    return SimpleNamespace(proc=tmp_path, passes=passes)


@pytest.mark.parametrize(
    ("own_s", "others_s", "cores"),
    [
        (20.0, 0.0, None),
        (20.0, 0.9, None),
        (20.0, 5.0, 1),
        (20.0, 31.0, 4),
        (0.0, 0.4, None),
        (0.0, 20.0, 2),
        (80.0, 3.0, None),
    ],
)
def test_others_count_beside_what_is_ours(machine, own_s, others_s, cores):
    """WHEN others take over 5 % of our time, or of one core, in 10 s THEN it is told, and up to how many cores."""
    others = OtherLoad(machine.proc)
    machine.passes(10.0, own_s + others_s, own_s)
    assert others.signs(None) == ([] if cores is None else [reason("processor-shared", cores=cores)])


def test_each_check_looks_back_to_the_one_before(machine):
    """GIVEN others who stopped WHEN it is asked again THEN they are not told again."""
    others = OtherLoad(machine.proc)
    machine.passes(10.0, 10.0, 0.0)
    assert others.signs() == [reason("processor-shared", cores=1)]
    machine.passes(10.0, 0.0, 0.0)
    assert others.signs() == []


def test_this_machines_own_proc_can_be_read():
    """Real /proc files have the fields that are read."""
    others = OtherLoad()
    assert others._before[1] > others._before[2] > 0

"""Rounds of calls run in turn for some seconds, and are counted; the warm-up queues little."""

from __future__ import annotations

import gc
import time
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from clocks import Clock
from families import CPU

from energyscope.errors import UsageError
from energyscope.replay import marks, replayer
from energyscope.replay.marks import HostMarks
from energyscope.replay.replayer import CHUNK_S, WARM_UP_S, Replayer


@pytest.mark.parametrize("chunked", [False, True])
def test_the_replayer_counts_every_call(chunked):
    """The count at the end is the number of calls after the warm-up, and the clock runs forwards."""
    ran = []
    call = (
        (lambda: ran.append(1))
        if chunked
        else (lambda: (ran.append(1), torch.ones(300, 300) @ torch.ones(300, 300)))
    )
    calls = Replayer(CPU).run([call], 0.05)
    assert calls.count[-1] <= len(ran)
    assert len(ran) - calls.count[-1] >= 3  # the warm-up
    assert (np.diff(calls.time_s) > 0).all()
    assert calls.seconds > 0.05 - 1e-3  # whether time is over is looked at after the last mark, not at it


def test_the_replayer_takes_the_calls_of_a_round_in_turn():
    """A round's calls run equally often."""
    counts = [0, 0, 0]

    def call(index):
        counts[index] += 1

    Replayer(CPU).run([lambda index=index: call(index) for index in range(3)], 0.02)
    assert max(counts) - min(counts) <= 1


def test_the_collector_is_back_after_a_window_that_failed():
    """Python's garbage collector is on again after a window, also after an error in it."""
    runs = iter(range(10_000))

    def call():
        if next(runs) == 5000:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        Replayer(CPU).run([call], 60)
    assert gc.isenabled()


def test_a_call_longer_than_the_window_runs_once():
    """At least one whole call is made after the warm-up, however short the window."""
    calls = Replayer(CPU).run([lambda: time.sleep(0.03)], 0.001)
    assert list(calls.count) == [0, 1]
    assert calls.seconds >= 0.03


def test_calls_are_time_stamped_in_short_chunks(monkeypatch):
    """GIVEN calls of half a millisecond THEN a chunk lasts about 4 ms, so that ticks fall between stamps."""
    clock = Clock(look_s=1e-6)
    for module in (replayer, marks):
        monkeypatch.setattr(module, "time", clock)
    calls = Replayer(CPU).run([lambda: clock.sleep(0.0005)], 0.1)
    assert np.diff(calls.time_s) == pytest.approx(CHUNK_S, rel=0.01)


def test_calls_run_as_generate_runs_them():
    """No gradients, and not in inference mode, in which a host launches faster than `generate` does."""
    modes = set()
    Replayer(CPU).run([lambda: modes.add((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))], 0.001)
    assert modes == {(False, False)}


def test_the_collector_stays_off_if_it_was():
    """GIVEN a host that runs without Python's collector THEN a window does not switch it on."""
    gc.disable()
    try:
        Replayer(CPU).run([lambda: None], 0.001)
        assert not gc.isenabled()
    finally:
        gc.enable()


class QueueingDevice(Replayer):
    """A replayer on a device that only queues: a call returns at once, and waiting for it takes its time."""

    def __init__(self, call_s):
        super().__init__(CPU)
        self.call_s, self.queued, self.most = call_s, 0, 0

    def call(self):
        self.queued += 1
        self.most = max(self.most, self.queued)

    def synchronize(self):
        time.sleep(self.queued * self.call_s)
        self.queued = 0


@pytest.mark.parametrize("call_s", [0.0005, 0.02])
def test_the_warm_up_never_queues_more_than_it_needs(call_s):
    """GIVEN calls that return before their work is done THEN the warm-up still queues 20 ms, or a few calls."""
    device = QueueingDevice(call_s)
    device.run([device.call], 0.0)
    assert device.most <= max(WARM_UP_S / call_s, 3) + CHUNK_S / call_s + 1


def test_long_calls_are_warmed_up_twice():
    """GIVEN calls of 30 ms THEN two come before those that count: more would take as long as a window."""
    ran = []

    def call():
        ran.append(1)
        time.sleep(0.03)

    calls = Replayer(CPU).run([call], 0.05)
    assert len(ran) - calls.count[-1] == 2


def test_pauses_are_part_of_the_round(monkeypatch):
    """GIVEN a pause WHEN a round, or none, runs THEN each call has one, and no calls are pauses alone."""
    ran = []
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: ran.append("pause"))
    calls = Replayer(CPU).run([lambda: ran.append("call")], 0.01, rest_s=1e-4)
    assert ran[:4] == ["call", "pause", "call", "pause"]
    assert 2 * calls.count[-1] < len(ran)
    ran.clear()
    pauses = Replayer(CPU).run([], 0.01, rest_s=1e-4)
    assert set(ran) == {"pause"}
    assert 0 < pauses.count[-1] < len(ran)


# --- executions -----------------------------------------------------------------------------------------------


def test_cuda_graphs_on_a_cpu_are_refused():
    """Never a silent fallback: the error says what is missing."""
    with pytest.raises(UsageError, match="cuda-graph needs an NVIDIA GPU"):
        Replayer(CPU, "cuda-graph")


def test_nothing_of_a_cpus_memory_is_the_devices():
    """On the CPU it is unknown, not 0, what we hold of a device."""
    assert Replayer(CPU).own_bytes() is None


class GraphOfThree:
    """Stands in for a graph that makes three calls a launch."""

    empty = False
    calls = 3
    launches = 0

    def __init__(self, round_, device):
        self.device = device

    def launch(self):
        GraphOfThree.launches += 1


class EmptyGraph(GraphOfThree):
    empty = True


class OnTheHost(Replayer):
    """A replayer of graphs whose launches are done when they return."""

    def __init__(self, device, execution):
        super().__init__(device, execution)
        self._canary = None

    def synchronize(self):
        pass

    def _current(self):
        return nullcontext()

    def _marks(self):
        return HostMarks()

    def _canary_s(self):
        return (193e-6,)


def test_what_a_host_waits_beside_graphs_is_not_known(monkeypatch):
    """GIVEN marks that no host waited for WHEN graphs are launched THEN launches may have waited instead."""
    monkeypatch.setattr(replayer, "GraphRound", GraphOfThree)
    monkeypatch.setattr(HostMarks, "waited_s", 0.0)
    assert OnTheHost(torch.device("cuda"), "cuda-graph").run([lambda: None], 0.01).waited_s is None
    assert Replayer(CPU).run([lambda: None], 0.01).waited_s == 0.0


def test_a_launch_counts_all_of_its_calls(monkeypatch):
    """GIVEN a graph of three calls THEN the count rises by three with each launch."""
    monkeypatch.setattr(replayer, "GraphRound", GraphOfThree)
    monkeypatch.setattr(GraphOfThree, "launches", 0)
    calls = OnTheHost(torch.device("cuda"), "cuda-graph").run([lambda: None], 0.01)
    assert set(np.diff(calls.count) % 3) == {0}
    assert calls.count[-1] / 3 < GraphOfThree.launches
    assert calls.canary_s == (193e-6, 193e-6)  # before and after


def test_a_round_without_work_has_no_calls(monkeypatch):
    """GIVEN an empty graph THEN there is nothing to time."""
    monkeypatch.setattr(replayer, "GraphRound", EmptyGraph)
    assert OnTheHost(torch.device("cuda"), "cuda-graph").run([lambda: None], 0.01) is None


def test_the_pace_of_a_block_is_that_of_one_call(monkeypatch):
    """GIVEN calls of 2 ms WHEN blocks of 20 ms or less than a call are timed THEN one takes about 2 ms."""
    clock = Clock(look_s=1e-6)
    monkeypatch.setattr(replayer, "time", clock)
    ran = []

    def call():
        ran.append(clock.monotonic())
        clock.sleep(0.002)

    assert Replayer(CPU).pace([call], 0.02) == pytest.approx(0.002, rel=0.01)
    assert len(ran) == 11  # one to know how long they take
    assert Replayer(CPU).pace([call], 1e-6) == pytest.approx(0.002, rel=0.01)
    assert len(ran) == 11 + 1


def test_a_clock_of_its_own_times_the_calls():
    """GIVEN a clock on which a call takes 3 s WHEN calls run for some milliseconds THEN each took 3 s by it.

    The first time is the monotonic clock's.
    """
    calls_seen = []
    before = time.monotonic()
    calls = Replayer(CPU, clock=lambda: 3.0 * len(calls_seen)).run([lambda: calls_seen.append(1)], 0.01)
    assert before <= calls.time_s[0] <= time.monotonic()
    assert np.diff(calls.time_s) == pytest.approx(3.0 * np.diff(calls.count))


@pytest.mark.parametrize(
    ("modelled", "threads", "device", "clock"),
    [
        (True, 1, CPU, time.thread_time),
        (True, 2, CPU, None),
        (False, 1, CPU, None),
        (True, 1, torch.device("cuda"), None),
    ],
)
def test_modelled_joules_of_one_thread_follow_its_processor_time(monkeypatch, modelled, threads, device, clock):
    """Processor time is for time x watts on one thread of the host; a sensor's ticks have the monotonic clock."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert marks.clock_for(SimpleNamespace(modelled=modelled), device) is clock

"""Rounds as CUDA graphs, on a stand-in for CUDA in virtual time: unrolling, failures, emptiness."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from torch.overrides import TorchFunctionMode

from energyscope.replay import graphs
from energyscope.replay.device_reads import DeviceReads
from energyscope.replay.graphs import MAXIMUM_CALLS, WARM_UP_ROUNDS, GraphRound, NotCapturableError

DEVICE = torch.device("cuda")
GAP_S = 2.5e-6  # between two launches
NO_MEMORY = "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"
EMPTY = "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device"


class StandInCuda:
    """Queues work, holds it in graphs, and lets virtual time pass when it is waited for."""

    def __init__(self):
        self.now = self.queued = 0.0
        self.capturing = self.stream = None
        self.graphs, self.warm_ups = [], 0
        self.end_error = None

    def work(self, seconds):
        """Return a call that launches work of some length (0: none)."""

        def call():
            if self.capturing is None:
                self.warm_ups += 1
                self.queued += seconds
            elif seconds:
                self.capturing.held.append(seconds)

        return call

    def synchronize(self, _device=None):
        assert self.capturing is None, "waiting for the device is forbidden in a capture"
        self.now += self.queued
        self.queued = 0.0

    @contextmanager
    def on(self, stream):
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    def graph(self):
        self.graphs.append(StandInGraph(self))
        return self.graphs[-1]


class StandInGraph:
    def __init__(self, cuda):
        self.cuda, self.held, self.ended = cuda, [], False

    def capture_begin(self, capture_error_mode):
        assert self.cuda.stream == "side"
        assert capture_error_mode == "thread_local"
        self.cuda.capturing = self

    def capture_end(self):
        self.cuda.capturing, self.ended = None, True
        if self.cuda.end_error:
            raise RuntimeError(self.cuda.end_error)
        if not self.held:
            warnings.warn(EMPTY, stacklevel=1)

    def replay(self):
        self.cuda.queued += sum(self.held) + GAP_S


@pytest.fixture
def cuda(monkeypatch):
    stand_in = StandInCuda()
    side = SimpleNamespace(wait_stream=lambda other: None)
    main = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(graphs, "_side_stream", lambda device: side)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: main)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stand_in.on("side" if stream is side else "main"))
    monkeypatch.setattr(torch.cuda, "synchronize", stand_in.synchronize)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", stand_in.graph)
    monkeypatch.setattr(graphs, "time", SimpleNamespace(monotonic=lambda: stand_in.now))
    return stand_in


@pytest.mark.parametrize("length", [1, 8, 28])
@pytest.mark.parametrize("call_s", [1e-6, 5e-6, 50e-6, 400e-6, 3e-3])
def test_a_launch_is_long_beside_the_gap_between_launches(cuda, call_s, length):
    """GIVEN calls of 1 us to 3 ms THEN a launch is unrolled to whole rounds until its gap is below 0.5 %."""
    graph = GraphRound([cuda.work(call_s)] * length, DEVICE)
    work = sum(cuda.graphs[-1].held)
    assert GAP_S / work < 0.005
    assert graph.calls == len(cuda.graphs[-1].held)
    assert graph.calls % length == 0
    assert work < max(3e-3, 2 * call_s * length)  # and not for ever


def test_a_graph_holds_a_bounded_number_of_calls(cuda):
    """GIVEN calls so short that a millisecond of them is endless THEN the graph stays below its limit."""
    graph = GraphRound([cuda.work(1e-8)] * 3, DEVICE)
    assert MAXIMUM_CALLS - 3 < graph.calls <= MAXIMUM_CALLS


def test_a_long_round_is_captured_once(cuda):
    """GIVEN a round that is long enough, or has more calls than a graph may hold, THEN it stays as it is."""
    for round_ in ([cuda.work(2e-3)], [cuda.work(1e-9)] * (MAXIMUM_CALLS + 1)):
        cuda.graphs.clear()
        graph = GraphRound(round_, DEVICE)
        assert graph.calls == len(round_)
        assert len(cuda.graphs) == 1


def test_a_model_is_not_unrolled_where_it_is_only_looked_at(cuda):
    """GIVEN that one launch is wanted THEN the round stands in the graph once."""
    assert GraphRound([cuda.work(1e-6)], DEVICE, unrolled=False).calls == 1
    assert len(cuda.graphs) == 1


def test_calls_warm_up_outside_of_the_capture(cuda):
    """Libraries allocate their workspaces before the capture, in which they must not."""
    GraphRound([cuda.work(1e-3)] * 4, DEVICE)
    assert cuda.warm_ups == 4 * WARM_UP_ROUNDS


def test_a_launch_replays_the_unrolled_graph(cuda):
    """WHEN launched THEN the work of all of its calls is queued."""
    graph = GraphRound([cuda.work(100e-6)], DEVICE)
    cuda.synchronize()
    graph.launch()
    assert cuda.queued == pytest.approx(graph.calls * 100e-6 + GAP_S)


def test_a_round_without_work_is_empty(cuda):
    """GIVEN calls that launch nothing THEN the graph says so, and is not unrolled."""
    graph = GraphRound([cuda.work(0.0)], DEVICE)
    assert graph.empty
    assert graph.calls == len(cuda.graphs) == 1
    assert not GraphRound([cuda.work(1e-4)], DEVICE).empty


def test_what_waits_for_the_device_cannot_be_captured(cuda):
    """GIVEN an error in the capture THEN its first line is the reason, and the stream can be used again."""

    def waits():
        if cuda.capturing:
            raise RuntimeError("operation not permitted when stream is capturing\nFor debugging, consider ...")

    with pytest.raises(NotCapturableError) as refused:
        GraphRound([cuda.work(1e-4), waits], DEVICE)
    assert str(refused.value) == (
        "cannot be captured in a CUDA graph: operation not permitted when stream is capturing"
    )
    assert cuda.graphs[0].ended
    assert cuda.stream is None
    assert GraphRound([cuda.work(1e-4)], DEVICE).calls > 1


class WaitsForNoDevice(TorchFunctionMode):
    """Refuses reads of values in a capture, as CUDA does."""

    def __init__(self, cuda):
        super().__init__()
        self.cuda = cuda

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.item and self.cuda.capturing:
            raise RuntimeError("operation not permitted when stream is capturing")
        return func(*args, **(kwargs or {}))


def test_values_that_no_capture_can_wait_for_are_read_before_it(cuda, monkeypatch):
    """GIVEN a call that goes on by a value of the device THEN the graph holds what it did before the capture."""
    monkeypatch.setattr(graphs, "DeviceReads", lambda device: DeviceReads(torch.device("cpu")))
    work, value = cuda.work(1e-4), torch.tensor(1.0)

    def decides():
        if value.item() > 0:
            work()

    with WaitsForNoDevice(cuda):
        graph = GraphRound([decides], DEVICE, unrolled=False)
    assert graph.reads == 1
    assert cuda.graphs[-1].held == [1e-4]
    assert GraphRound([cuda.work(1e-4)], DEVICE).reads == 0


def test_the_first_error_is_told_and_not_that_of_ending(cuda):
    """GIVEN a capture that fails twice, in a call and in its end, THEN the call's error is the reason."""
    cuda.end_error = "capture was invalidated"

    def fails():
        if cuda.capturing:
            raise ValueError("no such thing")

    with pytest.raises(NotCapturableError, match="no such thing"):
        GraphRound([fails], DEVICE)


def test_a_capture_that_fails_in_its_end_is_refused_too(cuda):
    """GIVEN calls that spoil the capture without an error THEN ending it tells."""
    cuda.end_error = "capture was invalidated\nmore"
    with pytest.raises(NotCapturableError, match=r"graph: capture was invalidated$"):
        GraphRound([cuda.work(1e-4)], DEVICE)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError(NO_MEMORY)])
def test_a_lack_of_memory_is_not_taken_for_something_that_no_graph_can_hold(cuda, error):
    """GIVEN no memory in a capture THEN that error goes on as it is, and the stream can be used again."""

    def needs():
        if cuda.capturing:
            raise error

    with pytest.raises(type(error), match="out of memory"):
        GraphRound([needs], DEVICE)
    assert cuda.graphs[0].ended


def test_a_lack_of_memory_in_the_end_of_a_capture_goes_on_too(cuda):
    """GIVEN a graph for whose making no memory is left THEN the error is CUDA's."""
    cuda.end_error = NO_MEMORY
    with pytest.raises(RuntimeError, match=r"^CUDA error: out of memory"):
        GraphRound([cuda.work(1e-4)], DEVICE)


def test_the_memory_of_earlier_graphs_is_given_back_before_a_capture(cuda, monkeypatch):
    """GIVEN that a capture cannot free what the allocator keeps THEN that is done between warm-up and capture."""
    calls = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append((cuda.warm_ups, len(cuda.graphs))))
    GraphRound([cuda.work(1e-4)], DEVICE)
    assert calls == [(WARM_UP_ROUNDS, 0)]


def test_an_error_of_the_component_itself_is_its_own(cuda):
    """GIVEN a call that fails without any capture THEN its error is not taken for the graph's."""

    def fails():
        raise IndexError("out of range")

    with pytest.raises(IndexError, match="out of range"):
        GraphRound([fails], DEVICE)

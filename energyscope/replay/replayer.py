"""Run calls back to back for some seconds, and know how many had completed by when."""

from __future__ import annotations

import gc
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch

from energyscope.metering.ticks import Calls

Call = Callable[[], Any]

CHUNK_S = 0.004  # calls are time-stamped in chunks of about this long
IN_FLIGHT = 3  # chunks queued ahead of the GPU, so that it never waits for the host's book-keeping
WARM_UP_S = 0.02
WARM_UP_CALLS = 3


class _Marks(Protocol):
    def mark(self) -> None: ...

    def finish(self) -> list[float]: ...


class _HostMarks:
    """Time stamps of work that is done when the call returns."""

    def __init__(self) -> None:
        self.times = [time.monotonic()]

    def mark(self) -> None:
        self.times.append(time.monotonic())

    def finish(self) -> list[float]:
        return self.times


class _CudaMarks:
    """Time stamps of queued work: CUDA events, placed on the host's clock by the first one.

    Waiting for an event some chunks back bounds the queue without ever draining it, which would leave the
    GPU idle between chunks and book that as the component's.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.first = _event()
        self.first.record(torch.cuda.current_stream(device))
        self.first.synchronize()
        self.origin_s = time.monotonic()
        self.events: list[torch.cuda.Event] = []
        self.in_flight: deque[torch.cuda.Event] = deque()

    def mark(self) -> None:
        event = _event()
        event.record(torch.cuda.current_stream(self.device))
        self.events.append(event)
        self.in_flight.append(event)
        if len(self.in_flight) > IN_FLIGHT:
            self.in_flight.popleft().synchronize()

    def finish(self) -> list[float]:
        torch.cuda.synchronize(self.device)
        return [self.origin_s, *(self.origin_s + self.first.elapsed_time(event) / 1e3 for event in self.events)]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep Python's collector out of a window: where launching is the bottleneck, its pauses show as joules."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


class Replayer:
    """Replays rounds of calls on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @torch.inference_mode()
    def run(self, round_: Sequence[Call], seconds: float) -> Calls:
        """Run the calls of a round in turn, over and over, for at least some seconds and one whole call.

        Returns:
            Completed calls over the monotonic clock, warmed up before the first of them.

        """
        turn = itertools.cycle(round_)
        chunk = max(1, round(CHUNK_S / self._warm_up(turn, len(round_))))
        with _no_garbage_collection():
            return self._timed(turn, chunk, seconds)

    def _timed(self, turn: Iterator[Call], chunk: int, seconds: float) -> Calls:
        marks = self._marks()
        counts = [0]
        end = time.monotonic() + seconds
        while counts[-1] == 0 or time.monotonic() < end:
            for call in itertools.islice(turn, chunk):
                call()
            counts.append(counts[-1] + chunk)
            marks.mark()
        return Calls(np.array(marks.finish()), np.array(counts, dtype=float))

    def _warm_up(self, turn: Iterator[Call], length: int) -> float:
        """Run at least a round's calls and some milliseconds; return the seconds of one call."""
        self.synchronize()
        begin = time.monotonic()
        done = 0
        while done < max(WARM_UP_CALLS, min(length, 8)) or time.monotonic() - begin < WARM_UP_S:
            next(turn)()
            done += 1
        self.synchronize()
        return max((time.monotonic() - begin) / done, 1e-7)

    def synchronize(self) -> None:
        """Wait until the device has done all that was queued."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _marks(self) -> _Marks:
        return _CudaMarks(self.device) if self.device.type == "cuda" else _HostMarks()

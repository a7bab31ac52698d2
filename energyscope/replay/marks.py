"""Time stamps of completed work, on the host's monotonic clock, or in processor time laid on it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import torch

from energyscope.metering.group import MeterGroup

Clock = Callable[[], float]

IN_FLIGHT = 3  # chunks queued ahead of the GPU, so that it never waits for the host


class Marks(Protocol):
    """Marks the end of chunks of work; ``waited_s`` is how long the host waited for the device."""

    waited_s: float | None

    def mark(self) -> None:
        """Mark that all work queued so far is a chunk."""
        ...

    def finish(self) -> list[float]:
        """Wait for the work; return the start and each chunk's end (s)."""
        ...


def clock_for(meter: MeterGroup, device: torch.device) -> Clock | None:
    """Return the clock (s) by which calls on a device are timed under a meter; None for the monotonic one.

    Where joules are time x watts and the model runs on this thread alone, it is the thread's processor time: what
    others do on a busy machine is not the model's. A sensor's ticks, and work on several threads, have the
    monotonic clock.
    """
    alone = meter.modelled and device.type == "cpu" and torch.get_num_threads() == 1
    return time.thread_time if alone else None


class HostMarks:
    """Time stamps of work that is done when the call returns, by a clock set to the monotonic one's time."""

    waited_s: float | None = None

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or time.monotonic
        self._origin_s = time.monotonic() - self._clock()
        self.times = [self._origin_s + self._clock()]

    def mark(self) -> None:
        self.times.append(self._origin_s + self._clock())

    def finish(self) -> list[float]:
        return self.times


class CudaMarks:
    """Time stamps of queued work: CUDA events, placed on the host's clock by the first one.

    Waiting for an event some chunks back bounds the queue without ever draining it: with an empty queue the GPU
    would idle between chunks, and that would count as the component's.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.waited_s: float | None = 0.0
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
            begin = time.monotonic()
            self.in_flight.popleft().synchronize()
            self.waited_s = (self.waited_s or 0.0) + time.monotonic() - begin

    def finish(self) -> list[float]:
        torch.cuda.synchronize(self.device)
        return [self.origin_s, *(self.origin_s + self.first.elapsed_time(event) / 1e3 for event in self.events)]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

"""Run calls back to back for some seconds, and know how many had completed by when.

Components that alone would drive the board into its power cap are replayed with pauses. In the model, such a
component runs for microseconds between others of less power, at full clocks. Alone, back to back, it reaches the
cap and the board lowers its clocks, at which a call takes other energy than in the model. With a pause after every
call it keeps its clocks; the energy of the pauses is measured separately and subtracted.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import torch

from energyscope.errors import UsageError
from energyscope.metering.host import NO_HOST, HostCounter
from energyscope.metering.ticks import Calls
from energyscope.replay.calls import Call, no_garbage_collection
from energyscope.replay.canary import Canary
from energyscope.replay.graphs import GraphRound
from energyscope.replay.marks import Clock, CudaMarks, HostMarks, Marks

Execution = Literal["eager", "cuda-graph"]
EXECUTIONS: tuple[Execution, ...] = ("eager", "cuda-graph")

CHUNK_S = 0.004  # calls are time-stamped in chunks of about this long
WARM_UP_S = 0.02
WARM_UP_CALLS = 3
ABOUT_HZ = 1.7e9  # GPU clocks; the length of a pause need not be exact, since it is measured


@dataclass(frozen=True)
class Loop:
    """An endless loop of steps, each of which makes ``calls`` calls; ``length`` steps make a round."""

    steps: Iterator[Call]
    calls: int
    length: int


class Replayer:
    """Replays rounds of calls on one device.

    ``eager`` launches every call from Python, as most people run a model; ``cuda-graph`` launches the round as
    one graph, so that only the device's own time and energy are left. ``clock`` times calls on the host
    (`energyscope.replay.marks.clock_for`); ``host`` is read right before and after them.
    """

    def __init__(
        self,
        device: torch.device,
        execution: Execution = "eager",
        *,
        clock: Clock | None = None,
        host: HostCounter = NO_HOST,
    ) -> None:
        if execution == "cuda-graph" and device.type != "cuda":
            raise UsageError("--execution cuda-graph needs an NVIDIA GPU, and the model runs on the CPU")
        self.device = device
        self.execution = execution
        self.clock = clock
        self.host = host
        self._canary = Canary(device) if execution == "cuda-graph" else None

    @torch.no_grad()
    def run(self, round_: Sequence[Call], seconds: float, *, rest_s: float | None = None) -> Calls | None:
        """Run the calls of a round in turn, over and over, for at least some seconds and one whole call.

        With ``rest_s`` the device rests about that long after every call. A round without calls only rests.

        Returns:
            Completed calls over the monotonic clock, warmed up before the first of them; None where the round
            launches no work on the device (in a CUDA graph, nothing is left of it then).

        Raises:
            NotCapturableError: the round cannot be held in a CUDA graph.

        """
        with no_garbage_collection(), self._current():
            loop = self._loop(round_ if rest_s is None else resting(round_, rest_s))
            if loop is None:
                return None
            chunk = max(1, round(CHUNK_S / self._warm_up(loop)))
            if self._canary:
                self._canary.settle()
            before, drawn = self._canary_s(), self.host.read()
            calls = self._timed(loop, chunk, seconds)
            host_mj = self.host.since(drawn).energy_mj
            return replace(calls, canary_s=(*before, *self._canary_s()), host_mj=host_mj)

    @torch.no_grad()
    def pace(self, round_: Sequence[Call], seconds: float) -> float:
        """Return the seconds of one call of a round, over about some seconds, or over one call if it is longer.

        Raises:
            NotCapturableError: the round cannot be held in a CUDA graph.

        """
        with no_garbage_collection(), self._current():
            loop = self._loop(round_)
            if loop is None:
                return 0.0
            once = self._seconds_of(loop, 1)
            steps = round(seconds / once)
            return (self._seconds_of(loop, steps) if steps > 1 else once) / loop.calls

    def _canary_s(self) -> tuple[float, ...]:
        return (self._canary.seconds(),) if self._canary else ()

    def _loop(self, round_: Sequence[Call]) -> Loop | None:
        if self.execution == "eager":
            return Loop(itertools.cycle(round_), 1, len(round_))
        graph = GraphRound(round_, self.device)
        return None if graph.empty else Loop(itertools.repeat(graph.launch), graph.calls, 1)

    def _timed(self, loop: Loop, chunk: int, seconds: float) -> Calls:
        marks = self._marks()
        counts = [0]
        end = time.monotonic() + seconds
        while counts[-1] == 0 or time.monotonic() < end:
            for step in itertools.islice(loop.steps, chunk):
                step()
            counts.append(counts[-1] + chunk * loop.calls)
            marks.mark()
        waited_s = marks.waited_s if self.execution == "eager" else None  # a graph's launch may wait itself
        return Calls(np.array(marks.finish()), np.array(counts, dtype=float), waited_s)

    def _warm_up(self, loop: Loop) -> float:
        """Run some milliseconds, of short steps at least three; return the seconds of one step.

        The number of steps is fixed beforehand: running until a time is over would queue seconds of work.
        """
        once = min(self._seconds_of(loop, 1) for _ in range(2))  # the first may be slow because it is the first
        if once > WARM_UP_S:
            return once
        first = self._seconds_of(loop, max(WARM_UP_CALLS, min(loop.length, 8)))
        return min(first, self._seconds_of(loop, max(1, int(WARM_UP_S / first))))

    def _seconds_of(self, loop: Loop, steps: int) -> float:
        self.synchronize()
        begin = time.monotonic()
        for step in itertools.islice(loop.steps, steps):
            step()
        self.synchronize()
        return max((time.monotonic() - begin) / steps, 1e-7)

    def synchronize(self) -> None:
        """Wait until the device has done all that was queued."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def own_bytes(self) -> int | None:
        """Return the device memory (bytes) that this process holds, without its context; None on the CPU."""
        return int(torch.cuda.memory_reserved(self.device)) if self.device.type == "cuda" else None

    def _current(self) -> AbstractContextManager[None]:
        """Make the device the current one: pauses and graphs are launched there."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def _marks(self) -> Marks:
        return CudaMarks(self.device) if self.device.type == "cuda" else HostMarks(self.clock)


def resting(round_: Sequence[Call], seconds: float) -> list[Call]:
    """Return a round with a pause of about some seconds after each call, or of one pause if it has no calls.

    The pause is a kernel of one thread that counts clock cycles, so that a CUDA graph can hold it.
    """
    rest = partial(torch.cuda._sleep, max(1, round(seconds * ABOUT_HZ)))  # noqa: SLF001 - there is no public one
    return [_both(call, rest) for call in round_] or [rest]


def _both(call: Call, rest: Call) -> Call:
    def step() -> None:
        call()
        rest()

    return step

"""Rounds of calls as CUDA graphs: what the silicon needs, without the host's launches.

A graph is launched as one piece of work. Between two launches the GPU idles for some microseconds, so a round
is unrolled until a launch is long beside that gap.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
import warnings
from collections.abc import Iterator, Sequence

import torch

from energyscope.errors import ModelError
from energyscope.failures import first_line, out_of_memory
from energyscope.replay.calls import Call
from energyscope.replay.device_reads import DeviceReads
from energyscope.replay.masks import MaskDecisions

UNROLLED_S = 1e-3  # launches 2-3 us apart (measured on an H200) are below 0.5 % of this
MAXIMUM_CALLS = 4096  # in a graph: building one takes the host's time for each
TRIAL_LAUNCHES = 3
UNROLLINGS = 2
WARM_UP_ROUNDS = 2


class NotCapturableError(ModelError):
    """A round does something that a CUDA graph cannot hold, such as waiting for the device."""


class GraphRound:
    """A round of calls, unrolled in one CUDA graph.

    ``calls`` is how many calls one launch makes; ``empty`` that they launch no work on the device at all. What
    they read from the device, the graph repeats as it was before it.
    """

    def __init__(self, round_: Sequence[Call], device: torch.device, *, unrolled: bool = True) -> None:
        self.device = device
        self._stream = _side_stream(device)
        self._masks = MaskDecisions()
        self._reads: DeviceReads | None = None
        captured = None
        with contextlib.suppress(NotCapturableError):
            captured = self._captured_once(round_)
        if captured is None:  # not while the error lives, whose frames hold memory
            self._reads = DeviceReads(device)
            captured = self._captured_once(round_)
        self._graph, self.empty = captured
        self.calls = len(round_)
        if unrolled and not self.empty:
            self._unroll(round_)

    def launch(self) -> None:
        """Queue the whole graph on the current stream."""
        self._graph.replay()

    @property
    def reads(self) -> int:
        """How many values a round reads from the device."""
        return self._reads.count if self._reads else 0

    def _captured_once(self, round_: Sequence[Call]) -> tuple[torch.cuda.CUDAGraph, bool]:
        self._warm_up(round_)
        torch.cuda.empty_cache()  # pools of earlier graphs are still allocated, and a capture cannot free them
        return self._capture(round_, 1)

    def _unroll(self, round_: Sequence[Call]) -> None:
        """Unroll the round; twice where the first, short launches took longer than their work does."""
        for _ in range(UNROLLINGS):
            calls = math.ceil(UNROLLED_S / self._launch_seconds()) * self.calls
            times = min(calls, MAXIMUM_CALLS) // len(round_)
            if times * len(round_) <= self.calls:
                return
            self._graph, _ = self._capture(round_, times)
            self.calls = len(round_) * times

    def _launch_seconds(self) -> float:
        self.launch()
        torch.cuda.synchronize(self.device)
        begin = time.monotonic()
        for _ in range(TRIAL_LAUNCHES):
            self.launch()
        torch.cuda.synchronize(self.device)
        return max((time.monotonic() - begin) / TRIAL_LAUNCHES, 1e-6)

    def _warm_up(self, round_: Sequence[Call]) -> None:
        """Let libraries allocate their workspaces on this stream: they must not do so in a capture."""
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._stream):
            for _ in range(WARM_UP_ROUNDS):
                with self._masks.recorded(), self._reads.recorded() if self._reads else contextlib.nullcontext():
                    for call in round_:
                        call()
        torch.cuda.synchronize(self.device)

    def _capture(self, round_: Sequence[Call], times: int) -> tuple[torch.cuda.CUDAGraph, bool]:
        graph = torch.cuda.CUDAGraph()
        with (
            self._masks.repeated(),
            self._reads.repeated() if self._reads else contextlib.nullcontext(),
            torch.cuda.stream(self._stream),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            graph.capture_begin(capture_error_mode="thread_local")
            with _refusals():
                try:
                    for _ in range(times):
                        for call in round_:
                            call()
                except Exception:
                    _abandon(graph)
                    raise
                graph.capture_end()
        torch.cuda.current_stream(self.device).wait_stream(self._stream)
        # Only the text of PyTorch's warning shows that a graph is empty.
        return graph, any("graph is empty" in str(warning.message).lower() for warning in warned)


@functools.cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the one stream that captures run on: libraries keep a workspace for each stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Raise whatever fails in a capture as a NotCapturableError, but for a lack of memory."""
    try:
        yield
    except Exception as error:
        if out_of_memory(error):
            raise
        raise NotCapturableError(f"cannot be captured in a CUDA graph: {first_line(error)}") from error


def _abandon(graph: torch.cuda.CUDAGraph) -> None:
    """End a capture that failed, so that the stream can be used again; ending it fails a second time.

    The random generator then still counts as captured, and would refuse to draw numbers; an empty capture that
    succeeds frees it.
    """
    with contextlib.suppress(Exception):  # the first error is the one to report
        graph.capture_end()
    with contextlib.suppress(Exception):
        spare = torch.cuda.CUDAGraph()
        spare.capture_begin(capture_error_mode="thread_local")
        spare.capture_end()

"""A canary: how fast the device starts one small kernel after another, at this moment.

The same CUDA graph runs at one of two speeds on an H200: its kernels take the same time, but the gaps
between dependent ones are 0.38 or 0.72 us (GPT-2 at 128 tokens: 737 or 824 us a pass; the 200 kernels here: 174
or 209 us, at equal clocks). It is the device's state, the same for all graphs, and the kernel that was last
launched by itself sets it: after a split-K product it is fast, after a sum, a norm, an attention or another
product slow, each time (556 times of 556). Launching graphs, idling, allocating, another stream,
L2 set aside or uploading a graph again do not change it.
"""

from __future__ import annotations

import torch

KERNELS = 200
LAUNCHES = 4


class Canary:
    """A graph of tiny kernels, each of which waits for the one before; captured when it is first needed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._value: torch.Tensor | None = None

    def settle(self) -> None:
        """Bring the device into the state that ordinary kernels leave: all graphs are timed in that one.

        One kernel is not enough (measured: after an MLP the device stayed fast); 200 always were.
        """
        if self._graph is None:
            self._capture()
        if self._value is not None:
            for _ in range(KERNELS):
                self._value.add_(1.0)
            torch.cuda.synchronize(self._device)

    def seconds(self) -> float:
        """Return how long the graph takes now (s)."""
        graph = self._graph or self._capture()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        graph.replay()
        begin.record()
        for _ in range(LAUNCHES):
            graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / LAUNCHES

    def _capture(self) -> torch.cuda.CUDAGraph:
        value = torch.zeros(1, device=self._device)
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            value.add_(1.0)
            graph.capture_begin(capture_error_mode="thread_local")
            for _ in range(KERNELS):
                value.add_(1.0)
            graph.capture_end()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        self._graph, self._value = graph, value  # the graph's memory
        return graph

"""A canary: how fast the device starts one small kernel after another, at this moment.

The same CUDA graph may run at two speeds on one board, for seconds to minutes each: its kernels take the same
time, but the gaps between dependent ones are 0.35 or 0.7 us (measured on an H200: 821 or 929 us a pass of GPT-2,
193 or 229 us for the 200 kernels here, at equal clocks). It is the device's state and not the graph's: all graphs
change together, sometimes after eager work, a capture or many synchronisations. Uploading the graph again, setting
L2 aside or another stream do not change it.
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

    def seconds(self) -> float:
        """Return how long the graph takes now (s)."""
        graph = self._graph or self._capture()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
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

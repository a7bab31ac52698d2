"""A canary: how fast the device starts one small kernel after another, at this moment.

The same CUDA graph runs at one of two speeds on an H200: its kernels take the same time, but the gaps
between dependent ones are 0.38 or 0.72 us (GPT-2 at 128 tokens: 737 or 824 us a pass; the 200 kernels here: 174
or 209 us, at equal clocks). It is a state of the device, the same for all graphs at a time. A split-K product
launched by itself may make it fast; launching a graph again, idling, allocating, another stream or L2 set aside
change nothing. A small graph, captured anew and launched, leaves it slow: 166 times of 166 beside graphs with and
without such products, and before 991 of 994 windows of the profiles in reports/repeatability-h200. Why is not
known, and in a process with few graphs it fails more often; so a canary is timed before and after each window.
"""

from __future__ import annotations

import torch

KERNELS = 200
LAUNCHES = 4


class Canary:
    """A graph of tiny kernels, each of which waits for the one before; captured when it is first needed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._own: _Kernels | None = None
        self._anew: _Kernels | None = None

    def settle(self) -> None:
        """Bring the device into its slow state, in which all graphs are timed."""
        self._anew = _Kernels(self._device)  # alive until the next one: that is how it was tried
        self._anew.graph.replay()
        torch.cuda.synchronize(self._device)

    def seconds(self) -> float:
        """Return how long the graph takes now (s): always the same one (others take 205 to 228)."""
        self._own = self._own or _Kernels(self._device)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        self._own.graph.replay()
        begin.record()
        for _ in range(LAUNCHES):
            self._own.graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / LAUNCHES


class _Kernels:
    """A graph that adds to one number, over and over; it holds the number's memory."""

    def __init__(self, device: torch.device) -> None:
        self._value = value = torch.zeros(1, device=device)
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            value.add_(1.0)
            self.graph.capture_begin(capture_error_mode="thread_local")
            for _ in range(KERNELS):
                value.add_(1.0)
            self.graph.capture_end()
        torch.cuda.current_stream(device).wait_stream(stream)

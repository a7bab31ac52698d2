"""Reads how busy the parts of a board are: NVML's GPM counters (Hopper and later), and the power of its memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

from energyscope.errors import MeterError
from energyscope.metering.nvml.binding import explained
from energyscope.metering.nvml.board import Board
from energyscope.reasons import Reason, reason

T = TypeVar("T")
APART_S = 0.1  # NVML: the interval between two samples should be longer than 100 ms
# NVML_GPM_METRIC_*, in percent; of the SMs' pipes beside the tensor cores, the busiest counts.
METRICS = {"sm": (2,), "tensor": (5,), "cuda_cores": (4, 11, 12, 13), "dram": (10,)}


class GpmCounters:
    """The GPM counters of one board, read in pairs of samples.

    Raises:
        MeterError: this board, its driver or its MIG mode does not offer them.

    """

    def __init__(self, board: Board) -> None:
        self._nvml, self._handle = board.nvml, board.handle
        self._taken: tuple[float, float] | None = None  # when (s) the last sample was begun and ended
        nvml = self._nvml
        try:
            if not nvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
                raise MeterError("this GPU has no GPM counters: Hopper and later ones have")
            self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]  # the last one, and the next
            self._sample()
        except nvml.NVMLError as error:
            raise explained("the GPM counters cannot be read", error) from error

    def read(self) -> dict[str, Any]:
        """Return the shares (0 to 1) since the sample before, and its times (s); empty sooner than 0.1 s after it.

        ``reason`` says why a read failed.
        """
        if self._taken is not None and time.monotonic() - self._taken[1] < APART_S:
            return {}
        before, self._taken = self._taken, None
        try:
            self._sample()
            return {} if before is None else self._shares(before[0])
        except self._nvml.NVMLError as error:
            return {
                "reason": reason("activity-unknown", why=explained("a read of the GPM counters failed", error))
            }

    def _sample(self) -> None:
        begin_s = time.monotonic()
        self._nvml.nvmlGpmSampleGet(self._handle, self._samples[1])
        self._samples.reverse()
        self._taken = begin_s, time.monotonic()

    def _shares(self, begin_s: float) -> dict[str, Any]:
        numbers = [number for group in METRICS.values() for number in group]
        query = self._nvml.c_nvmlGpmMetricsGet_t()
        query.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        query.numMetrics = len(numbers)
        query.sample2, query.sample1 = self._samples
        for place, number in enumerate(numbers):
            query.metrics[place].metricId = number
        self._nvml.nvmlGpmMetricsGet(query)
        percent = {
            number: metric.value
            for number, metric in zip(numbers, query.metrics, strict=False)
            if metric.nvmlReturn == self._nvml.NVML_SUCCESS and math.isfinite(metric.value)
        }
        end_s = self._taken[1] if self._taken else begin_s
        return {"begin_s": begin_s, "end_s": end_s, **{key: _largest(percent, of) for key, of in METRICS.items()}}

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples:
            self._nvml.nvmlGpmSampleFree(sample)


def _largest(percent: dict[int, float], numbers: tuple[int, ...]) -> float | None:
    """Return the largest of the metrics that the board gives, as a share; None where it gives none."""
    known = [percent[number] for number in numbers if number in percent]
    return round(min(max(known), 100.0) / 100, 4) if known else None


class ActivityReader:
    """Reads what a board offers of its activity; ``problems`` says what it does not, and why."""

    def __init__(self, board: Board) -> None:
        self.problems: list[Reason] = []
        self._board = board
        self._gpm = self._tried("activity-unknown", lambda: GpmCounters(board))
        self._memory = self._tried("memory-power-unknown", board.memory_power_w) is not None

    def _tried(self, code: str, what: Callable[[], T]) -> T | None:
        try:
            return what()
        except MeterError as error:
            self.problems.append(reason(code, why=error))
            return None

    def read(self) -> dict[str, Any]:
        """Return what `GpmCounters.read` does, and the power (W) of the memory, ``memory_w``; empty if unknown."""
        shares = self._gpm.read() if self._gpm else {}
        return {**shares, "memory_w": self._board.memory_power_or_none()} if self._memory else shares

    def close(self) -> None:
        """Free what was allocated in the driver."""
        if self._gpm:
            self._gpm.close()


def activity_problems(board: Board) -> list[Reason]:
    """Return what a board does not tell of its activity, and why; by trying, not by its generation."""
    reader = ActivityReader(board)
    reader.close()
    return reader.problems

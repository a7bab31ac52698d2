"""Warm a model up until its latency is stable, and time forward passes one by one.

Nothing but forward passes is in a timed loop: their inputs are on the device before it begins, and each pass
ends with the device synchronised, as for a user who waits for the answer:

    warm-up (until stable) | pass, wait | pass, wait | ... | -> latencies, and the number of passes over time
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from energyscope.metering.ticks import Array, Calls
from energyscope.replay.calls import Call, no_garbage_collection
from energyscope.replay.marks import Clock

STABLE_WITHIN = 0.02
CHUNK_S = 0.05  # latencies are compared as medians of chunks, at least about this long
SMALLEST_CHUNK = 5
LONGEST_WARM_UP_S = 10.0


@dataclass(frozen=True)
class Timing:
    """A timed loop of forward passes; ``latencies_s`` has shape (iterations,), each synchronised."""

    latencies_s: Array
    calls: Calls
    batch_size: int

    @property
    def mean_latency_s(self) -> float:
        return float(self.latencies_s.mean())

    @property
    def throughput(self) -> float:
        """Sequences a second."""
        return self.batch_size * len(self.latencies_s) / self.calls.seconds


@dataclass(frozen=True)
class WarmUp:
    """The passes of a warm-up, and whether the latency was stable at its end (None: there was no warm-up)."""

    iterations: int
    stable: bool | None


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@torch.no_grad()
def warm_up(calls: Sequence[Call], device: torch.device, *, steps: int, most_s: float | None = None) -> WarmUp:
    """Run ``steps`` passes, and go on until their latency is stable, for ten seconds at most.

    ``most_s`` (s) ends even the steps (None: it does not). Stable: the medians of three chunks in a row differ by
    at most 2 %. Zero steps are no warm-up.
    """
    if steps < 1:
        return WarmUp(0, None)
    turn, medians, done = itertools.cycle(calls), list[float](), 0
    begin = time.monotonic()
    size = SMALLEST_CHUNK
    while True:
        latencies = [_seconds_of(next(turn), device) for _ in range(size)]
        done += size
        medians.append(float(np.median(latencies)))
        size = max(SMALLEST_CHUNK, int(CHUNK_S / max(medians[-1], 1e-7)))
        if done >= steps and is_stable(medians):
            return WarmUp(done, True)
        elapsed = time.monotonic() - begin
        if (done >= steps and elapsed >= LONGEST_WARM_UP_S) or (most_s is not None and elapsed >= most_s):
            return WarmUp(done, is_stable(medians))


def is_stable(medians: Sequence[float]) -> bool:
    """Return whether the last three medians lie within 2 % of each other."""
    last = medians[-3:]
    return len(last) == 3 and max(last) <= (1 + STABLE_WITHIN) * min(last)


@torch.no_grad()
def timed(
    calls: Sequence[Call],
    device: torch.device,
    *,
    iterations: int,
    batch_size: int,
    least_s: float = 0.0,
    most_s: float | None = None,
    clock: Clock | None = None,
) -> Timing:
    """Time ``iterations`` passes, each with the device synchronised after it.

    The calls take turns. Beyond ``iterations`` the loop goes on until ``least_s`` (s) have passed, and it ends
    earlier once ``most_s`` have (None: it does not). ``clock`` times the passes (see
    `energyscope.replay.marks.clock_for`).
    """
    with no_garbage_collection():
        synchronize(device)
        now = clock or time.monotonic
        origin_s = time.monotonic() - now()
        times = list(_times(calls, device, iterations, least_s, most_s, now))
    marks = origin_s + np.array(times)
    return Timing(np.diff(marks), Calls(marks, np.arange(len(marks), dtype=float)), batch_size)


def _times(
    calls: Sequence[Call],
    device: torch.device,
    iterations: int,
    least_s: float,
    most_s: float | None,
    clock: Clock,
) -> Iterator[float]:
    begin = now = clock()
    yield begin
    for number, call in enumerate(itertools.cycle(calls)):
        elapsed = now - begin
        over = most_s is not None and elapsed >= most_s
        if number and elapsed >= least_s and (number >= iterations or over):
            return
        call()
        synchronize(device)
        now = clock()
        yield now


def _seconds_of(call: Call, device: torch.device) -> float:
    begin = time.monotonic()
    call()
    synchronize(device)
    return time.monotonic() - begin

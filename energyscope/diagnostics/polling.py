"""What polling costs: the time of the calls beside it, and the energy that a counter counts while it is read.

Some boards lose energy when their counter is polled, and every read takes the driver's time. So the same load
runs in turn without any polling, beside the sampler, and beside a process that reads without a pause. The
energy of each run is that between two ticks; a thread reads for these only near the two ends:

    load     |====================================|
    reads       ||||                        ||||
                  tick <---- counted ----> tick
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from energyscope.errors import MeterError
from energyscope.metering.choice import open_meter
from energyscope.metering.interval import student_t
from energyscope.metering.nvml.board import Board
from energyscope.metering.nvml.probe import Probe
from energyscope.metering.ticks import Calls
from energyscope.reasons import reason
from energyscope.replay.calls import Call, RoundReplay

ROUNDS = 3  # of each way to poll, in turn
LEAD_S = 0.3  # of the load, before reading for the first tick and after the last
TICK_S = 0.5  # within which a counter ticks
READ_PAUSE_S = 0.001
NOT_POLLED, SAMPLER, WITHOUT_A_PAUSE = "not polled", "sampler", "without a pause"


@dataclass(frozen=True)
class LoadRun:
    """One run of a load: microseconds a call, and millijoules a call where a counter could be read."""

    time_us: float
    energy_mj: float | None


def effect_of_polling(uuid: str, replayer: RoundReplay, load: Sequence[Call], *, seconds: float) -> dict[str, Any]:
    """Return what each way of polling changes in the calls' time and in their counted energy.

    ``seconds`` is how long the load runs in all for each way of polling.

    Returns:
        For ``sampler`` and ``without a pause``: ``time`` and ``energy``, relative changes with intervals (see
        `paired_change`); ``energy`` None with a ``reason`` where there is no counter to read.

    """
    counter = _counter(uuid)
    pollers: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        NOT_POLLED: nullcontext,
        SAMPLER: lambda: open_meter("auto", gpu_uuid=uuid),
    }
    if counter is not None:
        pollers[WITHOUT_A_PAUSE] = lambda: Probe(uuid, "counter")
    runs: dict[str, list[LoadRun]] = {name: [] for name in pollers}
    for _ in range(ROUNDS):
        for name, start in pollers.items():
            with start():
                runs[name].append(run_loaded(counter, replayer, load, seconds / ROUNDS))
    return {name: _changes(runs[name], runs[NOT_POLLED]) for name in pollers if name != NOT_POLLED}


def _counter(uuid: str) -> Board | None:
    try:
        board = Board(uuid)
        board.energy_mj()
    except MeterError:
        return None
    return board


def run_loaded(counter: Board | None, replayer: RoundReplay, load: Sequence[Call], seconds: float) -> LoadRun:
    """Run the load for some seconds between two ticks of a counter, or just as long where there is none.

    Raises:
        MeterError: the counter does not tick.

    """
    if counter is None:
        return LoadRun(_time_us(_run(replayer, load, seconds)), None)
    with ThreadPoolExecutor(1) as thread:
        ends = thread.submit(_two_ticks, counter, seconds)
        calls = _run(replayer, load, seconds + 2 * (LEAD_S + TICK_S))
    (first_s, first_mj), (last_s, last_mj) = ends.result()
    begin, end = calls.at(np.array([first_s, last_s]))
    count = float(end - begin)
    if count <= 0 or last_mj <= first_mj:
        return LoadRun(_time_us(calls), None)
    return LoadRun((last_s - first_s) / count * 1e6, (last_mj - first_mj) / count)


def _run(replayer: RoundReplay, load: Sequence[Call], seconds: float) -> Calls:
    replayer.synchronize()
    calls = replayer.run(load, seconds)
    if calls is None:
        raise MeterError("the load ran nothing on the device: please report it with the output of --debug")
    return calls


def _time_us(calls: Calls) -> float:
    return calls.seconds / float(calls.count[-1]) * 1e6


def _two_ticks(counter: Board, seconds: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return time (s) and value (mJ) of a tick soon after the start, and of one some seconds later."""
    time.sleep(LEAD_S)
    first = _next_tick(counter)
    time.sleep(seconds)
    return first, _next_tick(counter)


def _next_tick(counter: Board) -> tuple[float, float]:
    """Read the counter until it changes."""
    end = time.monotonic() + TICK_S
    seen_s, value = time.monotonic(), counter.energy_mj()
    while time.monotonic() < end:
        time.sleep(READ_PAUSE_S)
        begin = time.monotonic()
        newer = counter.energy_mj()
        now_s = (begin + time.monotonic()) / 2
        if newer != value:
            return (seen_s + now_s) / 2, newer
        seen_s = now_s
    raise MeterError(f"the energy counter did not change in {TICK_S:g} s under a load: it may be frozen")


def _changes(polled: Sequence[LoadRun], alone: Sequence[LoadRun]) -> dict[str, Any]:
    time_change = paired_change([run.time_us for run in polled], [run.time_us for run in alone])
    changes: dict[str, Any] = {"time": time_change and asdict(time_change), "energy": None}
    pairs = [
        (run.energy_mj, other.energy_mj)
        for run, other in zip(polled, alone, strict=True)
        if run.energy_mj is not None and other.energy_mj is not None
    ]
    if not pairs:
        return {**changes, "reason": reason("no-energy-counter")}
    energy_change = paired_change(*zip(*pairs, strict=True))
    return {**changes, "energy": energy_change and asdict(energy_change)}


@dataclass(frozen=True)
class PairedChange:
    """A relative change with its 95 % interval (0.01: 1 % more); the interval is None for a single pair."""

    change: float
    low: float | None
    high: float | None
    pairs: int


def paired_change(treated: Sequence[float], untreated: Sequence[float]) -> PairedChange | None:
    """Return what a treatment changes, from pairs of measurements taken in turn, one with and one without it.

    Pairs cancel slow drifts; Student's interval is taken over the logarithms of their ratios.

    Returns:
        The relative change, None where no pair is positive.

    """
    pairs = [(value, base) for value, base in zip(treated, untreated, strict=True) if value > 0 and base > 0]
    if not pairs:
        return None
    logs = np.log([value / base for value, base in pairs])
    mean = float(logs.mean())
    if len(logs) == 1:
        return PairedChange(float(np.expm1(mean)), None, None, 1)
    half = student_t(len(logs) - 1) * float(logs.std(ddof=1)) / float(np.sqrt(len(logs)))
    low, change, high = (float(np.expm1(value)) for value in (mean - half, mean, mean + half))
    return PairedChange(change, low, high, len(logs))

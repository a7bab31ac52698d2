"""The ways to measure a component that are compared. Each gives values in millijoules a call, with its cost."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from energyscope.accounting.records import POWER_CAP
from energyscope.metering.group import subtract_window
from energyscope.metering.interval import combine, windows_wanted
from energyscope.metering.meter import Meter
from energyscope.metering.window import Window, estimate_window
from energyscope.reasons import words
from energyscope.replay.replayer import Replayer

LOOK_BACK_S = 3.0  # ticks before a window that sharpen the grid
LAST_TICK_S = 0.008  # the sampler prints a tick one read later
TARGET = 0.01
WINDOWS_LIMIT = 14
FIRST_SAMPLE_S = 10.0

Counter = Callable[[], float]


@dataclass(frozen=True)
class Value:
    """One value of a method, with the seconds it took and, where the method gives one, its interval."""

    energy_mj: float
    seconds: float
    low_mj: float | None = None
    high_mj: float | None = None


class NoValueError(Exception):
    """A method gave no value; the message says why."""


@dataclass(frozen=True)
class Replay:
    """What our own ways work with: a started meter, a replayer and a component's round of calls."""

    meter: Meter
    replayer: Replayer
    round: Sequence[Any]

    @property
    def window_s(self) -> float:
        return self.meter.window_s + self.meter.settle_s


def tick_aligned(replay: Replay, seconds: float, rest_s: float | None = None) -> Window:
    """Replay for some seconds and estimate the energy between ticks; pauses are measured alone and subtracted."""
    found = _window(replay, replay.round, seconds, rest_s)
    return found if rest_s is None else subtract_window(found, _window(replay, [], seconds, rest_s))


def _window(replay: Replay, round_: Sequence[Any], seconds: float, rest_s: float | None) -> Window:
    calls = replay.replayer.run(round_, seconds, rest_s=rest_s)
    if calls is None:
        raise NoValueError("it launches no work on the device")
    begin, end = float(calls.time_s[0]), float(calls.time_s[-1])
    meter = replay.meter
    if not meter.modelled:
        time.sleep(max(0.0, end + LAST_TICK_S - time.monotonic()))
    return estimate_window(meter.ticks(begin - LOOK_BACK_S, end), calls, settle_s=meter.settle_s)


def reference(replay: Replay, seconds: float) -> tuple[Window, bool]:
    """Take one long window; with pauses where the component would run into the power cap.

    Returns:
        The window, and whether pauses were made.

    """
    begin = time.monotonic()
    window = tick_aligned(replay, seconds)
    states = replay.meter.states(begin, time.monotonic())
    if window.time_us is None or not any((state.get("throttle") or 0) & POWER_CAP for state in states):
        return window, False
    return tick_aligned(replay, seconds, rest_s=window.time_us / 1e6), True


def ours(replay: Replay) -> Value:
    """Take what the adaptive loop takes: five windows, more where their spread asks for them; their mean."""
    begin = time.monotonic()
    energies: list[float | None] = []
    while len(energies) < windows_wanted(energies, target=TARGET, limit=WINDOWS_LIMIT):
        energies.append(tick_aligned(replay, replay.window_s).energy_mj)
    estimate = combine(energies)
    if estimate.mean is None:
        raise NoValueError(f"none of {len(energies)} windows was usable")
    return Value(estimate.mean, time.monotonic() - begin, estimate.low, estimate.high)


def one_window(replay: Replay) -> Value:
    """Take a single window of ours: a number without an interval, as the other methods give one."""
    begin = time.monotonic()
    window = tick_aligned(replay, replay.window_s)
    if window.energy_mj is None:
        raise NoValueError(words(window.reason) or "no value")
    return Value(window.energy_mj, time.monotonic() - begin)


def counter_difference(counter: Counter, load: Any, calls: int) -> Value:
    """Read the counter before and after a fixed number of calls: one trial of CLEAR (arXiv 2510.02810)."""
    load.synchronize()
    begin = time.monotonic()
    before = counter()
    done = load.run(calls)
    return Value((counter() - before) / done, time.monotonic() - begin)


def zeus_window(monitor: Any, load: Any, calls: int) -> Value:
    """Measure one window of Zeus around a number of calls."""
    begin = time.monotonic()
    monitor.begin_window("bench")
    done = load.run(calls)
    measured = monitor.end_window("bench")
    joules = sum(measured.gpu_energy.values())
    return Value(joules * 1e3 / done, time.monotonic() - begin)


def zeus_monitor() -> Any:
    """Return Zeus's monitor of the first GPU.

    Raises:
        NoValueError: Zeus is not installed, or cannot use this GPU.

    """
    try:
        from zeus.monitor import ZeusMonitor
    except ImportError as error:
        raise NoValueError(f"Zeus is not installed ({error})") from error
    try:
        return ZeusMonitor(gpu_indices=[0], cpu_indices=[])
    except Exception as error:
        raise NoValueError(f"Zeus cannot be used here: {error}") from error


class SmiPower:
    """Power as ``nvidia-smi -lms`` prints it, with the time at which each line arrived."""

    def __init__(self, gpu_uuid: str, interval_ms: int = 100) -> None:
        self.samples: list[tuple[float, float]] = []
        self._command = [
            "nvidia-smi", "-i", gpu_uuid, "--query-gpu=power.draw", "--format=csv,noheader,nounits",
            "-lms", str(interval_ms),
        ]  # fmt: skip

    @contextmanager
    def watching(self) -> Iterator[SmiPower]:
        """Run the command until the block ends.

        Raises:
            NoValueError: there is no such command, or it prints no power.

        """
        try:
            process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError as error:
            raise NoValueError(f"nvidia-smi cannot be run ({error})") from error
        reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            self._await_first()
            yield self
        finally:
            process.terminate()
            process.wait()
            reader.join()

    def _read(self, lines: Any) -> None:
        for line in lines:
            try:
                self.samples.append((time.monotonic(), float(line)))
            except ValueError:  # "[N/A]": no sample, and no samples at all is said by who waits for them
                continue

    def _await_first(self) -> None:
        end = time.monotonic() + FIRST_SAMPLE_S
        while not self.samples and time.monotonic() < end:
            time.sleep(0.05)
        if not self.samples:
            raise NoValueError(f"nvidia-smi printed no power in {FIRST_SAMPLE_S:g} s")

    def mean_w(self, begin_s: float, end_s: float) -> float:
        """Return the plain mean of the samples in an interval (W)."""
        inside = [watts for moment, watts in list(self.samples) if begin_s <= moment <= end_s]
        if not inside:
            raise NoValueError(f"nvidia-smi printed no power in {end_s - begin_s:.1f} s")
        return float(np.mean(inside))


def smi_window(power: SmiPower, load: Any, calls: int) -> Value:
    """Multiply the mean of sampled power with the time of a number of calls."""
    load.synchronize()
    begin = time.monotonic()
    done = load.run(calls)
    end = time.monotonic()
    return Value(power.mean_w(begin, end) * (end - begin) * 1e3 / done, end - begin)


def energy_counter(gpu_uuid: str) -> Counter:
    """Return a function that reads the GPU's energy counter (mJ) straight from NVML, as simple tools do."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
    return lambda: float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))

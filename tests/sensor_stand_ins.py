"""Loads and sensors: in real time on the fake NVML machine, and in time of their own, which no host holds up."""

from __future__ import annotations

import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from energyscope.diagnostics import polling, sensor
from energyscope.metering.ticks import Calls
from energyscope.testing import SimulatedBoard, SimulatedCall, SimulatedGpu, SimulatedSensor

UUID = "GPU-aaaa"
IDLE_W, LOAD_W, CALL_S = 100.0, 400.0, 1e-4
READ_S, PERIOD_S = 0.001, 0.1
MACHINE = f"gpu {UUID} Fake H200\nat 0 power_w {IDLE_W}\nat 0 read_s 0.001\n"


def hurry(monkeypatch):
    """Shorten what is only long because real fields average over a second."""
    monkeypatch.setattr(sensor, "IDLE_S", 0.6)
    monkeypatch.setattr(sensor, "STEP_S", 0.6)
    monkeypatch.setattr(sensor, "LAST_S", 0.4)
    monkeypatch.setattr(polling, "ROUNDS", 2)


class FakeLoad:
    """A replayer whose calls take 100 us and draw 400 W on a fake machine."""

    def __init__(self, machine):
        self.machine = machine
        self.origin_s = float(machine.script.read_text().split()[1])

    def run(self, round_, seconds):
        begin = time.monotonic()
        self.draw(LOAD_W)
        time.sleep(seconds)
        self.draw(IDLE_W)
        end = time.monotonic()
        return Calls(np.array([begin, end]), np.array([0.0, round((end - begin) / CALL_S)]))

    def draw(self, watts):
        self.machine.append(f"at {time.monotonic() - self.origin_s:.4f} power_w {watts}")

    def synchronize(self):
        return None

    def own_bytes(self):
        return None


class Load:
    """Calls of 100 us that take longer while something else is on; each run begins when the clock shows 0."""

    def __init__(self, slower=0.0):
        self.slower = slower
        self.beside = False

    def run(self, round_, seconds):
        call_s = CALL_S * (1 + self.slower) if self.beside else CALL_S
        return Calls(np.array([0.0, seconds]), np.array([0.0, seconds / call_s]))

    def synchronize(self):
        return None

    @contextmanager
    def something(self, *_arguments):
        self.beside = True
        yield
        self.beside = False


class Counter:
    """A counter that ticks every 0.1 s, and may lose a share of it while something is beside the load."""

    def __init__(self, clock, load, watts=LOAD_W, loses=0.0):
        self.clock, self.load, self.watts, self.loses = clock, load, watts, loses

    def energy_mj(self):
        self.clock.sleep(READ_S)
        watts = self.watts * (1 - self.loses) if self.load.beside else self.watts
        return 5e6 + 1e3 * watts * PERIOD_S * (self.clock.now_s // PERIOD_S)


STEP = [SimulatedCall(LOAD_W * CALL_S * 1e3, CALL_S * 1e6)]


class SimulatedProbe:
    """What the probing process sees of a simulated GPU: power every 5 ms, as each field averages it."""

    def __init__(self, gpu, averaging_s):
        self.gpu, self.averaging_s, self.begin_s = gpu, averaging_s, gpu.now()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return None

    def drain(self):
        return None

    def trace(self, field):
        """Fields are renewed every 0.1 s; all but the averaged one show the mean of just that time."""
        times = np.arange(self.begin_s, self.gpu.now(), 0.005)
        renewed = np.floor(times / PERIOD_S) * PERIOD_S
        window_s = self.averaging_s if field == "average" else PERIOD_S
        energy_j = self.gpu.trace.energy_j
        return times, (energy_j(renewed) - energy_j(renewed - window_s)) / window_s


def simulated(monkeypatch, averaging_s=1.0):
    """Let the sensor of a simulated GPU be examined, in its time; return the GPU, which is the replayer too."""
    gpu = SimulatedGpu(SimulatedSensor(period_s=PERIOD_S), SimulatedBoard(idle_w=IDLE_W, warm_up_s=0.0))
    gpu.name = "nvml"
    monkeypatch.setattr(sensor, "time", SimpleNamespace(monotonic=gpu.now, sleep=gpu.sleep))
    monkeypatch.setattr(sensor, "open_meter", lambda *_names, **_options: gpu)
    monkeypatch.setattr(sensor, "Probe", lambda *_names: SimulatedProbe(gpu, averaging_s))
    return gpu

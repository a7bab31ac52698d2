"""A load for the fake NVML machine: while it runs, the machine draws more power."""

from __future__ import annotations

import time

import numpy as np

from energyscope.metering.ticks import Calls
from energyscope.sensing import polling, sensor

UUID = "GPU-aaaa"
IDLE_W, LOAD_W, CALL_S = 100.0, 400.0, 1e-4
MACHINE = f"gpu {UUID} Fake H200\nat 0 power_w {IDLE_W}\nat 0 read_s 0.001\n"


def hurry(monkeypatch):
    """Shorten what is only long because real fields average over a second and real ticks are uncertain."""
    monkeypatch.setattr(sensor, "IDLE_S", 1.5)
    monkeypatch.setattr(sensor, "AGREEMENT_S", 2.0)
    monkeypatch.setattr(polling, "ROUNDS", 2)
    monkeypatch.setattr(polling, "LEAD_S", 0.1)
    monkeypatch.setattr(polling, "TICK_S", 0.3)


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

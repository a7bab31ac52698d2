"""How long a load runs before it counts: as long as its power shows that it settles, and no longer."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from simulated import StandInRig, target

from energyscope.metering.group import MeterGroup
from energyscope.metering.ticks import Calls, Ticks
from energyscope.metering.window import Window
from energyscope.stages.instruments import Instruments
from energyscope.stages.settling import settling_s
from energyscope.testing import SimulatedBoard, SimulatedCall, SimulatedGpu, SimulatedSensor

MODEL = SimulatedCall(40.0, 160.0)  # 250 W
SEEDS = 40


@pytest.mark.parametrize("lasts_s", [0.5, 0.8])
def test_a_transient_is_seen(lasts_s):
    """GIVEN power 2 % too high at the begin of each load THEN loads run longer in nearly all sessions."""
    found = []
    for seed in range(SEEDS):
        board = SimulatedBoard(seed=seed, transient=0.02, transient_s=lasts_s)
        gpu = SimulatedGpu(SimulatedSensor(noise=0.002, seed=seed), board)
        instruments = Instruments(StandInRig({"node:model": [MODEL]}, {}), gpu, MeterGroup([gpu]), gpu)
        found.append(settling_s(instruments, target("node:model"), gpu.window_s))
    assert sum(lead_s > 0 for lead_s in found) >= 0.9 * SEEDS


class WanderingHost:
    """Replayer and meter of calls of 20 mJ of work each, whose host changes its pace every 0.3 s; 120 W idle."""

    modelled = False

    def __init__(self, seed: int, waits: float | None, transient: float = 0.0) -> None:
        self.transient = transient  # more power (relative) in the first 0.6 s
        self.random = np.random.default_rng(seed)
        self.waits = waits

    def run(self, _round: object, seconds: float) -> Calls:
        times = np.arange(0.0, seconds, 0.3)
        paces = 1e3 * np.exp(0.1 * self.random.standard_normal(len(times) - 1))  # calls a second
        counts = np.concatenate([[0.0], np.cumsum(paces * np.diff(times))])
        return Calls(times, counts, None if self.waits is None else self.waits * seconds)

    def windows(self, calls: Calls, lead_s: float) -> list[Window]:
        begin, end = calls.time_s[0] + lead_s, calls.time_s[-1]
        count = float(np.diff(calls.at(np.array([begin, end])))[0])
        early = max(0.0, 0.6 - begin) / (end - begin)
        energy_mj = (20.0 + 120e3 * (end - begin) / count) * (1 + self.transient * min(1.0, early))
        return [window(energy_mj, 1e-3 * energy_mj * count / (end - begin))]


def window(energy_mj: float, power_w: float) -> Window:
    return Window(energy_mj=energy_mj, time_us=1e3, power_w=power_w, naive_mj=None, ticks=4, calls=1, seconds=0.4)


def leads(waits, transient=0.0):
    """Return the leads that sessions of other seeds find on a wandering host."""
    found = []
    for seed in range(SEEDS):
        host = WanderingHost(seed, waits, transient)
        clock = SimpleNamespace(now=lambda: 1e9, sleep=lambda seconds: None)
        instruments = Instruments(StandInRig({"node:model": [MODEL]}, {}), host, host, clock)
        found.append(settling_s(instruments, target("node:model"), 0.6))
    return found


@pytest.mark.parametrize("waits", [0.0, None])
def test_a_host_that_wanders_is_no_transient(waits):
    """GIVEN a pace that wanders by 10 % THEN hardly a session runs its loads longer, which takes minutes."""
    assert sum(lead_s > 0 for lead_s in leads(waits)) <= 0.1 * SEEDS


def test_power_shows_a_transient_where_the_host_sets_the_pace():
    """GIVEN 8 % more power at first, on a wandering host THEN power shows it, which energy a call does not."""
    by_power, by_energy = (sum(lead_s > 0 for lead_s in leads(waits, 0.08)) for waits in (0.0, None))
    assert by_power >= 0.9 * SEEDS
    assert by_energy <= 0.5 * SEEDS


class LateStates(SimulatedGpu):
    """A board whose states are those of the ticks that were read, as a sampler's."""

    read_s = 0.0

    def ticks(self, begin_s: float, end_s: float) -> Ticks:
        self.read_s = max(self.read_s, min(end_s, self.now()))
        return super().ticks(begin_s, end_s)

    def states(self, begin_s: float, end_s: float) -> list[dict[str, object]]:
        return super().states(begin_s, min(end_s, self.read_s))


@pytest.mark.parametrize(("asked", "throttle", "lead_s"), [(True, 4, 1.0), (True, 0, 0.0), (False, 4, 0.0)])
def test_loads_under_the_power_cap_settle_where_that_is_asked_for(asked, throttle, lead_s):
    """GIVEN steady power THEN a load runs longer only if that is asked for and the power cap is reported."""
    gpu = LateStates(SimulatedSensor(noise=0.0, seed=0), SimulatedBoard(seed=0, throttle=throttle))
    instruments = Instruments(StandInRig({"node:model": [MODEL]}, {}), gpu, MeterGroup([gpu]), gpu)
    assert settling_s(instruments, target("node:model"), gpu.window_s, settle_capped=asked) == lead_s

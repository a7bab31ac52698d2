"""How far off is the energy of periodic work, with and without pauses, near periods that the sensor samples at?

    python tools/periods.py OUT.csv     # on a GPU, about 3 minutes

Copies in memory with a pause after each, at 26 periods: simple ratios of the sensor's sampling interval, half a
percent beside each, and six others. The reference is the same work with pauses of random length, of the same mean:
it has no period to be in step with. A parabola over the rate, through all 26, stands for them. Beside it, of one
second each: a window between ticks without more; the counter at begin and end (Zeus's windows, and CLEAR's); and
this tool's, with a pause where it finds one needed.
"""

from __future__ import annotations

import random
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from energyscope.diagnostics.sampling import Bursts, bursts_on
from energyscope.metering.group import MeterGroup, subtract_window
from energyscope.metering.ticks import Calls
from energyscope.metering.waiting import read_windows
from energyscope.metering.window import Window
from energyscope.replay.calls import Call
from energyscope.replay.replayer import Replayer
from energyscope.settings.run import RunSettings
from energyscope.stages.measured_devices import find_devices, open_meters
from energyscope.stages.pauses import Pauses
from energyscope.stages.sampling_interval import sampling_interval

RATIOS = (1 / 2, 2 / 3, 3 / 4, 1, 5 / 4, 4 / 3, 3 / 2, 2, 3, 4)
BESIDE = 1.005
OTHERS_S = (0.37e-3, 0.52e-3, 0.71e-3, 0.9e-3, 1.13e-3, 2.05e-3)
WINDOW_S, REFERENCE_S = 1.0, 3.0
RANDOM_PAUSES = 256
CORRECTIONS, PACE_S = 3, 0.2
METHODS = ("plain", "begin_and_end", "energyscope")


def main() -> None:
    """Measure every period in random order, and print the errors."""
    out = Path(sys.argv[1])
    settings = RunSettings("gpt2", weights="random")  # for its devices and meters alone
    where = find_devices(settings)
    with open_meters(settings, where.gpus) as meter, torch.no_grad():
        interval_s = sampling_interval(meter, where.device)
        if interval_s is None:
            sys.exit("this board's sampling interval was not found: doctor --thorough searches it again")
        probe = Probe(meter, Replayer(where.device), bursts_on(where.device), interval_s)
        periods = [*OTHERS_S, *(r * interval_s * beside for r in RATIOS for beside in (1.0, BESIDE))]
        table = pd.DataFrame([probe.measure(period) for period in random.Random(0).sample(periods, len(periods))])
    table = table.sort_values("period_us")
    rate_hz = 1e6 / table["period_us"]
    reference_w = np.polyval(np.polyfit(rate_hz, table["reference_w"], 2), rate_hz)
    print(f"references scatter by {(table['reference_w'] / reference_w).std(ddof=3):.2%} about a parabola")
    for method in METHODS:
        table[f"{method}_off"] = table[f"{method}_w"] / reference_w - 1
    table.to_csv(out, index=False)
    print(table.round(3).to_string(index=False))
    for method in METHODS:
        off = table[f"{method}_off"].abs()
        print(f"{method}: at most {off.max():.1%} off, median {off.median():.2%}, {(off > 0.02).sum()} over 2 %")


class Probe:
    """Measures bursts of one period in each way, on started meters."""

    def __init__(self, meter: MeterGroup, replayer: Replayer, bursts: Bursts, interval_s: float) -> None:
        self.meter, self.replayer, self.bursts, self.interval_s = meter, replayer, bursts, interval_s

    def measure(self, period_s: float) -> dict[str, Any]:
        """Return a row: the period (us), its ratio to the interval, and each way's power (W)."""
        pause_s = self._pause(period_s)
        varied = random.Random(1)
        drawn = [varied.uniform(0.4, 1.6) for _ in range(RANDOM_PAUSES)]
        pauses = [pause_s * each * RANDOM_PAUSES / sum(drawn) for each in drawn]
        _, reference = self._window([self.bursts.with_pause(pause) for pause in pauses], REFERENCE_S)
        work = [self.bursts.with_pause(pause_s)]
        calls, plain = self._window(work, WINDOW_S)
        own_w, rest_s = self._with_pauses(work, calls, plain)
        return {
            "period_us": plain.time_us,
            "ratio": (plain.time_us or 0.0) / 1e6 / self.interval_s,
            "reference_w": _watts(reference.energy_mj, reference),
            "pause_us": None if rest_s is None else rest_s * 1e6,
            "plain_w": _watts(plain.energy_mj, plain),
            "begin_and_end_w": _watts(plain.naive_mj, plain),
            "energyscope_w": own_w,
        }

    def _pause(self, period_s: float) -> float:
        """Return the pause (s) with which the bursts have a period."""
        pause_s = period_s - self.bursts.seconds
        for _ in range(CORRECTIONS):
            pause_s += period_s - self.replayer.pace([self.bursts.with_pause(pause_s)], PACE_S)
        return pause_s

    def _window(self, work: list[Call], seconds: float, rest_s: float | None = None) -> tuple[Calls, Window]:
        calls = self.replayer.run(work, seconds, rest_s=rest_s)
        assert calls is not None  # eager calls are always run
        return calls, read_windows(self.meter, calls)[0]

    def _with_pauses(self, work: list[Call], calls: Calls, window: Window) -> tuple[float | None, float | None]:
        """Return the power (W) that a session would find, and its pause (s)."""
        pauses = Pauses(self.interval_s)
        if not pauses.begin(_entry(calls, window), []):
            return _watts(window.energy_mj, window), None
        rest_s = pauses.of("bursts")
        calls, both = self._window(work, WINDOW_S, rest_s)
        if pauses.tune(_entry(calls, both)):  # once, as a session does
            rest_s = pauses.of("bursts")
            calls, both = self._window(work, WINDOW_S, rest_s)
        _, alone = self._window([], WINDOW_S, rest_s)
        own = subtract_window(both, alone)
        return _watts(own.energy_mj, own), rest_s


def _entry(calls: Calls, window: Window) -> dict[str, Any]:
    return {
        "pass": 0,
        "subject": "bursts",
        "window": asdict(window),
        "period_us": window.time_us,
        "tick_spread": window.power_spread,
        "ran_s": calls.span_s,
    }


def _watts(energy_mj: float | None, window: Window) -> float | None:
    return energy_mj * 1e3 / window.time_us if energy_mj and window.time_us else None


if __name__ == "__main__":
    main()

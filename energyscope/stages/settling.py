"""How long a load must run before it counts: power may settle for up to a second after a load began."""

from __future__ import annotations

import math
import statistics

from energyscope.metering.group import sum_windows
from energyscope.metering.ticks import Calls
from energyscope.metering.waiting import read_windows
from energyscope.replay.targets import Target
from energyscope.stages.instruments import Instruments
from energyscope.stages.sampling_budget import LEADS_S, SETTLED_S, SETTLING_REPLAYS
from energyscope.unknown import quotient

GAP_S = 0.1  # without load before such a replay, as between windows, where the next one is set up
UNSETTLED = 0.004  # relative; more than this, beyond two standard errors, asks for a longer lead


def settling_s(instruments: Instruments, anchor: Target, window_s: float) -> float:
    """Return how long (s) loads must run before they count: until the model's energy is that of later on.

    A window as usual, begun ever later in a long replay, is compared with the end of it.
    """
    replays = []
    for _ in range(SETTLING_REPLAYS):
        instruments.clock.sleep(GAP_S)
        with instruments.replay_setup.round(anchor) as round_:
            calls = instruments.replayer.run(round_, window_s + LEADS_S[-1] + SETTLED_S)
        if calls is None:
            return 0.0
        replays.append(_excess(instruments, calls, window_s))
    for lead_s, column in zip(LEADS_S, zip(*replays, strict=True), strict=True):
        known = [value for value in column if value is not None]
        off = abs(statistics.fmean(known)) if len(known) > 1 else 0.0
        if off <= UNSETTLED or off <= 2 * statistics.stdev(known) / math.sqrt(len(known)):
            return lead_s
    return LEADS_S[-1]


def _excess(instruments: Instruments, calls: Calls, window_s: float) -> list[float | None]:
    """Return by how much (relative) a window's energy is off that of the end, for each lead."""
    settled = sum_windows(read_windows(instruments.meter, calls, instruments.clock, lead_s=LEADS_S[-1]))
    excess = []
    for lead_s in LEADS_S:
        window = sum_windows(instruments.meter.windows(calls.first(window_s + lead_s), lead_s))
        ratio = quotient(window.energy_mj, settled.energy_mj)
        excess.append(None if ratio is None else ratio - 1)
    return excess

"""How long a load must run before it counts: power may settle for up to a second after a load began."""

from __future__ import annotations

from energyscope.accounting.records import HOST_BOUND, POWER_CAP, board
from energyscope.metering.group import sum_windows
from energyscope.metering.interval import combine
from energyscope.metering.ticks import Calls
from energyscope.metering.waiting import read_windows
from energyscope.replay.targets import Target
from energyscope.stages.instruments import Instruments
from energyscope.stages.sampling_budget import LEADS_S, SETTLED_S, SETTLING_REPLAYS
from energyscope.unknown import quotient

GAP_S = 0.1  # without load before such a replay, as between windows, where the next one is set up
UNSETTLED = 0.004  # relative; more than this, and shown beyond the replays' scatter, asks for a longer lead


def settling_s(instruments: Instruments, anchor: Target, window_s: float, *, settle_capped: bool = False) -> float:
    """Return how long (s) loads must run before they count: until the model's energy is that of later on.

    A window as usual, begun ever later in a long replay, is compared with the end of it: by energy a call, or by
    power where the host sets the pace, since that wanders. Where nothing is shown, no load runs longer; with
    ``settle_capped`` it runs for the longest lead if the power limit slowed the board. There clocks overshoot, are
    cut, and recover within a second, by a course that depends on the load before: on an H100 the 8B's prefill took
    42.5 J at once and 43.7 J after 0.6 s.
    """
    replays = []
    for _ in range(SETTLING_REPLAYS):
        instruments.clock.sleep(GAP_S)
        with instruments.replay_setup.round(anchor) as round_:
            calls = instruments.replayer.run(round_, window_s + LEADS_S[-1] + SETTLED_S)
        if calls is None:
            return 0.0
        replays.append(_excess(instruments, calls, window_s))
        states = instruments.meter.states(*calls.span_s) if settle_capped else []  # its ticks have been read
        if (board(states)["throttle"] or 0) & POWER_CAP:
            return LEADS_S[-1]
    for lead_s, column in zip(LEADS_S, zip(*replays, strict=True), strict=True):
        off = combine(column)
        shown = off.low is not None and off.high is not None and not off.low <= 0 <= off.high
        if not shown or abs(off.mean or 0.0) <= UNSETTLED:
            return lead_s
    return LEADS_S[-1]


def _excess(instruments: Instruments, calls: Calls, window_s: float) -> list[float | None]:
    """Return by how much (relative) a window's energy, or power, is off that of the end, for each lead."""
    host_paced = calls.waited_s is not None and calls.waited_s < HOST_BOUND * calls.seconds
    settled = sum_windows(read_windows(instruments.meter, calls, instruments.clock, lead_s=LEADS_S[-1]))
    excess = []
    for lead_s in LEADS_S:
        window = sum_windows(instruments.meter.windows(calls.first(window_s + lead_s), lead_s))
        both = (window.power_w, settled.power_w) if host_paced else (window.energy_mj, settled.energy_mj)
        ratio = quotient(*both)
        excess.append(None if ratio is None else ratio - 1)
    return excess

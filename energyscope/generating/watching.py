"""The continuous trace of all meters, piece by piece as it goes to the journal."""

from __future__ import annotations

import time
from typing import Any

from energyscope.generating.intervals import as_lists, spent_between
from energyscope.metering.group import LOOK_BACK_S, MeterGroup

AFTER_S = 0.4  # within which a counter shows what was drawn before
LOOK_S = 0.02


class Pieces:
    """Hands out each tick of each meter once, from some seconds before it was made on."""

    def __init__(self, meter: MeterGroup) -> None:
        self.meter = meter
        self._since_s = [time.monotonic() - LOOK_BACK_S] * len(meter.meters)

    def take(self) -> list[list[list[float]]]:
        """Return the new ticks of each meter, as plain data."""
        now_s, pieces = time.monotonic(), []
        for number, meter in enumerate(self.meter.meters):
            ticks = meter.ticks(self._since_s[number], now_s)
            if len(ticks):  # the sampler prints a tick late: ask from the last one on, and not from now
                self._since_s[number] = float(ticks.time_s[-1]) + 1e-6
            pieces.append(as_lists(ticks))
        return pieces


def load_entry(begin_s: float, end_s: float, meter: MeterGroup) -> dict[str, Any]:
    """Return the journal entry of the load phase, from ``begin_s`` to ``end_s`` (monotonic clock, s).

    Call it when loading is over, with the meters started since before it began: it waits for the next tick. The
    energy of each device is the counter's rise between both times, see `spent_between`.
    """
    deadline_s = time.monotonic() + AFTER_S
    while not _shown(meter, end_s) and time.monotonic() < deadline_s:
        time.sleep(LOOK_S)
    devices = [
        {
            "device": board.device,
            **spent_between(board.ticks(begin_s - LOOK_BACK_S, end_s + AFTER_S), begin_s, end_s),
        }
        for board in meter.meters
    ]
    return {"stage": "generate", "phase": "load", "begin_s": begin_s, "end_s": end_s, "devices": devices}


def _shown(meter: MeterGroup, time_s: float) -> bool:
    return all(len(board.ticks(time_s, time_s + AFTER_S)) > 0 for board in meter.meters)

"""The interval at which a board samples its power: found once, and kept for each board and driver."""

from __future__ import annotations

import torch

from energyscope import user_files
from energyscope.diagnostics.sampling import bursts_on, find_sampling
from energyscope.metering.group import MeterGroup
from energyscope.metering.nvml.board import Board
from energyscope.progress import Progress, silent
from energyscope.replay.replayer import Replayer

FILE = "sampling-intervals.json"  # not "sampling.json", whose search missed some boards
SAMPLING_TAKES_S = 15.0  # about


def sampling_interval(
    meter: MeterGroup, device: torch.device, *, again: bool = False, progress: Progress = silent
) -> float | None:
    """Return the interval (s) of a started meter's first sensor, None where there is none or it does not show.

    None too where no device memory is left to search. What was found is kept in the user's application
    directory, by board and driver; a board that showed none is not searched ``again`` unless that is asked for.
    """
    board, known = _board(meter, device), user_files.read(FILE)
    if board is None:
        return None
    if again or board not in known:
        progress("sensor", f"the interval of its samples (about {SAMPLING_TAKES_S:.0f} s)", 0, 1)
        try:
            with torch.no_grad():
                known[board] = find_sampling(meter.meters[0], Replayer(device), bursts_on(device))
        except torch.OutOfMemoryError:
            return None  # the model leaves no room for the bursts: a later run may find it
        user_files.add(FILE, {board: known[board]})
    interval_s: float | None = known[board]
    return interval_s


def search_s(meter: MeterGroup, device: torch.device) -> float:
    """Return about how long (s) `sampling_interval` will search: 0 where there is nothing left to find."""
    board = _board(meter, device)
    return 0.0 if board is None or board in user_files.read(FILE) else SAMPLING_TAKES_S


def _board(meter: MeterGroup, device: torch.device) -> str | None:
    """Name the board and driver of a sensor that samples, None for others."""
    if meter.modelled or device.type != "cuda" or meter.name != "nvml":
        return None
    uuid = meter.meters[0].device
    return f"{uuid} driver {Board(uuid).facts()['driver']}"

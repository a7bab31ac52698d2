"""The meter of one AMD GPU: its energy counter, and who else uses the GPU, as AMD SMI shows them."""

from __future__ import annotations

from energyscope.metering.amd.board import AmdBoard
from energyscope.metering.counter.meter import CounterMeter
from energyscope.metering.nvml.neighbours import Neighbours
from energyscope.reasons import reason


class AmdMeter(CounterMeter):
    """The energy of one AMD GPU, by its id (see `AmdBoard`).

    Raises:
        MeterError: as `AmdBoard`, or the counter stands still.

    """

    name = "amd"

    def __init__(self, gpu: str) -> None:
        board = AmdBoard(gpu)
        super().__init__(gpu, board, Neighbours(board.usage), [reason("amd-counter")])

"""The meter that integrates the GPU's power field, for boards without an energy counter and for cross-checks."""

from __future__ import annotations

from energyscope.metering.nvml.board import Board
from energyscope.metering.power_meter import PowerMeter
from energyscope.metering.watched import binding_notes, board_neighbours, sampler_command
from energyscope.reasons import Reason, reason


class NvmlPowerMeter(PowerMeter):
    """The best power field of one GPU that answers, sampled by a process of its own and integrated.

    ``note`` is what must be said of the device.

    Raises:
        MeterError: no power field answers, or there is no such GPU.

    """

    name = "nvml-power"

    def __init__(self, gpu_uuid: str, *, note: Reason | None = None) -> None:
        self.board = Board(gpu_uuid)
        field = self.board.power_field()
        notes = [reason("sampled-power", field=field), *binding_notes()]
        super().__init__(
            gpu_uuid,
            sampler_command(gpu_uuid, field),
            board_neighbours(self.board),
            [*notes, *([note] if note else [])],
            field=f"the {field} power of NVML",
            averaged=field != "instant",
        )

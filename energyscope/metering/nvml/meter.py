"""NVML's meters through the sampler process: of the total-energy counter, and of the power field.

The second is for boards without an energy counter and for cross-checks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property, partial

from energyscope.errors import MeterError
from energyscope.metering.meter import Reading, require_ticks
from energyscope.metering.nvml.binding import LostGpuError
from energyscope.metering.nvml.board import Board, PowerField
from energyscope.metering.power_meter import PowerMeter
from energyscope.metering.ticks import sensor_facts
from energyscope.metering.watched import (
    FIRST_TICKS_TIMEOUT_S,
    WatchedMeter,
    binding_notes,
    board_neighbours,
    sampler_command,
)
from energyscope.reasons import Reason, reason

SEEN_TICKS = 3
TICKING_TIMEOUT_S = 2.5
POLL_S = 0.002


class NvmlMeter(WatchedMeter):
    """The energy counter of one GPU, watched by a sampler process of its own.

    The window is long enough for at least two full ticks of 100 ms after the one that is dropped. ``note`` is
    what must be said of the device, such as that it is the whole of a GPU in MIG mode.

    Raises:
        MeterError: the counter cannot be read, or there is no such GPU.

    """

    name = "nvml"

    def __init__(self, gpu_uuid: str, *, note: Reason | None = None) -> None:
        self.board = Board(gpu_uuid)
        self.board.probe()
        notes = [reason("energy-counter"), *binding_notes()]
        command = sampler_command(gpu_uuid, "energy")
        super().__init__(gpu_uuid, command, board_neighbours(self.board), [*notes, *([note] if note else [])])

    def prove(self) -> Reason:
        return reason("counter-ticks", period_s=ticking_period_s(self.board))

    def read(self) -> Reading:
        field = self._power_field
        power_w = None if field is None else answered(partial(self.board.power_w, field))
        return Reading(answered(self.board.energy_mj), power_w)

    @cached_property
    def _power_field(self) -> PowerField | None:
        try:
            return self.board.power_field()
        except MeterError:
            return None

    def _check_first_ticks(self) -> None:
        ticks = self.ticks(0.0, time.monotonic())
        require_ticks(ticks, FIRST_TICKS_TIMEOUT_S)
        period = sensor_facts(ticks)["tick_period_s"]
        if period:  # up to one period until the first tick, one dropped, at least two used
            self.window_s = max(0.3, 4.2 * period)


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


def answered(question: Callable[[], float]) -> float | None:
    """Return a sensor's answer, None if this one read failed.

    Raises:
        LostGpuError: the GPU is gone.

    """
    try:
        return question()
    except LostGpuError:
        raise
    except MeterError:
        return None


def ticking_period_s(board: Board) -> float:
    """Return the rough period (s) of a board's counter, by watching it change a few times.

    Raises:
        MeterError: it cannot be read, or it stands still.

    """
    begin = time.monotonic()
    last, tick_times_s = board.energy_mj(), list[float]()
    while len(tick_times_s) < SEEN_TICKS:
        time.sleep(POLL_S)
        now, energy = time.monotonic(), board.energy_mj()
        if energy != last:
            tick_times_s.append(now)
            last = energy
        if now - begin > TICKING_TIMEOUT_S:
            raise MeterError(f"the energy counter stands still: {len(tick_times_s)} ticks in {now - begin:.1f} s")
    return (tick_times_s[-1] - tick_times_s[0]) / (len(tick_times_s) - 1)

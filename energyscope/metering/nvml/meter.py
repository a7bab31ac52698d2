"""NVML's meters through the sampler process: of the total-energy counter, and of the power field.

The second is for boards without an energy counter and for cross-checks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cached_property, partial

from energyscope.errors import MeterError
from energyscope.metering.meter import Reading
from energyscope.metering.nvml.activity import activity_problems
from energyscope.metering.nvml.binding import LostGpuError, binding_problem
from energyscope.metering.nvml.board import Board, PowerField
from energyscope.metering.nvml.neighbours import Neighbours, Usage
from energyscope.metering.power_meter import PowerMeter
from energyscope.metering.process_meter import FIRST_TICKS_TIMEOUT_S, WatchedMeter
from energyscope.metering.ticks import sensor_facts
from energyscope.reasons import Reason, reason

SEEN_TICKS = 3
TICKING_TIMEOUT_S = 2.5
POLL_S = 0.002


class NvmlMeter(WatchedMeter):
    """The energy counter of one GPU, watched by a sampler process of its own.

    The window is long enough for at least two full ticks of 100 ms after the one that is dropped. ``note`` is a
    note on the device, such as that it is the whole of a GPU in MIG mode.

    Raises:
        MeterError: the counter cannot be read, or there is no such GPU.

    """

    name = "nvml"
    silence = "the energy counter has not changed"

    def __init__(self, gpu_uuid: str, *, note: Reason | None = None) -> None:
        self.board = Board(gpu_uuid)
        self.board.energy_mj()  # tried, not looked up by the GPU's generation
        notes = [reason("energy-counter"), binding_problem(), *activity_problems(self.board), note]
        super().__init__(gpu_uuid, sampler_command(gpu_uuid, "energy"), board_neighbours(self.board), notes)

    def prove(self) -> Reason:
        return reason("counter-ticks", period_s=ticking_period_s(self.board))

    def read(self) -> Reading:
        field = self._power_field
        power_w = None if field is None else value_or_none(partial(self.board.power_w, field))
        return Reading(value_or_none(self.board.energy_mj), power_w)

    @cached_property
    def _power_field(self) -> PowerField | None:
        try:
            return self.board.power_field()
        except MeterError:
            return None

    def _check_first_ticks(self) -> None:
        ticks = self.ticks(0.0, time.monotonic())
        if len(ticks) == 0:
            raise MeterError(
                f"the energy counter did not change in {FIRST_TICKS_TIMEOUT_S:.1f} s: "
                "this GPU's counter may be frozen; `energyscope doctor` shows it, "
                "--meter modelled goes on without it"
            )
        period = sensor_facts(ticks)["tick_period_s"]
        if period:  # up to one period until the first tick, one dropped, at least two used
            self.window_s = max(0.3, 4.2 * period)


class NvmlPowerMeter(PowerMeter):
    """The best power field of one GPU that answers, sampled by a process of its own and integrated.

    ``note`` is a note on the device.

    Raises:
        MeterError: no power field answers, or there is no such GPU.

    """

    name = "nvml-power"

    def __init__(self, gpu_uuid: str, *, note: Reason | None = None) -> None:
        self.board = Board(gpu_uuid)
        field = self.board.power_field()
        super().__init__(
            gpu_uuid,
            sampler_command(gpu_uuid, field),
            board_neighbours(self.board),
            [reason("sampled-power", field=field), binding_problem(), *activity_problems(self.board), note],
            field=f"the {field} power of NVML",
            averaged=field != "instant",
        )


def sampler_command(uuid: str, source: str) -> list[str]:
    """Return the command of the process that watches a GPU's energy counter or one of its power fields."""
    return [sys.executable, "-m", "energyscope.metering.nvml.sampler", uuid, source]


def board_neighbours(board: Board) -> Neighbours:
    """Return who else uses a board, as NVML reports it."""
    return Neighbours(lambda: Usage(processes=board.processes(), **board.usage()))


def value_or_none(read: Callable[[], float]) -> float | None:
    """Return what a sensor shows, None if this read failed.

    Raises:
        LostGpuError: the GPU is gone.

    """
    try:
        return read()
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

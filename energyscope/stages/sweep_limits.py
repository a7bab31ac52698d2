"""A sweep over power limits or locked clocks: what holds the GPU to a cell's, and puts it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from energyscope.errors import UsageError
from energyscope.metering.amd.board import is_amd
from energyscope.metering.claims import is_claimed
from energyscope.metering.nvml.board import Board
from energyscope.metering.nvml.devices import find_gpu
from energyscope.metering.nvml.limits import Limit, LimitChanges
from energyscope.metering.nvml.neighbours import own_processes
from energyscope.stages.measured_devices import MeasuredDevices


@contextmanager
def limits_held(limits: Sequence[str], where: MeasuredDevices) -> Iterator[Callable[[str], None]]:
    """Yield what holds the GPU to one of the limits (``400 W``), or as it was found where that is empty.

    At the end it is as it was found, also where this process is killed. Without limits nothing is changed.

    Raises:
        UsageError: a limit is out of the GPU's range, another process uses the GPU, or the model is not on one of
            NVIDIA's alone.
        MeterError: the GPU's limits cannot be read, or were not put back; the function's: it cannot be held so.

    """
    check_one_gpu(limits, where)
    wanted = [Limit.of(text) for text in limits if text]
    if not wanted:
        yield lambda _: None
        return
    gpu = find_gpu(where.gpus[0]).uuid
    if is_claimed(gpu) or set(Board(gpu).processes() or ()) - own_processes():
        raise UsageError("another process uses this GPU, which a limit would slow: wait for its end")
    with LimitChanges(gpu) as changes:
        changes.require(wanted)
        yield lambda text: changes.set(Limit.of(text))


def check_one_gpu(limits: Sequence[str], where: MeasuredDevices) -> None:
    """Refuse limits where the model is not on one NVIDIA GPU.

    Raises:
        UsageError: it is not.

    """
    if any(limits) and (len(where.gpus) != 1 or is_amd(where.gpus[0])):
        raise UsageError("--power-limit and --gpu-clock are for a model on one NVIDIA GPU: leave them out")


def try_limits(limits: Sequence[str], where: MeasuredDevices) -> None:
    """Hold the GPU to a power limit and to a clock for a moment, to learn whether that may be done.

    Raises:
        EnergyscopeError: as `limits_held`.

    """
    with limits_held(limits, where) as hold:
        for text in {Limit.of(text).power_w is None: text for text in limits}.values():  # one of each kind
            hold(text)

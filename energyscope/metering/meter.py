"""The contract of a meter.

A meter is a source of cumulative joules on the host's monotonic clock (``time.monotonic``). It is started
once, watches until it is stopped, and returns the ticks that it saw:

    with open_meter("auto", gpu_uuid="GPU-...") as meter:
        begin = time.monotonic()
        ...                                   # the load
        ticks = meter.ticks(begin - 3, time.monotonic())
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

from energyscope.errors import UsageError
from energyscope.metering.ticks import Ticks
from energyscope.reasons import Reason

CPU = "cpu"  # the device of a meter that reads no GPU


@dataclass(frozen=True)
class Reading:
    """What a sensor shows at one moment: cumulative energy (mJ) and power (W); None where it did not answer.

    ``at_s`` is that moment of the monotonic clock (s); None where the read takes longer than a moment.
    """

    energy_mj: float | None
    power_w: float | None
    at_s: float | None = None


class Meter(Protocol):
    """A source of cumulative joules of one device.

    ``name`` is its name on the command line; ``device`` the GPU's UUID, or ``cpu``; ``modelled`` whether its
    joules are time x stated watts; ``window_s`` the shortest replay (s) from which it gives a good estimate;
    ``settle_s`` how long after a step of power its ticks still carry the power before (averaging and lag).
    """

    name: str
    device: str
    modelled: bool
    window_s: float
    settle_s: float

    def ticks(self, begin_s: float, end_s: float) -> Ticks:
        """Return the ticks seen in an interval of the monotonic clock (s).

        Raises:
            MeterError: the source was lost.

        """
        ...

    def read(self) -> Reading:
        """Read the sensor now, from the process that measures; it need not be started.

        Raises:
            UsageError: this meter has no counter that could be read like that.
            MeterError: the source was lost.

        """
        ...

    def describe(self) -> dict[str, Any]:
        """Return what is known of the sensor, for run.json."""
        ...

    def states(self, begin_s: float, end_s: float) -> list[dict[str, Any]]:
        """Return the board's state at each tick of an interval: clocks, temperature, throttle; [] if unknown.

        Of ticks that were read: ask for windows of the interval first. A meter that has ended still answers.
        """
        ...

    def bystanders(self, own_bytes: int | None = None) -> list[Reason]:
        """Return what else uses the device, a reason each; call it while this process runs nothing there.

        ``own_bytes`` is the device memory that this process holds, None where it is not known.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class WithoutProcess:
    """The base of meters without a process of their own: nothing to start, to stop or to report."""

    device = CPU
    settle_s = 0.0

    def states(self, begin_s: float, end_s: float) -> list[dict[str, Any]]:  # noqa: ARG002 - the contract's
        return []

    def bystanders(self, own_bytes: int | None = None) -> list[Reason]:  # noqa: ARG002 - the contract's
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def no_counter(name: str) -> UsageError:
    """Return the error of a meter that has no counter to read."""
    return UsageError(
        f"the {name} meter integrates samples and has no counter to read: use --meter nvml, or --sampling replay"
    )

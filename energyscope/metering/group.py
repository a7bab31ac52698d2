"""The meters of all devices that a model occupies: their energies are summed, and listed one by one."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from energyscope.metering.activity import activity_of, busiest, without
from energyscope.metering.host import NO_HOST, HostCounter
from energyscope.metering.meter import CPU, Meter, Reading
from energyscope.metering.ticks import Calls, mean_power
from energyscope.metering.window import Window, estimate_window
from energyscope.reasons import Reason, join, reason
from energyscope.unknown import mean, minus, total

LOOK_BACK_S = 3.0  # ticks before a window that sharpen its grid


class MeterGroup:
    """One meter for each device, started and stopped together; the first one's is the device of the model.

    ``host`` counts what the GPUs' host draws beside them.
    """

    def __init__(self, meters: Sequence[Meter], host: HostCounter = NO_HOST) -> None:
        self.meters = list(meters)
        self.host = host
        self.name = "+".join(dict.fromkeys(meter.name for meter in self.meters))
        self.modelled = any(meter.modelled for meter in self.meters)
        self._stack = ExitStack()

    @property
    def window_s(self) -> float:
        """The shortest replay (s) from which every meter gives a good estimate; known once they are started."""
        return max(meter.window_s + meter.settle_s for meter in self.meters)

    @property
    def of_cpu(self) -> bool:
        """Whether these are joules of the processor: it launches its own work, and its counters sample nothing."""
        return all(meter.device == CPU for meter in self.meters)

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            for meter in self.meters:
                starting.enter_context(meter)
            self._stack = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def windows(self, calls: Calls, lead_s: float = 0.0) -> list[Window]:
        """Return each device's window of one replay without its first ``lead_s``, in the order of the meters."""
        begin, end = float(calls.time_s[0]), float(calls.time_s[-1])
        return [
            replace(
                estimate_window(meter.ticks(begin - LOOK_BACK_S, end), calls, settle_s=meter.settle_s + lead_s),
                activity=activity_of(meter.states(begin, end), begin, end),
            )
            for meter in self.meters
        ]

    def read(self) -> list[Reading]:
        """Read every device's sensor now, in the order of the meters (see `Meter.read`)."""
        return [meter.read() for meter in self.meters]

    def idle_w(self, begin_s: float, end_s: float) -> float | None:
        """Return the devices' mean power together (W) between two times (s); None if one is unknown."""
        return total([mean_power(meter.ticks(begin_s, end_s), begin_s, end_s) for meter in self.meters])

    def states(self, begin_s: float, end_s: float) -> list[dict[str, Any]]:
        """Return every device's state at its ticks, with the device's name."""
        return [
            {**state, "device": meter.device} for meter in self.meters for state in meter.states(begin_s, end_s)
        ]

    def bystanders(self, own_bytes: Sequence[int | None] = (None,)) -> list[Reason]:
        """Return what else uses the devices.

        ``own_bytes`` is what this process holds on the first of them; on the others it holds nothing.
        """
        held = [*own_bytes, *[0] * (len(self.meters) - len(own_bytes))]
        by_meter = [meter.bystanders(own) for meter, own in zip(self.meters, held, strict=False)]
        if len(self.meters) == 1:
            return by_meter[0]
        return [
            reason("on-device", device=meter.device, what=bystander)
            for meter, others in zip(self.meters, by_meter, strict=True)
            for bystander in others
        ]

    def describe(self) -> dict[str, Any]:
        """Return what is known of the first sensor, of every one where there are several, and of the host's."""
        sensors = [{"device": meter.device, **meter.describe()} for meter in self.meters]
        several = {"devices": sensors} if len(sensors) > 1 else {}
        return {**sensors[0], **several, **self.host.describe()}


def sum_windows(windows: Sequence[Window]) -> Window:
    """Return the window of several devices as one: energy and power are sums, None if any is unknown."""
    if len(windows) == 1:
        return windows[0]
    energy = total([window.energy_mj for window in windows])
    return Window(
        energy_mj=energy,
        time_us=mean([window.time_us for window in windows]),
        power_w=total([window.power_w for window in windows]),
        naive_mj=total([window.naive_mj for window in windows]),
        ticks=sum(window.ticks for window in windows),
        calls=windows[0].calls,
        seconds=windows[0].seconds,
        reason=join(sorted({window.reason for window in windows if window.reason})) or None,
        timing_share=_timing_share(windows, energy),
        activity=busiest([window.activity for window in windows]),
    )


def subtract_window(both: Window, rest: Window) -> Window:
    """Return the window of a call alone, from that of a call with something beside it and that of the latter.

    Beside it stands a pause, or the restoring of its inputs. Energy and time are None where nothing is left.
    """
    energy, time_us = minus(both.energy_mj, rest.energy_mj), minus(both.time_us, rest.time_us)
    nothing_left = any(value is not None and value <= 0 for value in (energy, time_us))
    if nothing_left:
        energy = time_us = None
    return Window(
        energy_mj=energy,
        time_us=time_us,
        power_w=energy * 1e3 / time_us if energy and time_us else None,
        naive_mj=None,  # simple tools, whose value this is, subtract nothing
        ticks=min(both.ticks, rest.ticks),
        calls=both.calls,
        seconds=both.seconds + rest.seconds,
        reason=reason("nothing-left") if nothing_left else both.reason or rest.reason,
        timing_share=_timing_share([both, rest], energy),
        activity=without(both.activity, rest.activity, both.time_us, rest.time_us),
    )


def _timing_share(windows: Sequence[Window], energy_mj: float | None) -> float | None:
    """Return the relative deviation of a sum or a difference of windows, whose ticks are independent."""
    if not energy_mj:
        return None
    deviations_mj = [(window.timing_share or 0.0) * (window.energy_mj or 0.0) for window in windows]
    return math.hypot(*deviations_mj) / abs(energy_mj)


class SharedGroup(MeterGroup):
    """Started meters as one run sees them: entering and leaving starts and stops nothing.

    What the meters saw before the run began is not the run's.
    """

    def __init__(self, started: MeterGroup) -> None:
        super().__init__(started.meters, started.host)
        self._since_s = 0.0

    def __enter__(self) -> Self:
        self._since_s = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the meters running for the next run."""

    def states(self, begin_s: float, end_s: float) -> list[dict[str, Any]]:
        """Return every device's state at its ticks since the run began."""
        return super().states(max(begin_s, self._since_s), end_s)

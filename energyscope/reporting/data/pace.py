"""What of a difference between a trace and its parts is time: the host's pace while each was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.runs.intervals import Interval, ratio, total

if TYPE_CHECKING:
    from energyscope.reporting.data.generation import Loop
    from energyscope.reporting.data.own_pass import Pass
    from energyscope.reporting.data.phases import PhaseRow

MJ_PER_J = 1e3
US_PER_S = 1e6


@dataclass(frozen=True)
class Pace:
    """The times (us) of parts and trace, and what each takes beyond idle power x that time (mJ).

    Where the host sets the pace, nearly all of an energy is idle power x time, and the time differs from one
    second to the next; what is beyond it, the GPU's work, does not. ``idle_w`` is that of the trace.
    """

    parts_us: float
    traced_us: float
    idle_w: float
    parts_dynamic: Interval
    traced_dynamic: Interval

    @property
    def time_ratio(self) -> float:
        """Parts / traced, of the time."""
        return self.parts_us / self.traced_us

    @property
    def dynamic_ratio(self) -> Interval | None:
        """Parts / traced, of the energy beyond idle power; None where a side has none."""
        return ratio(self.parts_dynamic, self.traced_dynamic)


def pace(own: Pass, loop: Loop, phase: PhaseRow, steps: int | None) -> Pace | None:
    """Tell time from work, of one of ``steps`` that were traced, or of a prefill; None unless each side is known.

    ``own`` is the model's pass, ``loop`` what `generate` does around it: of a prefill, a call's share as well. The
    trace's work is known as well as its power is, since its time is the host's stamps.
    """
    shares = [(loop.seconds, loop.energy), *([(loop.call_seconds, loop.call_energy)] if steps is None else [])]
    if phase.seconds is None or phase.static_mj is None or phase.energy is None or not phase.seconds.value > 0:
        return None
    if own.time_us is None or own.dynamic is None:
        return None
    known = [(seconds.value, energy.value) for seconds, energy in shares if seconds and energy]
    if len(known) < len(shares):
        return None
    seconds = phase.seconds.value / (steps or 1)
    idle_w = phase.static_mj / phase.seconds.value / MJ_PER_J
    loop_s = sum(one for one, _ in known)
    loop_mj = sum(energy for _, energy in known) - idle_w * loop_s * MJ_PER_J
    traced = (phase.energy.value - phase.static_mj) / (steps or 1)
    return Pace(
        parts_us=own.time_us + loop_s * US_PER_S,
        traced_us=seconds * US_PER_S,
        idle_w=idle_w,
        parts_dynamic=total([own.dynamic, Interval(loop_mj, loop_mj, loop_mj)]),
        traced_dynamic=_around(traced, phase.power_w, seconds * MJ_PER_J),
    )


def _around(value: float, power: Interval | None, mj_per_w: float) -> Interval:
    """Return a value with the half-widths of a power."""
    if power is None or power.low is None or power.high is None:
        return Interval(value)
    return Interval(
        value, value - (power.value - power.low) * mj_per_w, value + (power.high - power.value) * mj_per_w
    )

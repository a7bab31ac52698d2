"""What of a difference between a trace and its parts is time: the host's pace while each was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    parts_dynamic_mj: float
    traced_dynamic_mj: float

    @property
    def time_ratio(self) -> float:
        """Parts / traced, of the time."""
        return self.parts_us / self.traced_us

    @property
    def dynamic_ratio(self) -> float | None:
        """Parts / traced, of the energy beyond idle power; None where the trace has none."""
        return self.parts_dynamic_mj / self.traced_dynamic_mj if self.traced_dynamic_mj > 0 else None


def pace(own: Pass, loop: Loop, phase: PhaseRow, steps: int | None) -> Pace | None:
    """Tell time from work, of one of ``steps`` that were traced, or of a prefill; None unless each side is known.

    ``own`` is the model's pass, ``loop`` what `generate` does around it: of a prefill, a call's share as well.
    """
    shares = [(loop.seconds, loop.energy), *([(loop.call_seconds, loop.call_energy)] if steps is None else [])]
    if phase.seconds is None or phase.static_mj is None or phase.energy is None or not phase.seconds.value > 0:
        return None
    if own.time_us is None or own.static_mj is None:
        return None
    known = [(seconds.value, energy.value) for seconds, energy in shares if seconds and energy]
    if len(known) < len(shares):
        return None
    idle_w = phase.static_mj / phase.seconds.value / MJ_PER_J
    loop_s = sum(seconds for seconds, _ in known)
    work = own.energy.value - own.static_mj + sum(energy for _, energy in known) - idle_w * loop_s * MJ_PER_J
    return Pace(
        parts_us=own.time_us + loop_s * US_PER_S,
        traced_us=phase.seconds.value / (steps or 1) * US_PER_S,
        idle_w=idle_w,
        parts_dynamic_mj=work,
        traced_dynamic_mj=(phase.energy.value - phase.static_mj) / (steps or 1),
    )

"""What of a difference between a trace and its parts is time: the host's pace while each was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from energyscope.reporting.data.generation import Loop
    from energyscope.reporting.data.phases import PhaseRow
    from energyscope.reporting.data.scenes import SceneData

MJ_PER_W_US = 1e-3
US_PER_S = 1e6


@dataclass(frozen=True)
class Pace:
    """The times (us) of parts and trace, and what each takes beyond idle power x that time (mJ).

    Where the host sets the pace, nearly all of an energy is idle power x time, and the time differs from one
    second to the next; what goes beyond it is the work of the GPU, which does not. ``idle_w`` is that of the trace.
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


def pace(scene: SceneData, loop: Loop, phase: PhaseRow, *, steps: int, with_call: bool) -> Pace | None:
    """Tell time from work; None unless the time and the idle energy of each side are known.

    Args:
        scene: the model's pass, measured by itself.
        loop: what `generate` does around it, whose energy is known.
        phase: what was traced, of ``steps`` such passes.
        steps: how many.
        with_call: whether the loop's share of a call is part of it, as in a prefill.

    """
    pass_us = scene.time_us.value if scene.time_us else None
    loops_s = [loop.seconds, *([loop.call_seconds] if with_call else [])]
    energies = [loop.energy, *([loop.call_energy] if with_call else [])]
    if phase.seconds is None or phase.static_mj is None or phase.energy is None or not phase.seconds.value > 0:
        return None
    if pass_us is None or scene.static_mj is None or scene.energy.model is None or steps < 1:
        return None
    known_s = [one.value for one in loops_s if one is not None]
    known_mj = [one.value for one in energies if one is not None]
    if len(known_s) < len(loops_s) or len(known_mj) < len(energies):
        return None
    idle_w = phase.static_mj / phase.seconds.value / 1e3
    loop_us = sum(known_s) * US_PER_S
    work = scene.energy.model.value - scene.static_mj + sum(known_mj) - idle_w * loop_us * MJ_PER_W_US
    return Pace(
        parts_us=pass_us + loop_us,
        traced_us=phase.seconds.value / steps * US_PER_S,
        idle_w=idle_w,
        parts_dynamic_mj=work,
        traced_dynamic_mj=(phase.energy.value - phase.static_mj) / steps,
    )

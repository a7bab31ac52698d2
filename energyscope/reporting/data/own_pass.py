"""The model's own pass, measured by itself: of a scene of the profile, or of the step beside the generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.reporting.data.given import given, section, whole
from energyscope.runs.intervals import Interval

if TYPE_CHECKING:
    from energyscope.reporting.data.scenes import SceneData


@dataclass(frozen=True)
class Pass:
    """One pass or step: its name, energy (mJ), time (us), and its energy beyond idle power x time (mJ)."""

    name: str
    energy: Interval
    time_us: float | None
    dynamic: Interval | None
    eager: bool


def pass_of_scene(scene: SceneData | None) -> Pass | None:
    """Return the pass of a profiled scene; None without one, or without its energy."""
    if scene is None or scene.energy.model is None:
        return None
    execution = str(scene.tree.root.row.get("execution")) if scene.tree.root else ""
    time_us = scene.time_us.value if scene.time_us else None
    energy, static = scene.energy.model, scene.static_mj
    return Pass(
        scene.short,
        energy,
        time_us,
        None if static is None else Interval(energy.value - static),
        execution == "eager",
    )


def pass_of_step(document: Mapping[str, Any]) -> Pass | str:
    """Return the step of generation.json, taken in turn with the generations; else its reason, empty if none."""
    step = section(document, "step")
    energy, seconds = given(step.get("energy_mj")), given(step.get("seconds"))
    context = whole(step.get("context_length"))
    if energy is None or context is None:
        return str(step.get("reason") or "")
    time_us = seconds.value * 1e6 if seconds else None
    return Pass(f"decode at {context:,}", energy, time_us, given(step.get("dynamic_mj")), eager=True)

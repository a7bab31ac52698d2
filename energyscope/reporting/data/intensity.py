"""What power each kind of component draws, against its arithmetic intensity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from energyscope.reporting.data.scenes import DECODE, SceneData
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import EnergyTree, Node, sum_column, sum_energy

W_PER_MJ_US = 1e3  # 1 mJ in 1 us


@dataclass(frozen=True)
class IntensityPoint:
    """The leaves of a kind in one moment of the inference.

    ``intensity`` is FLOPs per byte of the least traffic, 0 where there is no matrix work; ``power_w`` is energy
    over time, both per pass or step.
    """

    kind: str
    moment: str
    phase: str
    energy: Interval
    intensity: float
    power_w: Interval
    flops: float
    bytes: float


def intensity_points(scenes: Sequence[SceneData], tree: EnergyTree | None) -> list[IntensityPoint]:
    """Return the kinds of a run's one tree, or of its passes, its first decode step and that of most context.

    Kinds of which the work, the traffic, the time or the energy is unknown are left out.
    """
    if scenes:
        shown = [(scene.short, scene.phase, scene.tree) for scene in _telling(scenes)]
    else:
        phase = str(tree.root.row.get("phase")) if tree and tree.root else ""
        shown = [(phase, phase, tree)] if tree else []
    return [point for moment, phase, of in shown for point in _kinds(moment, phase, of)]


def _telling(scenes: Sequence[SceneData]) -> list[SceneData]:
    """Leave out the decode steps that would only lie between two others of their execution."""
    detailed = [scene for scene in scenes if scene.detailed]
    kept: list[SceneData] = []
    for execution in dict.fromkeys(scene.execution for scene in detailed):
        steps = [scene for scene in detailed if scene.phase == DECODE and scene.execution == execution]
        kept += [*steps[:1], *sorted(steps[1:], key=lambda scene: scene.context or 0)[-1:]]
    return [scene for scene in detailed if scene.phase != DECODE or any(scene is one for one in kept)]


def _kinds(moment: str, phase: str, tree: EnergyTree) -> list[IntensityPoint]:
    by_kind: dict[str, list[Node]] = {}
    for node in tree.leaves:
        if node.energy is not None:
            by_kind.setdefault(node.kind, []).append(node)
    found = [_point(kind, moment, phase, nodes) for kind, nodes in by_kind.items()]
    return sorted((point for point in found if point), key=lambda point: -point.energy.value)


def _point(kind: str, moment: str, phase: str, nodes: list[Node]) -> IntensityPoint | None:
    energy, flops = sum_energy(nodes), sum_column(nodes, "flops")
    moved, time = sum_column(nodes, "bytes"), sum_column(nodes, "time_us")
    if energy is None or energy.value <= 0 or flops is None or not moved or not time:
        return None
    return IntensityPoint(
        kind, moment, phase, energy, flops / moved, energy.scaled(W_PER_MJ_US / time), flops, moved
    )

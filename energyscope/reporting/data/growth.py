"""What a decode step costs as its context grows, by what it is spent on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from energyscope.reporting import text
from energyscope.reporting.data.execution import name_of
from energyscope.reporting.data.scenes import DECODE, SceneData
from energyscope.runs.intervals import Interval, difference, ratio, total
from energyscope.runs.tree import sum_energy

CORE, CACHE, PROJECTIONS, ATTENTION = "attention core", "cache update", "projections", "attention"
MLP, REST, STEP = "MLP", "the rest", "whole step"
GROUPS = (CORE, CACHE, PROJECTIONS, ATTENTION, MLP, REST)  # the order in which they are shown
_OF_KIND = {
    "attention.core": CORE,
    "attention.cache": CACHE,
    "attention.query": PROJECTIONS,
    "attention.key": PROJECTIONS,
    "attention.value": PROJECTIONS,
    "attention.qkv": PROJECTIONS,
    "attention.output": PROJECTIONS,
    "attention": ATTENTION,  # where nothing inside it was measured
    "experts": MLP,
    "router": MLP,
}
_CACHES = {
    "dynamic": "The cache is dynamic: it copies itself whole at each step",
    "static": "The cache is static: each step writes one slot, and attention reads its full length",
}


@dataclass(frozen=True)
class GrowthPoint:
    """What one group of components takes (mJ per step) with ``context`` tokens in the cache."""

    group: str
    context: int
    energy: Interval


@dataclass(frozen=True)
class Growth:
    """The groups at every context, the whole step beside them.

    ``execution`` is named where the run has another one, too. ``cache`` says what kind of KV cache it is and what
    updating it takes; ``said`` reads the points.
    """

    contexts: list[int]
    groups: list[str]
    points: list[GrowthPoint]
    whole: list[GrowthPoint]
    cache: str
    said: list[str]
    modelled: bool
    execution: str = ""

    def at(self, group: str, context: int) -> Interval | None:
        """Return a group's energy at a context; None where it was not measured."""
        both = (*self.points, *self.whole)
        return next((point.energy for point in both if (point.group, point.context) == (group, context)), None)


def growth(scenes: Sequence[SceneData]) -> Growth | None:
    """Compare the decode steps whose components were measured; None where there are fewer than two contexts.

    Of steps in two executions, those in the first.
    """
    scenes = [scene for scene in scenes if scene.execution == scenes[0].execution]
    steps = [scene for scene in scenes if scene.phase == DECODE and scene.detailed and scene.context is not None]
    steps.sort(key=lambda scene: scene.context or 0)
    if len({scene.context for scene in steps}) < 2:
        return None
    points = [point for scene in steps for point in _points(scene)]
    also = [scene for scene in scenes if scene.phase == DECODE and scene.context is not None]
    whole = [GrowthPoint(STEP, scene.context or 0, scene.energy.model) for scene in also if scene.energy.model]
    whole.sort(key=lambda point: point.context)
    named = {point.group for point in points}
    found = Growth(
        contexts=[scene.context or 0 for scene in steps],
        groups=[group for group in GROUPS if group in named],
        points=points,
        whole=whole,
        cache="",
        said=[],
        modelled=steps[0].modelled,
        execution=name_of(steps[0].execution) if steps[0].twice else "",
    )
    return Growth(**{**vars(found), "cache": _cache(found, steps[0].kv_cache), "said": _said(found)})


def _points(scene: SceneData) -> list[GrowthPoint]:
    """Add a step's leaves up by group; what is left of the step is the rest, glue and unexplained energy too."""
    by_group: dict[str, list[Interval]] = {}
    for kind in dict.fromkeys(node.kind for node in scene.tree.leaves):
        group = _OF_KIND.get(kind) or (MLP if kind.partition(".")[0] == "mlp" else None)
        energy = sum_energy(node for node in scene.tree.leaves if node.kind == kind)
        if group is not None and energy is not None:
            by_group.setdefault(group, []).append(energy)
    found = {group: total(values) for group, values in by_group.items()}
    if scene.energy.model is not None and found:
        found[REST] = difference(scene.energy.model, total(found.values()))
    return [GrowthPoint(group, scene.context or 0, energy) for group, energy in found.items()]


def _cache(found: Growth, kv_cache: str | None) -> str:
    said = _CACHES.get(str(kv_cache))
    if said is None:
        return ""
    costs = [(context, found.at(CACHE, context)) for context in found.contexts]
    known = [(context, energy) for context, energy in costs if energy is not None]
    if not known:
        return f"{said}. What updating it takes was not measured apart: use --granularity fine."
    each = [f"{text.with_limits(energy, 'mJ')} at {context:,} tokens" for context, energy in known]
    return f"{said}. The cache update takes {text.listed(each, 6)}, per step."


def _said(found: Growth) -> list[str]:
    """Say what the context adds to a step, and to its attention."""
    first, last = found.contexts[0], found.contexts[-1]
    said: list[str] = []
    for group, name in ((STEP, "A decode step"), (CORE, "its attention core"), (ATTENTION, "its attention")):
        low, high = found.at(group, first), found.at(group, last)
        if low is None or high is None:
            continue
        times = ratio(high, low)
        grown = f" (\u00d7 {text.number(times.value)})" if times else ""
        named = [*(["MODELLED"] if found.modelled else []), *([found.execution] if found.execution else [])]
        word = f" ({', '.join(named)})" if named and not said else ""
        said.append(f"{name} takes {text.with_limits(low, 'mJ')}{word} at {first:,} tokens of context and "
                    f"{text.with_limits(high, 'mJ')} at {last:,}{grown}")  # fmt: skip
    sentences = [f"{'; '.join(said)}."] if said else []
    return sentences + _slope(found, first, last)


def _slope(found: Growth, first: int, last: int) -> list[str]:
    low, high = found.at(STEP, first), found.at(STEP, last)
    if low is None or high is None:
        return []
    added = difference(high, low)
    if not added.excludes(0.0):
        change = f"from {first:,} to {last:,} tokens it changes by {text.with_limits(added, 'mJ')}"
        return [f"Whether further context adds energy to a step cannot be told: {change}."]
    each = added.scaled(1000 / (last - first))
    return [f"Between them, each further 1,000 tokens of context cost {text.with_limits(each, 'mJ')} a step."]

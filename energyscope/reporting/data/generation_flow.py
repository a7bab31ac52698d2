"""A generation's joules from its phases down to blocks: what was traced, beside passes that were measured alone.

Prefill and decode have their traced energy. Below each stand the model's pass, as often as the phase makes it, and
the loop of generate around it; what the phase took beyond both is unexplained. Nothing is scaled to fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from energyscope.reporting.data.agreement import Agreement
from energyscope.reporting.data.energy import UNEXPLAINED
from energyscope.reporting.data.flow import FlowNode
from energyscope.reporting.data.own_pass import pass_of_scene
from energyscope.reporting.data.phases import LOAD, PhaseRow
from energyscope.reporting.data.scenes import PREFILL, SceneData
from energyscope.runs.intervals import Interval, difference, total

if TYPE_CHECKING:
    from energyscope.reporting.data.generation import GenerationData

GENERATION, MODEL, LOOP = "generation", "model", "loop"
DEEPEST = 4  # the blocks of a layer: the moment's own flow shows what is inside of them


def generation_flow(data: GenerationData, scenes: Sequence[SceneData]) -> FlowNode | None:
    """Return the flow from a generation to its passes' blocks (mJ); None unless prefill and decode are known.

    A phase has parts where its pass was measured as it ran, eagerly; a pass has blocks where components were
    measured of that very pass.
    """
    if data.total is None or data.total.energy is None:
        return None
    root = FlowNode(GENERATION, "component", 1, data.total.energy, 0)
    for row in data.phases:
        if row.phase != LOAD and row.energy is not None:
            _add(root, _phase(row, row.energy, data, scenes))
    return root


def _phase(row: PhaseRow, energy: Interval, data: GenerationData, scenes: Sequence[SceneData]) -> FlowNode:
    node = FlowNode(row.phase, "component", 1, energy, 1)
    found = parts_of(row.phase, data)
    if found is None:
        return node
    times = 1 if row.phase == PREFILL else (data.new_tokens or 0) - 1
    own = blocks_of(found, scenes)
    model = scaled(own, times, 2) if own else FlowNode(MODEL, "component", 1, found.model.scaled(times), 2)
    loop = total([found.loop, *([found.call] if found.call else [])]).scaled(times)
    _add(node, model)
    _add(node, FlowNode(LOOP, "component", 1, loop, 2))
    _add(node, FlowNode(UNEXPLAINED, "unexplained", 1, difference(energy, total([model.energy, loop])), 2))
    return node


def _add(node: FlowNode, child: FlowNode) -> None:
    """Add a part; what is unexplained and below 0 becomes the excess, as is any part below 0."""
    node.excess_mj += max(-child.energy.value, 0.0)
    if child.role != UNEXPLAINED or child.energy.value >= 0:
        node.children.append(child)


def parts_of(phase: str, data: GenerationData) -> Agreement | None:
    """Return what a phase is made of; None where that is not known, or was measured in another execution."""
    found = {one.phase: one for one in (data.prefill_agreement, data.agreement) if one is not None}.get(phase)
    return found if found is not None and found.same_execution else None


def blocks_of(found: Agreement, scenes: Sequence[SceneData]) -> FlowNode | None:
    """Return the flow of the very pass that a phase is made of; None where its components were not measured.

    A pass in a CUDA graph is another one than that of the generation, which runs eagerly.
    """
    for scene in scenes:
        own = pass_of_scene(scene)
        if own is not None and own.eager and scene.detailed and found.scene in {scene.short, scene.moment}:
            return scene.flow
    return None


def scaled(node: FlowNode, factor: float, depth: int) -> FlowNode:
    """Return a flow that takes ``factor`` times as much and stands at ``depth``, cut off below `DEEPEST`."""
    copy = FlowNode(node.kind, node.role, node.count, node.energy.scaled(factor), depth, invalid=node.invalid)
    if depth < DEEPEST:
        copy.children = [scaled(child, factor, depth + 1) for child in node.children]
        copy.excess_mj = node.excess_mj * factor
        copy.missing = node.missing
    return copy

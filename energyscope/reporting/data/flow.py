"""The energy flow: the component tree with the layers added up, and where each band of its drawing runs.

Heights are joules throughout and nothing is renormalised: where the children and the glue of a node exceed it
(negative unexplained energy), their bands leave the node over more than its height, and the excess is marked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from energyscope.reporting.data.energy import GLUE, UNATTRIBUTED, UNEXPLAINED, Role
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import EnergyTree, Node, sum_energy, sum_intervals


@dataclass
class FlowNode:
    """All components of one kind below one parent, added up over the layers; mJ per forward pass.

    ``excess_mj`` is by how much the children and the glue exceed the node; 0 where they do not. ``missing``
    counts the components below this parent that have no value.
    """

    kind: str
    role: Role
    count: int
    energy: Interval
    depth: int
    children: list[FlowNode] = field(default_factory=list)
    excess_mj: float = 0.0
    missing: int = 0

    def walk(self) -> Iterator[FlowNode]:
        """Yield the node and everything below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def energy_flow(tree: EnergyTree) -> FlowNode | None:
    """Add the tree up over the layers, from the model down; None where the model was not measured."""
    if tree.root is None or tree.root.energy is None:
        return None
    return _flow([tree.root], depth=0)


def _flow(nodes: list[Node], depth: int) -> FlowNode | None:
    energy = sum_energy(nodes)
    if energy is None:
        return None
    measured = [node for node in nodes if node.energy is not None]
    flow = FlowNode(nodes[0].kind, "component", len(measured), energy, depth)
    by_kind: dict[str, list[Node]] = {}
    for child in (child for node in nodes for child in node.children):
        by_kind.setdefault(child.kind, []).append(child)
    for members in by_kind.values():
        below = _flow(members, depth + 1)
        if below is not None:
            flow.children.append(below)
        flow.missing += sum(node.energy is None for node in members)
    if flow.children:
        _add_rest(flow, measured)
    return flow


def _add_rest(flow: FlowNode, nodes: list[Node]) -> None:
    """Add glue and what is left; a negative rest becomes the excess."""
    glued = [node for node in nodes if node.glue is not None]
    glue = sum_intervals((node, node.glue) for node in glued)
    rest = sum_intervals((node, node.unexplained) for node in glued)
    unattributed = sum_intervals((node, node.self_energy) for node in nodes if node.glue is None)
    parts: list[tuple[str, Role, Interval | None]] = [
        (GLUE, "glue", glue),
        (UNEXPLAINED, "unexplained", rest),
        (UNATTRIBUTED, "unattributed", unattributed),
    ]
    for name, role, value in parts:
        if value is None:
            continue
        if value.value >= 0:
            flow.children.append(FlowNode(name, role, len(nodes), value, flow.depth + 1))
        else:
            flow.excess_mj -= value.value


@dataclass(frozen=True)
class Box:
    """A node's place in the drawing: ``x`` its depth, ``top`` and ``bottom`` in mJ from the drawing's top."""

    node: FlowNode
    x: int
    top: float
    bottom: float


@dataclass(frozen=True)
class Band:
    """The flow from a parent to a child: its upper edge at both ends and its height, in mJ."""

    parent: Box
    child: Box
    start: float
    end: float
    height: float


@dataclass(frozen=True)
class FlowLayout:
    """Boxes, bands, and the extent of the drawing in mJ."""

    boxes: list[Box]
    bands: list[Band]
    height: float
    depth: int


def flow_layout(root: FlowNode, room_mj: float) -> FlowLayout:
    """Place a flow's nodes without crossings; each node gets at least ``room_mj`` of height for its label."""
    boxes: list[Box] = []
    bands: list[Band] = []
    _place(root, 0.0, room_mj, boxes, bands)
    height = max(box.bottom for box in boxes) if boxes else 0.0
    return FlowLayout(boxes, bands, max(height, _room(root, room_mj)), max(node.depth for node in root.walk()))


def _room(node: FlowNode, room_mj: float) -> float:
    below = sum(_room(child, room_mj) for child in node.children)
    return max(below, node.energy.value + node.excess_mj + 0.35 * room_mj, room_mj)


def _place(node: FlowNode, top: float, room_mj: float, boxes: list[Box], bands: list[Band]) -> Box:
    """Centre the node in its room and its children's rooms in the same span; returns the node's box."""
    room = _room(node, room_mj)
    start = top + (room - node.energy.value - node.excess_mj) / 2
    box = Box(node, node.depth, start, start + max(node.energy.value, 0.0))
    boxes.append(box)
    below = sum(_room(child, room_mj) for child in node.children)
    child_top, leaving = top + (room - below) / 2, box.top
    for child in node.children:
        child_box = _place(child, child_top, room_mj, boxes, bands)
        height = max(child.energy.value, 0.0)
        bands.append(Band(box, child_box, leaving, child_box.top, height))
        child_top += _room(child, room_mj)
        leaving += height
    return box

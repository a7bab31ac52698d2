"""The energy flow: the component tree with the layers added up, and where each band of its drawing runs.

Heights are joules throughout and nothing is renormalised: where the children and the glue of a node exceed it
(negative unexplained energy, or a part below 0), their bands leave the node over more than its height, and the
excess is marked. What has no value is drawn with what is not attributed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from energyscope.reporting.data.energy import GLUE, UNATTRIBUTED, UNEXPLAINED, Role
from energyscope.runs.intervals import Interval, difference
from energyscope.runs.tree import EnergyTree, Node, sum_energy, sum_intervals


@dataclass
class FlowNode:
    """All components of one kind below one parent, added up over the layers; mJ per forward pass.

    ``excess_mj`` is by how much what is drawn below the node exceeds it, which leaves out all that is below 0; 0
    where it does not. ``missing`` names the components right below this parent that have no value, ``invalid``
    counts its own that are below grade C.
    """

    kind: str
    role: Role
    count: int
    energy: Interval
    depth: int
    children: list[FlowNode] = field(default_factory=list)
    excess_mj: float = 0.0
    missing: list[str] = field(default_factory=list)
    invalid: int = 0

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
    weak = sum(node.invalid for node in measured)
    flow = FlowNode(nodes[0].kind, "component", len(measured), energy, depth, invalid=weak)
    by_kind: dict[str, list[Node]] = {}
    for child in (child for node in measured for child in node.children):
        by_kind.setdefault(child.kind, []).append(child)
    for members in by_kind.values():
        below = _flow(members, depth + 1)
        if below is not None:
            flow.children.append(below)
            flow.excess_mj += max(-below.energy.value, 0.0)
        flow.missing += [node.name for node in members if node.energy is None]
    if flow.children:
        _add_rest(flow, measured)
    return flow


def _add_rest(flow: FlowNode, nodes: list[Node]) -> None:
    """Add glue and what is left; a negative rest becomes the excess."""
    for name, role, value in rests(nodes):
        if value.value >= 0:
            flow.children.append(FlowNode(name, role, len(nodes), value, flow.depth + 1))
        else:
            flow.excess_mj -= value.value


def rests(nodes: Sequence[Node]) -> list[tuple[str, Role, Interval]]:
    """Return what nodes take beside their children, added up: glue and what is unexplained, or not attributed.

    With their children's values, these add up to the nodes: what a child without a value takes, or a node that
    has no children where others do, is not attributed.
    """
    parts: list[tuple[str, Role, Interval | None]] = [
        (GLUE, "glue", sum_intervals((node, node.glue) for node in nodes)),
        (UNEXPLAINED, "unexplained", sum_intervals((node, node.unexplained) for node in nodes)),
        (
            UNATTRIBUTED,
            "unattributed",
            sum_intervals((node, _left(node)) for node in nodes if node.unexplained is None),
        ),
    ]
    return [(name, role, value) for name, role, value in parts if value is not None]


def _left(node: Node) -> Interval | None:
    """Return a node minus those of its children that have a value, and minus its glue; None without its own."""
    left = node.energy
    for value in (sum_energy(node.children), node.glue):
        left = difference(left, value) if left is not None and value is not None else left
    return left


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

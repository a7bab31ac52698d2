"""The icicle: the component tree from the model down, each component as wide as its joules.

Nothing is renormalised: what a component takes beside its parts (its self energy: glue and what is unexplained, or
what was not attributed) is a cell of its own below it, and where the parts exceed the component they reach beyond
it, and the excess is marked. What is below 0 has no width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from energyscope.reporting.data.energy import Role
from energyscope.reporting.data.flow import rests
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import EnergyTree, Node, sum_energy, sum_intervals


@dataclass
class IcicleNode:
    """One component, the like components of layers that were only measured together, or a rest. mJ.

    ``component`` is None where it is several, or a rest. ``own`` is what it takes beside its parts, None where
    that is not known or it has none; ``excess_mj`` by how much what is drawn below it exceeds it, which leaves out
    all that is below 0. ``origin`` says how a value came about that was not measured on this very component.
    ``invalid`` counts its components below grade C. A ``stack`` is a sum whose parts are what it adds up.
    """

    kind: str
    role: Role
    component: str | None
    layer: int | None
    count: int
    energy: Interval
    own: Interval | None = None
    children: list[IcicleNode] = field(default_factory=list)
    excess_mj: float = 0.0
    origin: str | None = None
    invalid: int = 0
    stack: bool = False

    @property
    def room(self) -> float:
        """The width that it and its parts need: more than its own where parts exceed it."""
        return max(self.energy.value, sum(child.room for child in self.children), 0.0)

    def walk(self) -> Iterator[IcicleNode]:
        """Yield the node and everything below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def energy_icicle(tree: EnergyTree) -> IcicleNode | None:
    """Return the tree from the model down; None where the model or none of its parts was measured.

    Layers stand one by one, below their sum, where some layer was measured by itself; else together.
    """
    if tree.root is None:
        return None
    layers = [node for node in tree.nodes if node.level == "layer" and node.energy is not None]
    found = _node([tree.root], apart=any(not node.reused for node in layers))
    return found if found is not None and found.children else None


def _node(nodes: Sequence[Node], *, apart: bool) -> IcicleNode | None:
    energy = sum_energy(nodes)
    if energy is None:
        return None
    measured = [node for node in nodes if node.energy is not None]
    first = measured[0]
    found = IcicleNode(
        kind=first.kind,
        role="component",
        component=first.name if len(measured) == 1 else None,
        layer=first.layer if len(measured) == 1 else None,
        count=len(measured),
        energy=energy,
        origin=first.origin if len({node.origin for node in measured}) == 1 else None,
        invalid=sum(node.invalid for node in measured),
    )
    for group in _parts(measured):
        below = _stack(group) if apart and len(group) > 1 else _node(group, apart=apart)
        if below is not None:
            found.children.append(below)
            found.excess_mj += max(-below.energy.value, 0.0)
    if found.children:
        _add_rests(found, measured)
    return found


def _stack(layers: Sequence[Node]) -> IcicleNode | None:
    """Return the sum of like components with each of them below it, in their order."""
    found = _node(layers, apart=False)
    if found is not None:
        below = [_node([layer], apart=True) for layer in layers]
        found.children = [node for node in below if node is not None]
        found.own, found.origin, found.stack = None, None, True
        found.excess_mj = sum(max(-node.energy.value, 0.0) for node in found.children)
    return found


def _parts(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the parts of nodes, those that are one component of several layers together, the largest first."""
    groups: dict[str, list[Node]] = {}
    for part in (child for node in nodes for child in node.children):
        groups.setdefault(part.group, []).append(part)
    return sorted(groups.values(), key=_size, reverse=True)


def _size(nodes: Sequence[Node]) -> float:
    energy = sum_energy(nodes)
    return energy.value if energy else 0.0


def _add_rests(found: IcicleNode, nodes: Sequence[Node]) -> None:
    """Add glue and what is left as parts; a negative rest becomes the excess."""
    if all(node.self_energy is not None for node in nodes):
        found.own = sum_intervals((node, node.self_energy) for node in nodes)
    for name, role, value in rests(nodes):
        if value.value > 0:
            found.children.append(IcicleNode(name, role, None, None, len(nodes), value))
        else:
            found.excess_mj -= value.value


@dataclass(frozen=True)
class IcicleCell:
    """A place in the drawing, in mJ from the left: of one node, or of several too narrow to be told apart.

    ``depth`` counts down from the model.
    """

    nodes: tuple[IcicleNode, ...]
    parent: IcicleNode | None
    depth: int
    left: float
    right: float

    @property
    def node(self) -> IcicleNode | None:
        """The node that stands here; None where there are several."""
        return self.nodes[0] if len(self.nodes) == 1 else None


@dataclass(frozen=True)
class IcicleLayout:
    """The cells, parents first, with the extent of the drawing in mJ and in levels."""

    cells: list[IcicleCell]
    width: float
    depth: int


def icicle_layout(root: IcicleNode, narrow: float) -> IcicleLayout:
    """Place an icicle's cells; parts narrower than this share of the whole stand together in one cell."""
    cells: list[IcicleCell] = []
    _place(root, None, 0, 0.0, root.room * narrow, cells)
    return IcicleLayout(cells, root.room, 1 + max(cell.depth for cell in cells))


def _place(
    node: IcicleNode, parent: IcicleNode | None, depth: int, left: float, least: float, cells: list[IcicleCell]
) -> None:
    cells.append(IcicleCell((node,), parent, depth, left, left + max(node.energy.value, 0.0)))
    if node.room < least:
        return
    wide = [child for child in node.children if child.room >= least]
    thin = [child for child in node.children if child.room < least]
    if len(thin) == 1:
        wide, thin = node.children, []
    for child in wide:
        _place(child, node, depth + 1, left, least, cells)
        left += child.room
    if thin:
        across = sum(child.room for child in thin)
        cells.append(IcicleCell(tuple(thin), node, depth + 1, left, left + across))

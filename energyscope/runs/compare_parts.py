"""How the components of two runs differ: one by one where both have the same ones, else by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from energyscope.runs.compare_difference import Difference, compared, said_invalid
from energyscope.runs.tree import EnergyTree, Node, sum_energy

Alignment = Literal["component", "kind"]
_INVALID_SHARE = 0.1


def compare_parts(
    first: EnergyTree | None, second: EnergyTree | None, obstacles: tuple[str, ...]
) -> tuple[Alignment, tuple[Difference, ...]]:
    """Return how components are aligned, and their differences; none where a run has no tree.

    Components that share one measurement in both runs (a mean over the layers) are one difference.
    """
    if first is None or second is None:
        return "component", ()
    one, two = ({node.name: node for node in tree.nodes if node is not tree.root} for tree in (first, second))
    if one.keys() != two.keys():
        return "kind", tuple(_by_kind(first, second, obstacles))
    groups: dict[tuple[str, str], list[str]] = {}
    for name, node in one.items():
        groups.setdefault((node.source, two[name].source), []).append(name)
    return "component", tuple(
        _of_group([one[name] for name in names], [two[name] for name in names], obstacles)
        for names in groups.values()
    )


def _of_group(ours: list[Node], theirs: list[Node], obstacles: tuple[str, ...]) -> Difference:
    """Compare components that have one value in each run: the first stands for all of them."""
    first, second = ours[0], theirs[0]
    name = first.name if len(ours) == 1 else first.source if first.source == second.source else first.group
    invalid = said_invalid(first.invalid, second.invalid)
    found = compared(name, "mJ", first.energy, second.energy, obstacles, invalid)
    origin = _origin(ours, theirs)
    return replace(
        found, kind=first.kind, count=len(ours), origin=None if origin == f"measured on {name}" else origin
    )


def _origin(ours: list[Node], theirs: list[Node]) -> str | None:
    """Say which values were not measured on the component itself."""
    one, two = (next((node.origin for node in nodes if node.origin), None) for nodes in (ours, theirs))
    if one == two:
        return one
    said = [f"{whose}: {origin}" for whose, origin in (("baseline", one), ("other", two)) if origin]
    return "; ".join(said)


def topmost(tree: EnergyTree, kind: str) -> list[Node]:
    """Return the nodes of a kind that lie in no other node of it: a parent has its children's energy in it."""
    names = {node.name for node in tree.nodes if node.kind == kind}
    parents = {node.name: node.parent for node in tree.nodes}

    def inside(name: str | None) -> bool:
        while name is not None:
            if name in names:
                return True
            name = parents.get(name)
        return False

    return [node for node in tree.nodes if node.kind == kind and not inside(node.parent)]


def _by_kind(first: EnergyTree, second: EnergyTree, obstacles: tuple[str, ...]) -> list[Difference]:
    kinds = dict.fromkeys(node.kind for tree in (first, second) for node in tree.nodes if node is not tree.root)
    found = []
    for kind in kinds:
        ours, theirs = (topmost(tree, kind) for tree in (first, second))
        invalid = said_invalid(mostly_invalid(ours), mostly_invalid(theirs))
        item = compared(kind, "mJ", sum_energy(ours), sum_energy(theirs), obstacles, invalid)
        found.append(replace(item, kind=kind))
    return found


def mostly_invalid(nodes: Sequence[Node]) -> bool:
    """Whether more than a tenth of a sum, the widest that grade C allows, is of components graded invalid."""
    known = [(node, node.energy.value) for node in nodes if node.energy]
    whole = sum(abs(value) for _, value in known)
    return sum(abs(value) for node, value in known if node.invalid) > _INVALID_SHARE * whole

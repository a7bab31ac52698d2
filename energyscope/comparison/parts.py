"""How the components of two runs differ: one by one where both have the same ones, else by kind and by depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from energyscope.comparison.difference import Difference, compared
from energyscope.intervals import Interval
from energyscope.runs.tree import EnergyTree, Node, sum_energy

Alignment = Literal["component", "kind"]
Trees = tuple[EnergyTree, EnergyTree]
_INVALID_SHARE = 0.1  # of a sum: more of it below grade C makes the sum so
_KINDS = ("layer", "attention", "mlp")
_ORDINALS = {
    2: ("first half", "last half"),
    3: ("first third", "middle third", "last third"),
    4: ("first quarter", "second quarter", "third quarter", "last quarter"),
}


def compare_parts(trees: Trees, obstacles: Sequence[str]) -> tuple[Alignment, tuple[Difference, ...]]:
    """Return how components are aligned, and their differences.

    Components that share one measurement in both runs (a mean over the layers) are one difference.
    """
    one, two = ({node.name: node for node in tree.nodes if node is not tree.root} for tree in trees)
    if one.keys() != two.keys():
        return "kind", by_kind(trees, obstacles)
    groups: dict[tuple[str, str], list[str]] = {}
    for name, node in one.items():
        groups.setdefault((node.source, two[name].source), []).append(name)
    return "component", tuple(
        _of_group([one[name] for name in names], [two[name] for name in names], obstacles)
        for names in groups.values()
    )


def _of_group(ours: list[Node], theirs: list[Node], obstacles: Sequence[str]) -> Difference:
    """Compare components that have one value in each run: the first stands for all of them."""
    first, second = ours[0], theirs[0]
    name = first.name if len(ours) == 1 else first.source if first.source == second.source else first.group
    values, invalid = (first.energy, second.energy), (first.invalid, second.invalid)
    origins = [
        next((node.origin for node in nodes if node.origin and node.row.get("measured_on") != name), None)
        for nodes in (ours, theirs)
    ]
    said = [f"{whose}: {origin}" for whose, origin in zip(("baseline", "other"), origins, strict=True) if origin]
    return replace(
        compared(name, "mJ", values, obstacles, invalid, first.kind),
        count=len(ours),
        origin=origins[0] if origins[0] == origins[1] else "; ".join(said),
    )


def by_kind(trees: Trees, obstacles: Sequence[str]) -> tuple[Difference, ...]:
    """Return the differences of kinds, each added up over its components."""
    kinds = dict.fromkeys(node.kind for tree in trees for node in tree.nodes if node is not tree.root)
    found = []
    for kind in kinds:
        ours, theirs = (topmost(tree, kind) for tree in trees)
        invalid = mostly_invalid(ours), mostly_invalid(theirs)
        found.append(compared(kind, "mJ", (sum_energy(ours), sum_energy(theirs)), obstacles, invalid, kind))
    return tuple(found)


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


def by_depth(trees: Trees, obstacles: Sequence[str]) -> tuple[Difference, ...]:
    """Return differences of the mean energy of one layer, for equal parts of the depth.

    Nothing for kinds whose layers were not measured by themselves in both runs: a mean over the layers has no
    depth.
    """
    found = []
    for kind in _KINDS:
        layers = [layers_of(tree, kind) for tree in trees]
        parts = min(*map(len, layers), max(_ORDINALS))
        for index, ordinal in enumerate(_ORDINALS.get(parts, ())):
            (one, weak), (two, noisy) = (_mean(held, index, parts) for held in layers)
            name = f"{kind}, {ordinal} of the depth"
            found.append(compared(name, "mJ", (one, two), obstacles, (weak, noisy), kind))
    return tuple(found)


def layers_of(tree: EnergyTree, kind: str) -> list[list[Node]]:
    """Return the nodes of a kind in every layer, in order; nothing where they share one measurement."""
    found: dict[int, list[Node]] = {}
    for node in topmost(tree, kind):
        if node.layer is not None:
            found.setdefault(node.layer, []).append(node)
    own = any(not node.reused for nodes in found.values() for node in nodes)
    sources = {node.source for nodes in found.values() for node in nodes}
    return [found[layer] for layer in sorted(found)] if own and len(sources) > 1 else []


def mostly_invalid(nodes: Sequence[Node]) -> bool:
    """Whether more than a tenth of a sum is of components graded invalid."""
    known = [(node, abs(node.energy.value)) for node in nodes if node.energy]
    whole = sum(value for _, value in known)
    return sum(value for node, value in known if node.invalid) > _INVALID_SHARE * whole


def _mean(layers: Sequence[list[Node]], index: int, parts: int) -> tuple[Interval | None, bool]:
    """Return the mean energy of one layer in a part of the depth, and whether it is mostly invalid.

    None where some component was not measured.
    """
    chosen = [held for place, held in enumerate(layers) if int((place + 0.5) / len(layers) * parts) == index]
    nodes = [node for held in chosen for node in held]
    whole = None if any(node.energy is None for node in nodes) else sum_energy(nodes)
    return whole.scaled(1 / len(chosen)) if whole else None, mostly_invalid(nodes)

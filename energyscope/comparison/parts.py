"""How the components of two runs differ: one by one where both have the same ones, else by kind and by depth."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from energyscope.comparison.basis import Measure
from energyscope.comparison.difference import Difference, compared
from energyscope.grouping import group_by
from energyscope.intervals import Interval
from energyscope.runs.tree import EnergyTree, Node

Alignment = Literal["component", "kind"]
Trees = tuple[EnergyTree, EnergyTree]
_INVALID_SHARE = 0.1  # of a sum: more of it below grade C makes the sum so
_KINDS = ("layer", "attention", "mlp")
_ORDINALS = {
    2: ("first half", "last half"),
    3: ("first third", "middle third", "last third"),
    4: ("first quarter", "second quarter", "third quarter", "last quarter"),
}


def compare_parts(
    trees: Trees, obstacles: Sequence[str], measure: Measure
) -> tuple[Alignment, tuple[Difference, ...]]:
    """Return how components are aligned, and their differences by one measure.

    Components that share one measurement in both runs (a mean over the layers) are one difference.
    """
    first, second = ({node.name: node for node in tree.nodes if node is not tree.root} for tree in trees)
    if first.keys() != second.keys():
        return "kind", by_kind(trees, obstacles, measure)
    pairs = [(node, second[name]) for name, node in first.items()]
    groups = group_by(pairs, lambda pair: (pair[0].source, pair[1].source))
    return "component", tuple(_of_group(group, obstacles, measure) for group in groups.values())


def _of_group(pairs: Sequence[tuple[Node, Node]], obstacles: Sequence[str], measure: Measure) -> Difference:
    """Compare components that have one value in each run: the first stands for all of them."""
    first, second = pairs[0]
    name = first.name if len(pairs) == 1 else first.source if first.source == second.source else first.group
    values = measure.of(first), measure.of(second)
    invalid = measure.invalid(first), measure.invalid(second)
    origins = [
        next((node.origin for node in nodes if node.origin and node.row.get("measured_on") != name), None)
        for nodes in zip(*pairs, strict=True)
    ]
    named = [f"{run}: {origin}" for run, origin in zip(("baseline", "other"), origins, strict=True) if origin]
    return replace(
        compared(name, measure.unit, values, obstacles, invalid, drift=measure.drift([first], [second])),
        kind=first.kind,
        count=len(pairs),
        origin=origins[0] if origins[0] == origins[1] else "; ".join(named),
    )


def by_kind(trees: Trees, obstacles: Sequence[str], measure: Measure) -> tuple[Difference, ...]:
    """Return the differences of kinds, each added up over its components."""
    kinds = dict.fromkeys(node.kind for tree in trees for node in tree.nodes if node is not tree.root)
    differences = []
    for kind in kinds:
        first, second = (topmost(tree, kind) for tree in trees)
        values = measure.total(first), measure.total(second)
        invalid = mostly_invalid(first, measure), mostly_invalid(second, measure)
        drift = measure.drift(first, second)
        item = compared(kind, measure.unit, values, obstacles, invalid, drift=drift)
        differences.append(replace(item, kind=kind))
    return tuple(differences)


def topmost(tree: EnergyTree, kind: str) -> list[Node]:
    """Return the nodes of a kind that lie in no other node of it: a parent has its children's energy in it."""
    nodes = [node for node in tree.nodes if node.kind == kind]
    inside = {below.name for node in nodes for below in node.walk() if below is not node}
    return [node for node in nodes if node.name not in inside]


def by_depth(trees: Trees, obstacles: Sequence[str], measure: Measure) -> tuple[Difference, ...]:
    """Return differences of the mean energy of one layer, for equal parts of the depth.

    Nothing for kinds whose layers were not measured by themselves in both runs: a mean over the layers has no
    depth.
    """
    differences = []
    for kind in _KINDS:
        layers = [layers_of(tree, kind) for tree in trees]
        parts = min(*map(len, layers), max(_ORDINALS))
        drift = measure.drift(*(list(itertools.chain.from_iterable(groups)) for groups in layers))
        for index, ordinal in enumerate(_ORDINALS.get(parts, ())):
            (first, first_invalid), (second, second_invalid) = (
                _mean(nodes, index, parts, measure) for nodes in layers
            )
            name, invalid = f"{kind}, {ordinal} of the depth", (first_invalid, second_invalid)
            values = first, second
            item = compared(name, measure.unit, values, obstacles, invalid, drift=drift)
            differences.append(replace(item, kind=kind))
    return tuple(differences)


def layers_of(tree: EnergyTree, kind: str) -> list[list[Node]]:
    """Return the nodes of a kind in every layer, in order; nothing where they share one measurement."""
    nodes = [node for node in topmost(tree, kind) if node.layer is not None]
    if all(node.reused for node in nodes) or len({node.source for node in nodes}) < 2:
        return []
    return [group for _, group in sorted(group_by(nodes, lambda node: node.layer or 0).items())]


def mostly_invalid(nodes: Sequence[Node], measure: Measure) -> bool:
    """Whether more than a tenth of a sum is of components graded invalid."""
    known = [(node, abs(value.value)) for node in nodes if (value := measure.of(node))]
    whole = sum(value for _, value in known)
    return sum(value for node, value in known if measure.invalid(node)) > _INVALID_SHARE * whole


def _mean(layers: Sequence[list[Node]], index: int, parts: int, measure: Measure) -> tuple[Interval | None, bool]:
    """Return the mean of one layer in a part of the depth, and whether it is mostly invalid.

    None where some component was not measured.
    """
    places = [place for place in range(len(layers)) if int((place + 0.5) / len(layers) * parts) == index]
    nodes = [node for place in places for node in layers[place]]
    whole = None if any(measure.of(node) is None for node in nodes) else measure.total(nodes)
    return whole.scaled(1 / len(places)) if whole else None, mostly_invalid(nodes, measure)

"""Layers of different models by their relative depth: the first quarter of one against that of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from energyscope.runs.compare_difference import Difference, compared, said_invalid
from energyscope.runs.compare_parts import mostly_invalid, topmost
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import EnergyTree, Node, sum_energy

_KINDS = ("layer", "attention", "mlp")
_MOST_PARTS = 4
_ORDINALS = {2: ("first half", "last half"), 3: ("first third", "middle third", "last third"),
             4: ("first quarter", "second quarter", "third quarter", "last quarter")}  # fmt: skip


@dataclass(frozen=True)
class AtDepth:
    """The energy (mJ) of one layer, or of its blocks of a kind; ``depth`` is the layer's middle, from 0 to 1."""

    kind: str
    layer: int
    depth: float
    energy: Interval
    invalid: bool


def by_depth(first: EnergyTree, second: EnergyTree, obstacles: tuple[str, ...]) -> tuple[Difference, ...]:
    """Return differences of the mean energy of one layer, for equal parts of the depth.

    Nothing for kinds whose layers were not measured by themselves in both runs: a mean over the layers has no
    depth.
    """
    found = []
    for kind in _KINDS:
        ours, theirs = (_layers(tree, kind) for tree in (first, second))
        parts = min(len(ours), len(theirs), _MOST_PARTS)
        if parts < 2:
            continue
        for index, said in enumerate(_ORDINALS[parts]):
            one, two = (_within(layers, index, parts) for layers in (ours, theirs))
            invalid = said_invalid(mostly_invalid(_all(one)), mostly_invalid(_all(two)))
            item = compared(f"{kind}, {said} of the depth", "mJ", _mean(one), _mean(two), obstacles, invalid)
            found.append(replace(item, kind=kind))
    return tuple(found)


def depths(tree: EnergyTree, kind: str) -> list[AtDepth]:
    """Return the energy by relative depth of each layer that was measured by itself."""
    layers = _layers(tree, kind)
    found = []
    for place, (layer, nodes) in enumerate(layers):
        energy = sum_energy(nodes)
        if energy is not None and not any(node.reused for node in nodes):
            depth = (place + 0.5) / len(layers)
            found.append(AtDepth(kind, layer, depth, energy, mostly_invalid(nodes)))
    return found


def _layers(tree: EnergyTree, kind: str) -> list[tuple[int, list[Node]]]:
    """Return the nodes of a kind in every layer, in order; nothing where they share one measurement."""
    found: dict[int, list[Node]] = {}
    for node in topmost(tree, kind):
        if node.layer is not None:
            found.setdefault(node.layer, []).append(node)
    own = any(not node.reused for nodes in found.values() for node in nodes)
    sources = {node.source for nodes in found.values() for node in nodes}
    return sorted(found.items()) if own and len(sources) > 1 else []


def _within(layers: Sequence[tuple[int, list[Node]]], index: int, parts: int) -> list[list[Node]]:
    depth = len(layers)
    return [nodes for place, (_, nodes) in enumerate(layers) if int((place + 0.5) / depth * parts) == index]


def _all(layers: Sequence[Sequence[Node]]) -> list[Node]:
    return [node for nodes in layers for node in nodes]


def _mean(layers: Sequence[Sequence[Node]]) -> Interval | None:
    """Return the mean energy of one layer; None where some layer was not measured."""
    nodes = _all(layers)
    if not nodes or any(node.energy is None for node in nodes):
        return None
    whole = sum_energy(nodes)
    return whole.scaled(1 / len(layers)) if whole else None

"""The costliest components of a run; those that share one measurement are one entry."""

from __future__ import annotations

from energyscope.reporting.charts.comparison import Costly
from energyscope.reporting.data.energy import row_labels, share_of
from energyscope.runs.tree import EnergyTree, Node

MOST = 10
_ROOM = 29  # characters of a label: its end says which layer, and must not be cut


def costliest(tree: EnergyTree) -> list[Costly]:
    """Return the leaf components that take the most energy, one of each group that shares a measurement."""
    groups: dict[str, list[Node]] = {}
    for node in tree.leaves:
        if node.energy is not None and node.energy.value > 0:
            groups.setdefault(node.source, []).append(node)
    labels = row_labels([node for node in tree.leaves if node.layer is not None])
    found = [entry for nodes in groups.values() if (entry := _entry(nodes, labels, tree)) is not None]
    return sorted(found, key=lambda entry: -entry.energy.value)[:MOST]


def _entry(nodes: list[Node], labels: dict[str, str], tree: EnergyTree) -> Costly | None:
    node = next((one for one in nodes if not one.reused), nodes[0])
    if node.energy is None:
        return None
    share = share_of(node.energy, tree.model_energy)
    return Costly(
        label=_label(node, nodes, labels),
        kind=node.kind,
        energy=node.energy,
        share=share.value if share else None,
        invalid=node.invalid,
    )


def _label(node: Node, nodes: list[Node], labels: dict[str, str]) -> str:
    """Name a component by its kind and its layer, or say that it is a mean, and of how many."""
    if node.layer is None:
        return node.kind if node.kind == node.name else f"{node.kind} ({node.name.rpartition('.')[2]})"
    name = labels.get(node.group, node.kind)
    each = f" (each of {len(nodes)})" if len(nodes) > 1 else ""
    end = each if node.reused and each else f", layer {node.layer}{each}"
    short = name if len(name + end) <= _ROOM else name[: _ROOM - len(end) - 1] + "\u2026"
    return short + end

"""The same tree with only its static, or only its dynamic energy: what the switch between joules shows.

Static energy is idle power times time, dynamic energy the rest. Of neither is an interval known, so these views
have none.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from energyscope.reporting.data.energy import Cell, KindEnergy, energy_by_kind, layer_cells
from energyscope.reporting.data.flow import FlowNode, energy_flow
from energyscope.reporting.data.icicle import IcicleNode, energy_icicle
from energyscope.runs.intervals import interval
from energyscope.runs.tree import EnergyTree, Node

Column = Literal["dynamic", "static"]
COLUMNS: tuple[Column, ...] = ("dynamic", "static")
GLUE_UNKNOWN = (
    "The {column} energy of some glue is not known: it is drawn with what is unexplained, as not attributed."
)


@dataclass(frozen=True)
class EnergyView:
    """One column of a tree's energy by kind, by layer, and from the model down. mJ, without intervals.

    Shares are of the model's energy of that column. ``notes`` say what cannot be told apart.
    """

    column: Column
    kinds: list[KindEnergy]
    layers: list[Cell]
    flow: FlowNode | None
    icicle: IcicleNode | None
    notes: list[str] = field(default_factory=list)


def energy_views(tree: EnergyTree) -> list[EnergyView]:
    """Return the dynamic and the static view of a tree; none where a component lacks the split."""
    return [_view(column, found) for column in COLUMNS if (found := column_tree(tree, column)) is not None]


def _view(column: Column, tree: EnergyTree) -> EnergyView:
    kinds = [replace(entry, static_mj=None, dynamic_mj=None) for entry in energy_by_kind(tree)]
    lost = any(node.children and node.glue is None and node.number("glue_mj") is not None for node in tree.nodes)
    notes = [GLUE_UNKNOWN.format(column=column)] if lost else []
    return EnergyView(column, kinds, layer_cells(tree), energy_flow(tree), energy_icicle(tree), notes)


def column_tree(tree: EnergyTree, column: Column) -> EnergyTree | None:
    """Return a tree of one column's energy and glue; None where the model or a component does not know it."""
    measured = [node for node in tree.nodes if node.energy is not None]
    if tree.root is None or (tree.root.number(f"{column}_mj") or 0.0) <= 0:
        return None
    if any(node.number("static_mj") is None or node.number("dynamic_mj") is None for node in measured):
        return None
    copies = {node: _copy(node, column) for node in tree.nodes}
    for node, copy in copies.items():
        copy.children.extend(copies[child] for child in node.children)
    return EnergyTree(tree.key, tuple(copies.values()), copies[tree.root])


def _copy(node: Node, column: Column) -> Node:
    """Return a node without children, with one column's energy and glue."""
    energy = node.number(f"{column}_mj") if node.energy is not None else None
    glue = node.number("glue_static_mj") if node.glue is not None else None
    if node.glue is not None and glue is not None and column == "dynamic":
        glue = node.glue.value - glue
    return replace(node, energy=interval(energy), glue=interval(glue), children=[])

"""Where the energy goes: by kind, by layer, by layer and component, and row by row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from energyscope.reporting import text
from energyscope.reporting.data.work import work_in
from energyscope.runs.intervals import Interval, finite, ratio
from energyscope.runs.tree import EnergyTree, Node, sum_column, sum_energy, sum_intervals

if TYPE_CHECKING:
    import pandas as pd

Role = Literal["component", "glue", "unexplained", "unattributed"]

GLUE, UNEXPLAINED, UNATTRIBUTED = "glue", "unexplained", "not attributed"


@dataclass(frozen=True)
class KindEnergy:
    """The energy of all leaf components of a kind, or of all glue, or of all that is unexplained.

    ``share`` is of the measured model; ``static_mj`` and ``dynamic_mj`` are None where any part lacks them;
    ``missing`` components have no value and are not in the sum; ``invalid`` ones did not reach grade C and are;
    ``reused`` says that some value was measured on other layers.
    """

    kind: str
    role: Role
    count: int
    energy: Interval
    share: Interval | None
    static_mj: float | None
    dynamic_mj: float | None
    missing: int = 0
    invalid: int = 0
    reused: bool = False

    @property
    def work_mj(self) -> float | None:
        """The dynamic part, mJ; None where the parts are not known, or it is no part of the whole."""
        return None if self.static_mj is None else work_in(self.energy, self.dynamic_mj)

    @property
    def all_invalid(self) -> bool:
        """Whether nothing in the sum reached grade C."""
        return 0 < self.count == self.invalid


@dataclass(frozen=True)
class Cell:
    """One component of one layer in the heatmap; ``layer`` is None outside the layers.

    ``energy`` is in mJ per forward pass; of a cell of another `Measure` it is that measure.
    """

    row: str
    component: str
    kind: str
    layer: int | None
    energy: Interval | None
    origin: str | None
    invalid: bool

    @property
    def reused(self) -> bool:
        """Whether the value was not measured on this very layer; ``origin`` says how it came about."""
        return self.origin is not None


@dataclass(frozen=True)
class EnergyData:
    """What the profile section shows. The kinds add up to ``model`` where nothing is missing.

    ``missing`` names the components without a value, ``missing_parts`` those of them that a sum by kind lacks:
    what has parts is in no such sum.
    """

    model: Interval | None
    kinds: list[KindEnergy]
    layers: list[Cell]
    cells: list[Cell]
    rows: list[dict[str, Any]]
    missing: list[str]
    missing_parts: list[str] = field(default_factory=list)


def energy_data(tree: EnergyTree, frame: pd.DataFrame) -> EnergyData:
    """Gather the profile section from the tree of the first slice; the rows are those of the whole table."""
    return EnergyData(
        model=tree.model_energy,
        kinds=energy_by_kind(tree),
        layers=layer_cells(tree),
        cells=heatmap_cells(tree),
        rows=[{str(key): value for key, value in row.items()} for row in frame.to_dict("records")],
        missing=[node.name for node in tree.nodes if node.energy is None],
        missing_parts=[node.name for node in tree.leaves if node.energy is None],
    )


def energy_by_kind(tree: EnergyTree) -> list[KindEnergy]:
    """Add the leaves up by kind, largest first, then glue and what is unexplained.

    The sums add up to the model's energy where no value is missing. A parent's own kind does not appear,
    since its children are already counted.
    """
    components = _by_kind(tree.leaves, tree)
    parents = [node for node in tree.nodes if node.children]
    rest = [
        _of_rest(GLUE, "glue", [(node, node.glue) for node in parents], tree),
        _of_rest(UNEXPLAINED, "unexplained", [(node, node.unexplained) for node in parents], tree),
        _of_rest(
            UNATTRIBUTED,
            "unattributed",
            [(node, node.self_energy) for node in parents if node.glue is None],
            tree,
        ),
    ]
    return components + [entry for entry in rest if entry]


def energy_by_block(tree: EnergyTree) -> list[KindEnergy]:
    """Add up by kind what the model and its layers are made of, each measured as a whole, largest first.

    At any granularity these are a layer's blocks (attention, MLP, norms), and what stands before and behind the
    layers; layers themselves where nothing inside them was measured. Glue is not among them.
    """
    return _by_kind(_blocks(tree.root), tree) if tree.root else []


def _blocks(node: Node) -> list[Node]:
    """Return a node's children, and for a layer among them what is in it, if any of that was measured."""
    found = []
    for child in node.children:
        inside = _blocks(child) if child.level == "layer" else []
        found += inside if any(block.energy for block in inside) else [child]
    return found


def _by_kind(nodes: Sequence[Node], tree: EnergyTree) -> list[KindEnergy]:
    kinds = dict.fromkeys(node.kind for node in nodes)
    found = [_of_kind(kind, [node for node in nodes if node.kind == kind], tree) for kind in kinds]
    return sorted((entry for entry in found if entry), key=lambda entry: -entry.energy.value)


def _of_kind(kind: str, nodes: list[Node], tree: EnergyTree) -> KindEnergy | None:
    energy = sum_energy(nodes)
    if energy is None:
        return None
    measured = [node for node in nodes if node.energy]
    return KindEnergy(
        kind=kind,
        role="component",
        count=len(measured),
        energy=energy,
        share=share_of(energy, tree.model_energy),
        static_mj=sum_column(measured, "static_mj"),
        dynamic_mj=sum_column(measured, "dynamic_mj"),
        missing=len(nodes) - len(measured),
        invalid=sum(node.invalid for node in measured),
        reused=any(node.reused for node in measured),
    )


def _of_rest(
    name: str, role: Role, pairs: list[tuple[Node, Interval | None]], tree: EnergyTree
) -> KindEnergy | None:
    known = [(node, value) for node, value in pairs if value is not None]
    energy = sum_intervals(known)
    if energy is None:
        return None
    owners = [node for node, _ in known]
    parts = [_static_rest(node, role) for node in owners]
    static = None if None in parts else math.fsum(part for part in parts if part is not None)
    return KindEnergy(
        kind=name,
        role=role,
        count=len(known),
        energy=energy,
        share=share_of(energy, tree.model_energy),
        static_mj=static,
        dynamic_mj=None if static is None else energy.value - static,
        reused=any(node.reused for node in owners),
    )


def _static_rest(node: Node, role: Role) -> float | None:
    """Return the static part (mJ) of a node's glue, or of what it takes beyond its parts; None where unknown."""
    glue = node.number("glue_static_mj")
    if role == "glue":
        return glue
    own = node.number("static_mj")
    parts = [child.number("static_mj") for child in node.children] + ([glue] if role == "unexplained" else [])
    if own is None or None in parts:
        return None
    return own - math.fsum(part for part in parts if part is not None)


def share_of(part: Interval, model: Interval | None) -> Interval | None:
    """Return a part's share of the model.

    Where a limit is not positive, and logarithms do not help, the limits are those of a ratio to first order.
    """
    if model is None or model.value <= 0:
        return None
    share = ratio(part, model)
    return share if share and share.known else _first_order(part, model)


def _first_order(part: Interval, model: Interval) -> Interval:
    """Return the quotient with the relative errors added as squares, the model's in the direction it has."""
    share = part.value / model.value
    down, up = (model.above, model.below) if share >= 0 else (model.below, model.above)
    below = math.hypot(part.below, share * down) / model.value
    above = math.hypot(part.above, share * up) / model.value
    return Interval(share, finite(share - below), finite(share + above))


def layer_cells(tree: EnergyTree) -> list[Cell]:
    """Return one cell for each layer that has a value."""
    return [_cell(node, "layer") for node in tree.nodes if node.level == "layer" and node.energy]


def heatmap_cells(tree: EnergyTree) -> list[Cell]:
    """Return one cell for each component inside a layer, or for each layer where nothing inside was measured."""
    return [cell for _, cell in heatmap_nodes(tree)]


def heatmap_nodes(tree: EnergyTree) -> list[tuple[Node, Cell]]:
    """Return the heatmap's cells with the components that they show."""
    inside = [node for node in tree.nodes if node.layer is not None and node.level != "layer"]
    nodes = inside or [node for node in tree.nodes if node.level == "layer"]
    labels = row_labels(nodes)
    return [(node, _cell(node, labels[node.group])) for node in nodes]


def row_labels(nodes: list[Node]) -> dict[str, str]:
    """Name each group of components: its kind, with the name in the layer where the kind alone is not unique."""
    groups = {node.group: node for node in nodes}
    kinds = Counter(node.kind for node in groups.values())
    return {
        group: node.kind if kinds[node.kind] == 1 else f"{node.kind} ({node.tail})"
        for group, node in groups.items()
    }


def _cell(node: Node, row: str) -> Cell:
    return Cell(row, node.name, node.kind, node.layer, node.energy, node.origin, node.invalid)


def kind_sentence(entry: KindEnergy) -> str:
    """Describe a kind's energy in words, for tables and screen readers."""
    parts = [text.with_limits(entry.energy, "mJ")]
    if entry.share:
        parts.append(f"{text.percent_with_limits(entry.share)} of the model")
    if entry.missing:
        parts.append(f"{text.count(entry.missing, 'component')} without a value left out")
    if entry.invalid:
        parts.append(f"{entry.invalid} of {text.count(entry.count, 'component')} below grade C")
    return ", ".join(parts)

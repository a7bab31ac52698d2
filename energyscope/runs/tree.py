"""The measured component tree of a run, as read back from its energy table.

Children, glue and unexplained energy of a node add up to the node, and so the leaves, all glue and all
unexplained energy add up to the model. Nothing here is renormalised: a missing value stays missing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from energyscope.intervals import Interval, difference, finite, interval, total, total_of_same
from energyscope.metering.grades import INVALID, QUALITIES

if TYPE_CHECKING:
    import pandas as pd

SLICE_COLUMNS = ("phase", "precision", "execution", "batch_size", "context_length")
EAGER = "eager"
MEAN = "mean over the layers"  # where a reused value comes from: not from this layer


def origin_of(row: Mapping[str, Any]) -> str | None:
    """Return where a row's reused value comes from, in words; None if it was measured on this very component."""
    component = row.get("measured_on")
    if not row.get("reused"):
        return None
    return f"measured on {component}" if isinstance(component, str) else MEAN


@dataclass(eq=False)
class Node:
    """One measured component. Energies are mJ per forward pass of the model (decode: per step).

    ``model`` is the whole model's node, None where that was not measured.
    """

    name: str
    kind: str
    layer: int | None
    level: str
    parent: str | None
    row: Mapping[str, Any]
    energy: Interval | None
    glue: Interval | None
    children: list[Node] = field(default_factory=list)
    model: Node | None = None

    @property
    def group(self) -> str:
        """The name with the layer's index left open: the instances of one component over the layers share it."""
        if self.layer is None:
            return self.name
        parts = self.name.split(".")
        index = str(self.layer)
        if index in parts:
            parts[parts.index(index)] = "*"
        return ".".join(parts)

    @property
    def tail(self) -> str:
        """The name inside its layer, such as ``attn.c_attn``; the whole name outside the layers."""
        return self.group.rpartition("*.")[2]

    @property
    def reused(self) -> bool:
        """Whether the value was measured on other layers than this one."""
        return bool(self.row.get("reused"))

    @property
    def source(self) -> str:
        """The measurement that the value comes from: its own, its kind's mean, or that of another layer."""
        component = self.row.get("measured_on")
        if not self.reused:
            return self.name
        return component if isinstance(component, str) else self.group

    @property
    def origin(self) -> str | None:
        """Where a reused value comes from, in words; None if it was measured on this very component."""
        return origin_of(self.row)

    @property
    def invalid(self) -> bool:
        """Whether the value did not reach grade C: it is shown as unreliable."""
        return self.row.get("quality") == "invalid"

    @property
    def dynamic(self) -> Interval | None:
        """The energy beyond idle power x time; without limits in runs from before those were recorded."""
        return self.interval("dynamic_mj", "dynamic_ci")

    @property
    def static(self) -> Interval | None:
        """Idle power x time; without limits in runs from before those were recorded."""
        return self.interval("static_mj", "static_ci")

    @property
    def host(self) -> Interval | None:
        """What the whole host drew meanwhile, mJ; None where it was not counted."""
        return self.interval("host_energy_mj", "host_ci")

    @property
    def dynamic_share(self) -> Interval | None:
        """The share of the model's dynamic energy; where no share was recorded, the quotient without limits."""
        recorded = self.interval("dynamic_share", "dynamic_share_ci")
        own, whole = self.number("dynamic_mj"), self.model.number("dynamic_mj") if self.model else None
        if recorded is not None or own is None or whole is None or whole <= 0:
            return recorded
        return Interval(own / whole)

    @property
    def self_energy(self) -> Interval | None:
        """The node minus its children; None where one of them was not measured."""
        if self.energy is None or not self.children or any(child.energy is None for child in self.children):
            return None
        return difference(self.energy, sum_energy(self.children) or Interval(0.0, 0.0, 0.0))

    @property
    def unexplained(self) -> Interval | None:
        """The node minus its children and its glue; may be negative; None where glue was not measured."""
        own = self.self_energy
        return None if own is None or self.glue is None else difference(own, self.glue)

    @property
    def glue_work(self) -> Interval | None:
        """The work of what it does beside its parts; without limits in runs from before those were recorded."""
        recorded, idle = self.interval("glue_dynamic_mj", "glue_dynamic_ci"), self.number("glue_static_mj")
        if recorded is not None or self.glue is None or idle is None:
            return recorded
        return Interval(self.glue.value - idle)

    @property
    def self_work(self) -> Interval | None:
        """Its work less that of its children; None where one of them has none."""
        parts = sum_known(child.dynamic for child in self.children)
        return None if self.dynamic is None or parts is None else difference(self.dynamic, parts)

    @property
    def unexplained_work(self) -> Interval | None:
        """Its work less that of its children and of what it does beside them; may be negative."""
        own, glue = self.self_work, self.glue_work
        return None if own is None or glue is None else difference(own, glue)

    def interval(self, column: str, limits: str) -> Interval | None:
        """Return a column with its 95 % interval, of the columns ``{limits}_low`` and ``{limits}_high``.

        None where it is missing; without limits in runs recorded before there were these columns.
        """
        unit = "_mj" if column.endswith("_mj") else ""
        return interval(*(self.row.get(name) for name in (column, f"{limits}_low{unit}", f"{limits}_high{unit}")))

    def number(self, column: str) -> float | None:
        """Return a column of the node's row as a number, None where it is missing."""
        return finite(self.row.get(column))

    def flag(self, column: str) -> bool | None:
        """Return a column of the node's row as true or false, None where it is missing."""
        return {"True": True, "False": False}.get(str(self.row.get(column)))

    def walk(self) -> Iterator[Node]:
        """Yield the node and everything below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class EnergyTree:
    """The nodes of one slice (phase, precision, execution, batch size, context length) of an energy table.

    ``root`` is the whole model, None where it was not measured; ``nodes`` are in the table's order.
    """

    key: tuple[Hashable, ...]
    nodes: tuple[Node, ...]
    root: Node | None

    @property
    def by_work(self) -> bool:
        """Whether it is judged by its work: run eagerly, idle energy is the host's time x idle power.

        Only where work has a grade of its own; runs recorded before that are judged by all their energy.
        """
        row = self.root.row if self.root else {}
        return row.get("execution") == EAGER and row.get("dynamic_quality") in QUALITIES

    def judged(self, node: Node) -> Interval | None:
        """Return what a node's grade is of: its work, or all its energy (mJ)."""
        return node.dynamic if self.by_work else node.energy

    def quality(self, node: Node) -> str:
        """Return the grade of what a node is judged by."""
        quality = node.row.get("dynamic_quality" if self.by_work else "quality")
        return str(quality) if quality in QUALITIES else INVALID

    @property
    def leaves(self) -> list[Node]:
        """The nodes without children: the only ones that may be added up."""
        return [node for node in self.nodes if not node.children and node is not self.root]

    @property
    def model_energy(self) -> Interval | None:
        """The measured energy of the whole model, mJ per forward pass."""
        return self.root.energy if self.root else None


def slice_keys(frame: pd.DataFrame) -> list[tuple[Hashable, ...]]:
    """Return the slices of an energy table, those with the whole model first, else in the table's order."""
    keys = _keys_of_rows(frame)
    whole = {key for key, level in zip(keys, frame["level"], strict=True) if level == "model"}
    return sorted(dict.fromkeys(keys), key=lambda key: key not in whole)


def _keys_of_rows(frame: pd.DataFrame) -> list[tuple[Hashable, ...]]:
    """Return the slice of each row; None for what it has not (images have no length), since NaN equals nothing."""
    columns = frame[list(SLICE_COLUMNS)].astype(object)
    return list(columns.where(columns.notna(), None).itertuples(index=False, name=None))


def energy_tree(frame: pd.DataFrame, key: tuple[Hashable, ...] | None = None) -> EnergyTree:
    """Build the tree of one slice of an energy table, by default of its first."""
    keys = slice_keys(frame)
    key = key or (keys[0] if keys else ())
    rows = zip(frame.to_dict("records"), _keys_of_rows(frame), strict=True)
    records = [row for row, its_key in rows if its_key == key]
    nodes = [_node(row) for row in records]
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        if node.parent in by_name:
            by_name[node.parent].children.append(node)
    root = next((node for node in nodes if node.level == "model"), None)
    for node in nodes:
        node.model = root
    return EnergyTree(key, tuple(nodes), root)


def sum_energy(nodes: Iterable[Node]) -> Interval | None:
    """Add the nodes' energies (mJ); values that come from one measurement err together.

    Nodes without a value are left out; None where no node has one.
    """
    return sum_intervals((node, node.energy) for node in nodes)


def sum_intervals(pairs: Iterable[tuple[Node, Interval | None]]) -> Interval | None:
    """Add values that belong to nodes, as ``sum_energy`` does."""
    by_source: dict[str, list[Interval]] = {}
    for node, value in pairs:
        if value is not None:
            by_source.setdefault(node.source, []).append(value)
    return total([total_of_same(values) for values in by_source.values()]) if by_source else None


def sum_known(values: Iterable[Interval | None]) -> Interval | None:
    """Add work, or idle energy; None where any is missing, since a part is not the sum.

    All have the error of the idle power, which does not average out: their half-widths add up.
    """
    items = list(values)
    known = [value for value in items if value is not None]
    return total_of_same(known) if known and len(known) == len(items) else None


def sum_column(nodes: Iterable[Node], column: str) -> float | None:
    """Add a column over nodes; None where any of them lacks it, since a part is not the sum."""
    values = [node.number(column) for node in nodes]
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def tokens_of(document: Mapping[str, Any], root: Node | None) -> float | None:
    """Return the tokens of a pass: those read in prefill, one for each sequence in a decode step."""
    if root is None:
        return None
    batch, length = root.number("batch_size"), root.number("context_length")
    if root.row.get("phase") == "decode":
        return batch
    stated = finite((document.get("workload") or {}).get("tokens_per_forward"))
    return stated if stated or not batch or not length else batch * length


def _node(row: Mapping[Hashable, Any]) -> Node:
    cells = {str(key): value for key, value in row.items()}
    layer = finite(cells["layer"])
    return Node(
        name=str(cells["component"]),
        kind=str(cells["kind"]),
        layer=None if layer is None else int(layer),
        level=str(cells["level"]),
        parent=cells["parent"] if isinstance(cells["parent"], str) else None,
        row=cells,
        energy=interval(cells["energy_mj"], cells["energy_ci_low_mj"], cells["energy_ci_high_mj"]),
        glue=interval(cells["glue_mj"], cells.get("glue_ci_low_mj"), cells.get("glue_ci_high_mj")),
    )

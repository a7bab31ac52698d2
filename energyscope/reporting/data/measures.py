"""Other measures of the heatmap's cells than their energy: joules for a FLOP, power, and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from energyscope.reporting.data.efficiency import efficiency
from energyscope.reporting.data.energy import Cell, heatmap_nodes
from energyscope.runs.intervals import Interval, interval
from energyscope.runs.tree import EnergyTree, Node

Key = Literal["per-flop", "power", "time"]
NO_FLOPS = "no counted FLOPs"
NO_VALUE = "no value"


@dataclass(frozen=True)
class Measure:
    """The heatmap's cells with another measure in place of their energy, in ``unit`` (of `text.scale_of`).

    ``left_out`` names the rows of the heatmap none of whose cells have it, because of ``lack``.
    """

    key: Key
    unit: str
    cells: list[Cell]
    left_out: list[str]
    lack: str


def measures(tree: EnergyTree, *, modelled: bool) -> list[Measure]:
    """Return what else is known of the heatmap's cells; no power where that was stated and not measured."""
    found = [_measure(tree, key) for key in _MEASURES if not (modelled and key == "power")]
    return [measure for measure in found if measure.cells]


def _measure(tree: EnergyTree, key: Key) -> Measure:
    of, unit, lack = _MEASURES[key]
    known = [(cell, of(node)) for node, cell in heatmap_nodes(tree)]
    cells = [replace(cell, energy=value) for cell, value in known if value is not None]
    rows = dict.fromkeys(cell.row for cell, _ in known)
    drawn = {cell.row for cell in cells}
    return Measure(key, unit, cells, [row for row in rows if row not in drawn], lack)


def _per_flop(node: Node) -> Interval | None:
    return efficiency(node.energy, node.number("flops"), None, None).pj_per_flop


def _power(node: Node) -> Interval | None:
    return interval(node.number("power_w")) if node.energy else None


def _time(node: Node) -> Interval | None:
    return interval(node.number("time_us")) if node.energy else None


_MEASURES: dict[Key, tuple[Callable[[Node], Interval | None], str, str]] = {
    "per-flop": (_per_flop, "pJ/FLOP", NO_FLOPS),
    "power": (_power, "W", NO_VALUE),
    "time": (_time, "us", NO_VALUE),
}

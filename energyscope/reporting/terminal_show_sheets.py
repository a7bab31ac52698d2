"""The tables of `energyscope show` as plain data, before a terminal or a pipe gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.reporting import text
from energyscope.reporting.data import ReportData
from energyscope.reporting.data.energy import EnergyData
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import EnergyTree, Node, energy_tree

if TYPE_CHECKING:
    from energyscope.runs.store import Run

DASH = "\u2013"
WIDE = 120  # columns of a terminal from which a table's wide columns are drawn
_NOTHING = Interval(0.0)


@dataclass(frozen=True)
class Head:
    """A column: ``right`` for numbers; a ``wide`` one is left out of terminals narrower than `WIDE`."""

    title: str
    right: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table of text: ``warnings`` stand above it, ``notes`` below; without rows, the notes say why."""

    title: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()


def summary_sheet(data: ReportData) -> Sheet:
    """Return the headline figures, with the banners above them and the findings below."""
    rows = [
        [one.label, one.value, "; ".join(part for part in (one.detail, one.note) if part)] for one in data.headline
    ]
    warnings = [f"{banner.title}: {banner.text}" for banner in data.banners]
    said = [f"{data.execution.title}. {data.execution.text}", *data.findings]
    return Sheet(data.name, (Head("what"), Head("value", right=True), Head("detail")), rows, said, warnings)


def kinds_sheets(data: ReportData) -> list[Sheet]:
    """Return the energy by kind, with glue and what is unexplained; a sheet for each moment of the inference."""
    title = "By kind of component"
    found = [(f"{title}, {scene.short}", scene.energy) for scene in data.scenes if scene.detailed]
    if len(data.scenes) < 2:
        found = [(title, data.energy)] if data.energy else []
    return [_kinds(name, energy, data) for name, energy in found] or [_nothing(title, data, "profile")]


def _kinds(title: str, energy: EnergyData, data: ReportData) -> Sheet:
    heads = (
        Head("kind"), Head("number", right=True), Head(energy_word(data), right=True), Head("share", right=True),
        Head("static", right=True, wide=True), Head("dynamic", right=True, wide=True),
    )  # fmt: skip
    rows = [
        [entry.kind, str(entry.count), text.with_limits(entry.energy, "mJ"), text.percent_with_limits(entry.share),
         known(entry.static_mj, "mJ"), known(entry.dynamic_mj, "mJ")]
        for entry in energy.kinds
    ]  # fmt: skip
    return Sheet(title, heads, rows)


def energy_sheets(run: Run, data: ReportData, most: int | None = None) -> list[Sheet]:
    """Return the components with energy, interval, share and quality; a sheet for each moment of the inference.

    With ``most``, the largest leaves, as many; without, every component in the order of the run's table, with what
    lowered its quality. What is one measurement for several layers has one row.
    """
    title = "Largest components" if most else "Components"
    trees: list[tuple[str, EnergyTree]] = [(scene.short, scene.tree) for scene in data.scenes if scene.detailed]
    if len(data.scenes) < 2:
        measured = run.energy is not None and not run.energy.empty
        trees = [("", energy_tree(run.energy))] if measured and run.energy is not None else []
    return [_components(title, at, tree, data, most) for at, tree in trees] or [_nothing(title, data, "profile")]


def _components(title: str, moment: str, tree: EnergyTree, data: ReportData, most: int | None) -> Sheet:
    heads = [
        Head("component"), Head("kind", wide=True), Head(energy_word(data), right=True), Head("share", right=True),
        Head("quality"), Head("dynamic", right=True, wide=True), Head("time", right=True, wide=True),
        Head("power", right=True, wide=True),
    ]  # fmt: skip
    rows = [_component(nodes) for nodes in _chosen(tree, most)]
    if moment:  # the title tells a reader, but no program that takes one line of many
        heads.append(Head("moment", wide=True))
        rows = [[*row, moment] for row in rows]
    if most is None:
        heads.append(Head("reasons", wide=True))
        rows = [[*row, _reasons(nodes)] for row, nodes in zip(rows, _chosen(tree, most), strict=True)]
    return Sheet(f"{title}, {moment}" if moment else title, heads, rows)


def _chosen(tree: EnergyTree, most: int | None) -> list[list[Node]]:
    """Return the nodes of each measurement together."""
    groups: dict[str, list[Node]] = {}
    for node in tree.leaves if most else tree.nodes:
        groups.setdefault(node.source, []).append(node)
    found = list(groups.values())
    if most is None:
        return found
    return sorted(found, key=lambda nodes: -(nodes[0].energy or _NOTHING).value)[:most]


def _component(nodes: Sequence[Node]) -> list[str]:
    first = nodes[0]
    name = f"{first.source} (each of {len(nodes)})" if len(nodes) > 1 else first.name
    return [
        name,
        first.kind,
        text.with_limits(first.energy, "mJ"),
        _share(first.number("share_of_total")),
        str(first.row.get("quality") or DASH),
        known(first.number("dynamic_mj"), "mJ"),
        known(first.number("time_us"), "us"),
        known(first.number("power_w"), "W"),
    ]


def _reasons(nodes: Sequence[Node]) -> str:
    found = nodes[0].row.get("reasons")
    return found if isinstance(found, str) else ""


def energy_word(data: ReportData) -> str:
    """Return what a column of energies is called; that joules are MODELLED stands above each."""
    return "MODELLED energy [95 %]" if data.modelled else "energy [95 %]"


def known(value: float | None, unit: str) -> str:
    """Write a value, or a dash where it is unknown."""
    return DASH if value is None else text.quantity(value, unit)


def _share(value: float | None) -> str:
    return DASH if value is None else text.percent(value)


def _nothing(title: str, data: ReportData, stage: str) -> Sheet:
    return Sheet(title, (), (), [why(data, stage)])


def why(data: ReportData, stage: str) -> str:
    """Say why a stage left nothing."""
    return data.missing.get(stage, f"The {stage} stage left nothing.")

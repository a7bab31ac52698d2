"""What two runs have in common that can be set side by side: shares, impact, correlations, precisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from energyscope.reporting.charts.comparison import Compared
from energyscope.reporting.data import ReportData
from energyscope.reporting.data.benchmark import BenchmarkCell, BenchmarkData
from energyscope.reporting.data.energy import share_of
from energyscope.reporting.data.impact import HEAD_KINDS, ImpactData
from energyscope.reporting.data.impact_words import method_title
from energyscope.reporting.publication.by_type import mean_interval
from energyscope.runs.intervals import Interval
from energyscope.runs.store import Run
from energyscope.runs.tree import energy_tree, sum_energy, sum_intervals

Shape = tuple[int, int]  # batch size and sequence length

# Families that every model has: a model's query, key and value are another one's qkv.
_FAMILIES = {
    "rotary": "embedding",
    "router": "mlp",
    "experts": "mlp",
    "lm_head": "head",
    "pooler": "head",
    "classifier": "head",
}


def family(kind: str) -> str:
    """Return the family of a kind, which models with different parts share."""
    first = kind.partition(".")[0]
    return _FAMILIES.get(first, first)


def energy_shares(runs: Sequence[Run], names: Sequence[str]) -> list[Compared]:
    """Return the share of each family in each model's measured energy (%), the largest first."""
    found = [
        Compared(item, name, share.scaled(100))
        for run, name in zip(runs, names, strict=True)
        for item, share in _shares(run).items()
    ]
    return _largest_first(found)


def _shares(run: Run) -> dict[str, Interval]:
    if run.energy is None or run.energy.empty:
        return {}
    tree = energy_tree(run.energy)
    groups: dict[str, list[Any]] = {}
    for node in tree.leaves:
        groups.setdefault(family(node.kind), []).append(node)
    energies = {item: sum_energy(nodes) for item, nodes in groups.items()}
    energies["glue"] = sum_intervals((node, node.glue) for node in tree.nodes if node.children)
    shares = {item: share_of(energy, tree.model_energy) for item, energy in energies.items() if energy is not None}
    return {item: share for item, share in shares.items() if share is not None}


def removal_of(data: Sequence[ReportData]) -> str | None:
    """Return the removal that both runs have: what the first run shows by layer, if the other has it too."""
    impacts = [one.impact for one in data if one.impact is not None]
    if len(impacts) < len(data):
        return None
    shared = [method for method in impacts[0].removals if all(method in one.removals for one in impacts[1:])]
    return impacts[0].removal if impacts[0].removal in shared else next(iter(shared), None)


def impacts_by_type(data: Sequence[ReportData], names: Sequence[str], method: str) -> list[Compared]:
    """Return the mean KL divergence by kind of block under a removal, of kinds that any of the models has."""
    found = [
        Compared(kind, name, value)
        for one, name in zip(data, names, strict=True)
        if one.impact is not None
        for kind, value in _impacts(one.impact, method).items()
    ]
    return _largest_first(found)


def _impacts(data: ImpactData, method: str) -> dict[str, Interval]:
    groups: dict[str, list[Interval]] = {}
    for point in data.chosen(method, "kl"):
        if "." not in point.kind and point.kind not in HEAD_KINDS:
            groups.setdefault(point.kind, []).append(point.value)
    return {kind: mean_interval(values) for kind, values in groups.items()}


def correlations(data: Sequence[ReportData], names: Sequence[str]) -> list[Compared]:
    """Return Spearman's coefficient of energy and each impact measured by the KL divergence."""
    return [
        Compared(method_title(item.y.partition(":")[0]), name, item.value)
        for one, name in zip(data, names, strict=True)
        if one.correlation is not None
        for item in one.correlation.correlations
        if (item.x, item.method) == ("energy_mj", "spearman") and item.y.endswith(":kl") and item.value is not None
    ]


def shapes(benchmarks: Sequence[BenchmarkData | None]) -> list[Shape | None]:
    """Return the shape at which each benchmark is shown: the smallest that all have, else its own smallest."""
    found = [set(one.shapes) if one else set() for one in benchmarks]
    common = set.intersection(*found) if found else set()
    return [min(common or of, default=None) for of in found]


def precisions(
    benchmarks: Sequence[BenchmarkData | None],
    names: Sequence[str],
    at: Sequence[Shape | None],
    value: Callable[[BenchmarkCell], Interval | None],
    *,
    baseline: bool = True,
    energy: bool = False,
) -> list[Compared]:
    """Return a value of each precision at a shape, in the order of the first benchmark's precisions.

    Without ``baseline`` each benchmark's own is left out, as for ratios to it; a value made of ``energy`` is
    marked where its cell is below grade C, or where the ratio's baseline is.
    """
    found = []
    for one, name, shape in zip(benchmarks, names, at, strict=True):
        cells = one.at(shape) if one is not None and shape is not None else []
        base = next((cell for cell in cells if one is not None and cell.precision == one.baseline), None)
        weak_base = not baseline and base is not None and base.invalid
        for cell in cells:
            item = value(cell)
            if item is not None and (baseline or cell is not base):
                found.append(Compared(cell.title, name, item, invalid=energy and (cell.invalid or weak_base)))
    order = list(dict.fromkeys(one.item for one in found))
    return sorted(found, key=lambda one: order.index(one.item))


def _largest_first(found: list[Compared]) -> list[Compared]:
    most: dict[str, float] = {}
    for one in found:
        most[one.item] = max(most.get(one.item, one.value.value), one.value.value)
    return sorted(found, key=lambda one: (-most[one.item], one.item))

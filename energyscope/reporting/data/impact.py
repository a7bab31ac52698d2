"""What the components are worth to the predictions: by kind, by layer and component, by head, and together."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.impact.methods import PREDICT, is_sensitivity
from energyscope.relating.joint import is_joint
from energyscope.reporting.data.cascade import Cascade, cascades
from energyscope.reporting.data.impact_tables import method_words, predictor_table, side_by_side
from energyscope.reporting.data.impact_words import method_title, metric_title, value_text
from energyscope.reporting.data.invalid import InvalidGroup, invalid_groups
from energyscope.reporting.data.joint import JointData, joint_data
from energyscope.reporting.figure import Table
from energyscope.runs.intervals import Interval, finite, interval

if TYPE_CHECKING:
    import pandas as pd

    from energyscope.runs.tree import EnergyTree

__all__ = ["ImpactData", "ImpactPoint", "KindImpact", "impact_data", "method_title", "metric_title", "value_text"]

HEAD_KINDS = ("attention.head", "attention.kv_group")
_CHARTED = ("kl", "perplexity_difference", "accuracy_difference", "top1_agreement")


@dataclass(frozen=True)
class ImpactPoint:
    """One change of one component, and what it did; ``row`` names the component within its layer."""

    component: str
    kind: str
    layer: int | None
    row: str
    method: str
    metric: str
    value: Interval


@dataclass(frozen=True)
class KindImpact:
    """The mean impact over a kind's components; ``low`` and ``high`` are its smallest and largest component."""

    kind: str
    method: str
    metric: str
    mean: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class ImpactData:
    """What the impact section shows. Invalid rows are in none of the values; ``invalid`` groups them by reason.

    ``points`` are of components changed by themselves; heads, joint removals and predictors are apart.
    ``examples`` is the largest number over which a value was taken, ``fewest`` the smallest.
    """

    points: list[ImpactPoint]
    kinds: list[KindImpact]
    metrics: list[str]
    methods: list[str]
    heads: list[ImpactPoint]
    predictors: list[ImpactPoint]
    cascades: list[Cascade]
    joint: JointData
    invalid: list[InvalidGroup]
    invalid_rows: int
    examples: int | None
    fewest: int | None

    @property
    def removals(self) -> list[str]:
        """The methods whose impact is criticality."""
        return [method for method in self.methods if not is_sensitivity(method)]

    @property
    def quantizations(self) -> list[str]:
        """The methods whose impact is sensitivity."""
        return [method for method in self.methods if is_sensitivity(method)]

    @property
    def removal(self) -> str | None:
        """The removal that is shown by layer: the first that every component can have, if there is one."""
        return next((method for method in self.removals if method != "skip"), next(iter(self.removals), None))

    @property
    def quantization(self) -> str | None:
        """The quantization that is shown by layer: the first that was measured."""
        return next(iter(self.quantizations), None)

    @property
    def removal_words(self) -> list[tuple[str, str]]:
        """What each removal is called and does."""
        return method_words(self.removals)

    @property
    def quantization_words(self) -> list[tuple[str, str]]:
        """What each quantization is called and does."""
        return method_words(self.quantizations)

    @property
    def removal_table(self) -> Table | None:
        """The removals side by side, by kind."""
        return side_by_side(self, self.removals)

    @property
    def quantization_table(self) -> Table | None:
        """The quantizations side by side, by kind."""
        return side_by_side(self, self.quantizations)

    @property
    def predictor_table(self) -> Table | None:
        """Cheap predictors beside the measured impact."""
        return predictor_table(self)

    def of_metric(self, metric: str) -> list[KindImpact]:
        """Return the kinds' means of one metric."""
        return [entry for entry in self.kinds if entry.metric == metric]

    def chosen(self, method: str, metric: str) -> list[ImpactPoint]:
        """Return the components' impacts by one method and metric."""
        return [point for point in self.points if (point.method, point.metric) == (method, metric)]


def impact_data(frame: pd.DataFrame, tree: EnergyTree | None) -> ImpactData:
    """Gather the impact section; ``tree`` names and orders the components as the energy charts do."""
    rows = [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]
    single = [row for row in rows if not is_joint(str(row["component"]))]
    labels = {**_own_labels(single), **_labels(tree)}
    found = [point for row in single if (point := _point(row, labels)) is not None]
    measured = [point for point in found if point.method != PREDICT]
    points = _in_order([point for point in measured if point.kind not in HEAD_KINDS], tree)
    metrics = [metric for metric in _CHARTED if any(point.metric == metric for point in points)]
    methods = list(dict.fromkeys(point.method for point in measured if point.kind not in HEAD_KINDS))
    sizes = [
        int(size) for row in rows if row["method"] != PREDICT and (size := finite(row["examples"])) is not None
    ]
    invalid = invalid_groups([row for row in rows if not truth(row["valid"])])
    return ImpactData(
        points=points,
        kinds=_by_kind(points, metrics, methods),
        metrics=metrics,
        methods=methods,
        heads=[point for point in measured if point.kind in HEAD_KINDS],
        predictors=[point for point in found if point.method == PREDICT],
        cascades=cascades([(p.component, p.kind, p.method, p.metric, p.value) for p in points]),
        joint=joint_data(frame, labels),
        invalid=invalid,
        invalid_rows=sum(group.count for group in invalid),
        examples=max(sizes, default=None),
        fewest=min(sizes, default=None),
    )


def _point(row: dict[str, Any], labels: dict[str, str]) -> ImpactPoint | None:
    value = interval(row["value"], row["ci_low"], row["ci_high"])
    if value is None or not truth(row["valid"]):
        return None
    layer, name = finite(row["layer"]), str(row["component"])
    return ImpactPoint(
        component=name,
        kind=str(row["kind"]),
        layer=None if layer is None else int(layer),
        row=labels.get(name, str(row["kind"])),
        method=str(row["method"]),
        metric=str(row["metric"]),
        value=value,
    )


def truth(cell: object) -> bool:
    """Read a boolean cell of a table, which may come back as text or as a number."""
    return str(cell).strip().lower() in {"true", "1", "1.0"}


def _labels(tree: EnergyTree | None) -> dict[str, str]:
    from energyscope.reporting.data.energy import row_labels

    nodes = [node for node in tree.nodes if node.layer is not None] if tree else []
    labels = row_labels(nodes)
    return {node.name: labels[node.group] for node in nodes}


def _own_labels(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Name components that the energy table may lack: the kind, with the name where a layer has several of it."""
    groups: dict[str, tuple[str, str]] = {}
    for row in rows:
        layer, name = finite(row["layer"]), str(row["component"])
        if layer is not None:
            groups[name] = (re.sub(rf"(?<![^.]){int(layer)}(?![^.])", "{layer}", name, count=1), str(row["kind"]))
    kinds = Counter(kind for _, kind in set(groups.values()))
    return {
        name: kind if kinds[kind] == 1 else f"{kind} ({group.partition('{layer}.')[2] or group})"
        for name, (group, kind) in groups.items()
    }


def _in_order(points: list[ImpactPoint], tree: EnergyTree | None) -> list[ImpactPoint]:
    """Sort as the tree does: an adaptive stage finishes the clear cases first."""
    place = {node.name: index for index, node in enumerate(tree.nodes)} if tree else {}
    return sorted(points, key=lambda point: place.get(point.component, len(place)))


def _by_kind(points: list[ImpactPoint], metrics: list[str], methods: list[str]) -> list[KindImpact]:
    """Average by kind; the kinds in the order of the first method's first metric, largest first."""
    found = []
    for metric in metrics:
        for method in methods:
            grouped: dict[str, list[float]] = {}
            for point in points:
                if (point.metric, point.method) == (metric, method):
                    grouped.setdefault(point.kind, []).append(point.value.value)
            found += [
                KindImpact(kind, method, metric, sum(values) / len(values), min(values), max(values), len(values))
                for kind, values in grouped.items()
            ]
    rank: dict[str, float] = {}
    for entry in found:
        rank.setdefault(entry.kind, entry.mean)
    return sorted(found, key=lambda entry: -rank[entry.kind])

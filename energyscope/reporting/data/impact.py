"""What the components are worth to the predictions: by kind, and by layer and component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.reporting import text
from energyscope.runs.intervals import Interval, finite, interval

if TYPE_CHECKING:
    import pandas as pd

    from energyscope.runs.tree import EnergyTree

METRIC_TITLES = {
    "kl": "KL divergence of the outputs (nats)",
    "perplexity_difference": "Perplexity difference (changed - original)",
    "accuracy_difference": "Accuracy difference (changed - original)",
    "top1_agreement": "Top-1 agreement (share of predictions that stay)",
    "output_change": "Relative change of the component's own output",
}
METHOD_TITLES = {"zero": "zero ablation", "mean": "mean ablation"}
_CHARTED = ("kl", "perplexity_difference", "accuracy_difference", "top1_agreement")


@dataclass(frozen=True)
class ImpactPoint:
    """One change of one component, and what it did."""

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
    """What the impact section shows; invalid ablations are counted and not drawn."""

    points: list[ImpactPoint]
    kinds: list[KindImpact]
    metrics: list[str]
    methods: list[str]
    invalid: list[str]
    examples: int | None

    def of_metric(self, metric: str) -> list[KindImpact]:
        """Return the kinds' means of one metric."""
        return [entry for entry in self.kinds if entry.metric == metric]


def impact_data(frame: pd.DataFrame, tree: EnergyTree | None) -> ImpactData:
    """Gather the impact section; ``tree`` names the components as the energy charts do."""
    rows = [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]
    labels = _labels(tree)
    points = [point for row in rows if (point := _point(row, labels)) is not None]
    metrics = [metric for metric in _CHARTED if any(point.metric == metric for point in points)]
    methods = list(dict.fromkeys(point.method for point in points))
    examples = [number for row in rows if (number := finite(row["examples"])) is not None]
    return ImpactData(
        points=points,
        kinds=_by_kind(points, metrics, methods),
        metrics=metrics,
        methods=methods,
        invalid=_invalid(rows),
        examples=int(max(examples)) if examples else None,
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


def _invalid(rows: list[dict[str, Any]]) -> list[str]:
    """Say which ablations were invalid, once for each component and method."""
    found: dict[str, str] = {}
    for row in rows:
        if not truth(row["valid"]):
            reason = f": {row['reasons']}" if row.get("reasons") else ""
            found.setdefault(f"{row['component']} ({method_title(str(row['method']))})", reason)
    return [name + reason for name, reason in found.items()]


def metric_title(metric: str) -> str:
    """Return what a metric is called in titles and on axes."""
    return METRIC_TITLES.get(metric, metric.replace("_", " "))


def method_title(method: str) -> str:
    """Return what a method is called in legends and tables."""
    return METHOD_TITLES.get(method, method.replace("_", " "))


def value_text(value: float | None, metric: str) -> str:
    """Write a value of a metric: shares as percentages, the rest as numbers."""
    if value is None:
        return text.UNKNOWN
    if metric in {"top1_agreement", "accuracy_difference"}:
        return text.percent(value)
    return text.number(value)

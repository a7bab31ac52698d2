"""Tables beside the impact charts: methods side by side, what they do, and cheap predictors of impact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from energyscope.reporting import text
from energyscope.reporting.data.impact_words import METHOD_WORDS, limited_text, method_title, value_text
from energyscope.reporting.figure import Table

if TYPE_CHECKING:
    from energyscope.reporting.data.impact import ImpactData, ImpactPoint

MOST_PREDICTED = 40
DASH = "\u2013"


def method_words(methods: list[str]) -> list[tuple[str, str]]:
    """Return what each method is called and what it does."""
    return [(method_title(method), METHOD_WORDS.get(method, "a method of another version")) for method in methods]


def side_by_side(data: ImpactData, methods: list[str]) -> Table | None:
    """Return each kind's mean of the first metric under every method, None where there are no two to compare."""
    if len(methods) < 2 or not data.metrics:
        return None
    metric = data.metrics[0]
    entries = [entry for entry in data.of_metric(metric) if entry.method in methods]
    means = {(entry.kind, entry.method): value_text(entry.mean, metric) for entry in entries}
    kinds = dict.fromkeys(entry.kind for entry in entries)
    return Table(
        ["kind", *map(method_title, methods)],
        [[kind, *(means.get((kind, method), DASH) for method in methods)] for kind in kinds],
    )


def predictor_table(data: ImpactData) -> Table | None:
    """Return the predictors of the components with the largest measured impact, beside that impact.

    At most `MOST_PREDICTED` rows: all are in the run's table. None where nothing was predicted.
    """
    if not data.predictors or not data.metrics:
        return None
    methods = [method for method in (data.removal, data.quantization) if method is not None]
    impacts = {method: {p.component: p for p in data.chosen(method, data.metrics[0])} for method in methods}
    predicted: dict[str, dict[str, ImpactPoint]] = {}
    for point in data.predictors:
        predicted.setdefault(point.component, {})[point.metric] = point
    names = list(dict.fromkeys(point.metric for point in data.predictors))
    first = impacts[methods[0]] if methods else {}
    order = sorted(predicted, key=lambda name: -first[name].value.value if name in first else float("inf"))
    rows = [
        [
            component,
            *(_cell(impacts[method].get(component), limits=True) for method in methods),
            *(_cell(predicted[component].get(name)) for name in names),
        ]
        for component in order[:MOST_PREDICTED]
    ]
    measured = [f"measured, {method_title(method)}" for method in methods]
    return Table(["component", *measured, *(name.replace("_", " ") for name in names)], rows)


def _cell(point: ImpactPoint | None, *, limits: bool = False) -> str:
    if point is None:
        return DASH
    return limited_text(point.value, point.metric) if limits else text.number(point.value.value)

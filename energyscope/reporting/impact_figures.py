"""The figures on what components are worth: criticality, sensitivity, cascades, heads, and joint removals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from energyscope.reporting import text
from energyscope.reporting.charts import impact
from energyscope.reporting.data.cascade import Cascade
from energyscope.reporting.data.impact import HEAD_KINDS, ImpactData, ImpactPoint
from energyscope.reporting.data.impact_words import limited_text, method_title, metric_title, value_text
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.joint_figures import joint_figures

CRITICALITY, SENSITIVITY = "impact", "sensitivity"  # the parts of the section, and what their figures' names say
TITLES = {CRITICALITY: "Criticality", SENSITIVITY: "Sensitivity"}
DASH = "\u2013"


def impact_figures(data: ImpactData | None) -> list[Figure]:
    """Draw what the impact section has values for, in the order of the page."""
    if data is None:
        return []
    return [
        *_family(data, CRITICALITY, data.removals, data.removal),
        *_heads(data),
        *_cascade(data.cascades, CRITICALITY, data.removals),
        *joint_figures(data.joint),
        *_family(data, SENSITIVITY, data.quantizations, data.quantization),
        *_cascade(data.cascades, SENSITIVITY, data.quantizations),
    ]


def _family(data: ImpactData, family: str, methods: list[str], method: str | None) -> list[Figure]:
    """Draw the kinds under a family's methods, and the layers under the one that is shown for it."""
    metrics = [metric for metric in data.metrics if metric != "top1_agreement"]
    found = [_by_kind(data, family, metric, methods) for metric in metrics if _has(data, metric, methods)]
    if method is not None and metrics:
        points = [point for point in data.chosen(method, metrics[0]) if point.layer is not None]
        found += [_heatmap(points, family, method, metrics[0])] if points else []
    return found


def _has(data: ImpactData, metric: str, methods: Sequence[str]) -> bool:
    return any(entry.method in methods for entry in data.of_metric(metric))


def _by_kind(data: ImpactData, family: str, metric: str, methods: list[str]) -> Figure:
    entries = [entry for entry in data.of_metric(metric) if entry.method in methods]
    rows = [
        [entry.kind, method_title(entry.method), value_text(entry.mean, metric), value_text(entry.low, metric),
         value_text(entry.high, metric), str(entry.count)]
        for entry in entries
    ]  # fmt: skip
    first = entries[0]
    summary = (
        f"{metric_title(metric)} by kind of component; the largest mean is {first.kind}, "
        f"{method_title(first.method)}: {value_text(first.mean, metric)}"
    )
    left_out = [method_title(method) for method in methods[impact.MOST_METHODS :]]
    return Figure(
        name=f"{family}-{metric}".replace("_", "-"),
        section=family,
        title=f"{TITLES[family]} by kind: {metric_title(metric)}",
        caption="Dots are means over the components of a kind, lines reach from its smallest to its largest "
        "component. Blocks and the parts inside them are both shown, so kinds do not add up.",
        summary=summary,
        chart=impact.by_kind(data, metric, summary, methods),
        table=Table(["kind", "method", "mean", "smallest", "largest", "components"], rows),
        notes=[f"In the tables only: {text.listed(left_out, len(left_out))}."] if left_out else [],
    )


def _heatmap(points: list[ImpactPoint], family: str, method: str, metric: str) -> Figure:
    table = by_row_and_column(
        ((point.row, point.layer or 0, limited_text(point.value, metric)) for point in points),
        "component",
        "layer",
    )
    largest = max(points, key=lambda point: point.value.value)
    summary = (
        f"{metric_title(metric)} of each component of each layer under {method_title(method)}; the largest is "
        f"{largest.component} with {limited_text(largest.value, metric)}"
    )
    return Figure(
        name=f"{family}-heatmap-{method}",
        section=family,
        title=f"{TITLES[family]} by layer and component: {method_title(method)}",
        caption=f"{metric_title(metric)}.{_colours_said(points)} A gap is a value that is missing, not a zero.",
        summary=summary,
        chart=impact.heatmap(points, metric, summary),
        table=table,
    )


def _colours_said(points: list[ImpactPoint]) -> str:
    from energyscope.reporting.charts.theme import magnitude

    linear = magnitude([point.value.value for point in points]).type == "linear"
    return "" if linear else " Colours are logarithmic, so that small impacts can be told apart."


def _heads(data: ImpactData) -> list[Figure]:
    """Draw the heads and the groups of heads under the first method by which they were removed."""
    found = []
    for kind in HEAD_KINDS:
        points = [point for point in data.heads if point.kind == kind and point.metric in data.metrics[:1]]
        points = [point for point in points if point.method == points[0].method and point.layer is not None]
        found += [_head_map(points)] if points else []
    return found


def _head_map(points: list[ImpactPoint]) -> Figure:
    each = points[0].kind == HEAD_KINDS[0]
    method, metric = points[0].method, points[0].metric
    largest = max(points, key=lambda point: point.value.value)
    words = "attention head" if each else "group of heads that share keys and values"
    summary = (
        f"{metric_title(metric)} of each {words} under {method_title(method)}; the largest is {largest.component} "
        f"with {limited_text(largest.value, metric)}"
    )
    return Figure(
        name="impact-heads" if each else "impact-kv-groups",
        section=CRITICALITY,
        title=f"Criticality by {words}: {method_title(method)}",
        caption=f"{metric_title(metric)} when one {words} at a time is removed.{_colours_said(points)}",
        summary=summary,
        chart=impact.heads(points, metric, summary),
        table=by_row_and_column(
            ((str(impact.head_number(p)), p.layer or 0, limited_text(p.value, metric)) for p in points),
            "head" if each else "group",
            "layer",
        ),
    )


def _cascade(found: list[Cascade], family: str, methods: list[str]) -> list[Figure]:
    """Draw own against final change under the one of the methods by which own changes differ, if there is one."""
    chosen = [item for item in found if item.method in methods]
    if not chosen:
        return []
    method = method_title(chosen[0].method)
    largest = max(chosen, key=lambda item: item.end.value)
    summary = (
        f"Relative change of each component's own output against the KL divergence at the model's end, under "
        f"{method}; the largest effect is {largest.component}'s: own output changed by "
        f"{value_text(largest.own, 'output_change')}, KL {limited_text(largest.end, 'kl')}"
    )
    rows = [
        [item.component, value_text(item.own, "output_change"), limited_text(item.end, "kl")] for item in chosen
    ]
    return [
        Figure(
            name=f"{family}-cascade-{chosen[0].method}",
            section=family,
            title=f"{TITLES[family]} at the component and at the model's end: {method}",
            caption="Across: how far the component's own output changed, relative to itself (1 is as large as the "
            "output; without an interval, since it is one ratio over all data). Up: what that did to the model's "
            "output, with 95 % intervals. High up and to the left, what follows a component amplifies its change; "
            "low and to the right, it absorbs it.",
            summary=summary,
            chart=impact.cascade(chosen, summary),
            table=Table(["component", "own output changed by", "KL at the end (nats)"], rows),
        )
    ]


def by_row_and_column(cells: Iterable[tuple[str, int, str]], row_word: str, column_word: str) -> Table:
    """Lay out (row, column, words) as a heat map does; a cell that nobody names gets a dash."""
    found: dict[str, dict[int, str]] = {}
    for row, column, content in cells:
        found.setdefault(row, {})[column] = content
    columns = sorted({column for row in found.values() for column in row})
    return Table(
        [row_word, *(f"{column_word} {column}" for column in columns)],
        [[row, *(of.get(column, DASH) for column in columns)] for row, of in found.items()],
    )

"""What the components are worth, for the terminal: criticality beside sensitivity, and joint removals."""

from __future__ import annotations

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.impact.methods import is_sensitivity
from energyscope.reporting import text
from energyscope.reporting.data.impact import ImpactData, KindImpact
from energyscope.reporting.data.impact_words import method_title, metric_title, value_text

MOST_KINDS, MOST_REASONS = 12, 3


def impact_summary(impact: ImpactData) -> list[RenderableType]:
    """Return a table of the kinds, and sentences on joint removals and on what has no value.

    A column for criticality and one for sensitivity, each by the method that the report's heat map shows.
    """
    methods = [method for method in (impact.removal, impact.quantization) if method is not None]
    metric = next(iter(impact.metrics), None)
    if metric is None or not methods:
        return [Text(f"- {sentence}", style="dim") for sentence in _without_value(impact)]
    entries = {(entry.kind, entry.method): entry for entry in impact.of_metric(metric)}
    kinds = list(dict.fromkeys(kind for kind, method in entries if method in methods))
    title = Text(f"What it is worth: {metric_title(metric)}")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("kind")
    for method in methods:
        family = "sensitivity" if is_sensitivity(method) else "criticality"
        table.add_column(f"{family}\n{method_title(method)}\nmean (largest)", justify="right")
    for kind in kinds[:MOST_KINDS]:
        table.add_row(Text(kind), *(_worth(entries.get((kind, method)), metric) for method in methods))
    if len(kinds) > MOST_KINDS:
        table.caption = f"and {len(kinds) - MOST_KINDS} more in the report"
    said = [*impact.joint.said, *_without_value(impact)]
    return [table, *(Text(f"- {sentence}", style="dim") for sentence in said)]


def _worth(entry: KindImpact | None, metric: str) -> str:
    if entry is None:
        return "no value"
    mean = value_text(entry.mean, metric)
    return mean if entry.count == 1 else f"{mean} ({value_text(entry.high, metric)})"


def _without_value(impact: ImpactData) -> list[str]:
    """Say how many rows of the impact table have no value, with the most frequent reasons."""
    if not impact.invalid:
        return []
    more = len(impact.invalid) - MOST_REASONS
    tail = f"; and {text.count(more, 'more reason')}" if more > 0 else ""
    return [f"Without a value: {'; '.join(impact.invalid[:MOST_REASONS])}{tail}."]

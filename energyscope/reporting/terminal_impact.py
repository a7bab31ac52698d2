"""What the components are worth, for the terminal: criticality beside sensitivity, and joint removals."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.impact.methods import is_sensitivity
from energyscope.reporting import text
from energyscope.reporting.data.impact import ImpactData, KindImpact
from energyscope.reporting.data.impact_words import method_title, metric_title, value_text

MOST_KINDS, MOST_REASONS = 12, 3
DASH = "\u2013"
NO_VALUE = "no value"


def impact_summary(impact: ImpactData) -> list[RenderableType]:
    """Return a table of the kinds, and sentences on joint removals and on what has no value.

    A column for criticality and one for sensitivity, each by the method that the report's heat map shows.
    """
    methods = [method for method in (impact.removal, impact.quantization) if method is not None]
    metric = next(iter(impact.metrics), None)
    if metric is None or not methods:
        return [Text(f"- {sentence}", style="dim") for sentence in _without_value(impact)]
    rows = worth_rows(impact, metric, methods)
    title = Text(f"What it is worth: {metric_title(metric)}")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("kind")
    for method in methods:
        family = "sensitivity" if is_sensitivity(method) else "criticality"
        table.add_column(f"{family}\n{method_title(method)}\nmean (largest)", justify="right")
    for kind, *cells in rows[:MOST_KINDS]:
        table.add_row(Text(kind), *cells)
    if len(rows) > MOST_KINDS:
        table.caption = f"and {len(rows) - MOST_KINDS} more in the report"
    said = [*impact.joint.said, *not_applicable(rows[:MOST_KINDS]), *_without_value(impact)]
    return [table, *(Text(f"- {sentence}", style="dim") for sentence in said)]


def worth_rows(impact: ImpactData, metric: str, methods: Sequence[str]) -> list[list[str]]:
    """Return each kind with its mean (and largest) value by each method.

    A dash stands only where the rows themselves say that there is no matrix to quantize.
    """
    entries = {(one.kind, one.method): one for one in impact.of_metric(metric) if one.method in methods}
    bare = _unquantizable(impact)
    return [
        [kind, *(_worth(entries.get((kind, method)), metric, kind in bare and is_sensitivity(method))
                 for method in methods)]
        for kind in dict.fromkeys(kind for kind, _ in entries)
    ]  # fmt: skip


def _worth(entry: KindImpact | None, metric: str, bare: bool) -> str:
    if entry is None:
        return DASH if bare else NO_VALUE
    mean = value_text(entry.mean, metric)
    return mean if entry.count == 1 else f"{mean} ({value_text(entry.high, metric)})"


def _unquantizable(impact: ImpactData) -> set[str]:
    """Return the kinds that have nothing to quantize."""
    return {kind for group in impact.invalid if group.unquantizable for kind in group.kinds}


def reasons_without_value(impact: ImpactData) -> list[str]:
    """Return why rows have no value that could have had one; a norm without a matrix is nothing that failed."""
    return [group.sentence for group in impact.invalid if group.applicable]


def not_applicable(rows: Sequence[Sequence[str]]) -> list[str]:
    """Say what the dashes in the rows of `worth_rows` mean."""
    return (
        [f"{DASH} stands where there is no weight matrix to quantize."] if any(DASH in row for row in rows) else []
    )


def _without_value(impact: ImpactData) -> list[str]:
    """Say how many rows of the impact table have no value, with the most frequent reasons."""
    found = reasons_without_value(impact)
    if not found:
        return []
    more = len(found) - MOST_REASONS
    tail = f"; and {text.count(more, 'more reason')}" if more > 0 else ""
    return [f"Without a value: {'; '.join(found[:MOST_REASONS])}{tail}."]

"""The figures of what launching from the host costs, one for each moment that has both executions."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.charts import launching as charts
from energyscope.reporting.charts.grades import dagger
from energyscope.reporting.data.execution import CUDA_GRAPH, EAGER, name_of
from energyscope.reporting.data.launching import Launched, Launching
from energyscope.reporting.data.work import parts_said
from energyscope.reporting.figure import Figure, Table
from energyscope.runs.intervals import Interval

SECTION = "launching"
_WEAK = "\u2020 Below grade C, hollow where all of it is, not to be relied on: {}."
_LEFT_OUT = "Not set side by side, since some value is missing in one execution or both: {}."


def launching_figures(found: Sequence[Launching], word: str) -> list[Figure]:
    """Draw the kinds of each moment in both executions; a moment of which only the model was measured has none."""
    return [_figure(one, number, word) for number, one in enumerate(found) if one.kinds]


def _figure(one: Launching, number: int, word: str) -> Figure:
    rows = [*one.kinds, one.whole]
    marked = [one.whole, *one.kinds]
    weak = [f"{row.kind} ({' and '.join(map(name_of, row.invalid))})" for row in marked if row.invalid]
    summary = f"{word}, eager against CUDA graph, {one.moment}: " + "; ".join(
        f"{row.kind} {text.quantity(row.eager.value, 'mJ')} against {text.quantity(row.graph.value, 'mJ')}"
        for row in rows[:6]
    )
    return Figure(
        name=f"launching-{number}",
        section=SECTION,
        title=f"{word} by kind, eager and in a CUDA graph: {one.moment}",
        caption=f"Leaf components added up by kind, then glue and what is unexplained.{_split(one)} The "
        "percentage is the graph's share of the eager energy. Whiskers are 95 % intervals.",
        summary=summary,
        chart=charts.by_execution(one.kinds, summary, word, "forward pass" if one.unit == "pass" else "step"),
        table=Table(["kind", "eager", "CUDA graph", "graph / eager"], [_row(row) for row in rows]),
        notes=[
            *([_WEAK.format(text.listed(weak, len(weak)))] if weak else []),
            *([_LEFT_OUT.format(text.listed(list(one.left_out)))] if one.left_out else []),
        ],
    )


def _split(one: Launching) -> str:
    """Say what the parts of a bar are, and which bars have none."""
    whole = [(row.kind, [name for name in (EAGER, CUDA_GRAPH) if row.work(name) is None]) for row in one.kinds]
    if all(len(lacking) == 2 for _, lacking in whole):
        return ""
    named = [
        kind if len(lacking) == 2 else f"{kind} ({name_of(lacking[0])})" for kind, lacking in whole if lacking
    ]
    return f" {parts_said(named)}"


def _row(row: Launched) -> list[str]:
    return [
        row.kind,
        _marked(row, EAGER, row.eager),
        _marked(row, CUDA_GRAPH, row.graph),
        text.percent_with_limits(row.share) + dagger(weak=bool(row.invalid)),
    ]


def _marked(row: Launched, execution: str, item: Interval) -> str:
    return text.with_limits(item, "mJ") + dagger(weak=execution in row.invalid)

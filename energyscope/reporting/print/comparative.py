"""The figure of two runs: shares of energy, impact, precisions, and energy against impact, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from energyscope.impact.methods import REMOVALS
from energyscope.intervals import interval
from energyscope.reasons import join, reason
from energyscope.reporting.charts.bars import dots
from energyscope.reporting.charts.theme import SERIES, title_of
from energyscope.reporting.print.sheets import Panel, Sheet, in_rows, notes
from energyscope.reporting.run.changes import benchmark_table
from energyscope.reporting.run.parts import blocks
from energyscope.reporting.run.quality import kinds_table
from energyscope.reporting.run.report import Report, precision_name
from energyscope.reporting.run.statistics import method_name
from energyscope.reporting.table import Column, Table

STEM = "comparative_analysis"
_MARKS = (
    "Lines: 95 % intervals. Hollow: energy known to no better than 10 %. Dashed: no change, or no correlation."
)
Both = tuple[Report, Report]


@dataclass(frozen=True)
class ComparedPart:
    """What is set side by side: a table of each run, of which a chart shows ``value`` by its first column.

    ``reference`` is where a dashed line stands.
    """

    title: str
    value: str
    tables: Callable[[Both], Iterable[Table]]
    reference: float | None = None
    log: bool | None = None


def comparative(first: Report, second: Report) -> Sheet:
    """Return the comparison of two runs without what neither has; its reason names what one of them lacks."""
    both = (first, second)
    names = _names(both)
    panels = []
    missing: dict[str, list[str]] = {name: [] for name in names}
    for part in PARTS:
        tables = [_known(table, part.value) for table in part.tables(both)]
        for name, table in zip(names, tables, strict=True):
            missing[name] += [] if table else [part.title]
        if any(tables):
            panels.append(_panel(part, tables, names))
    if not panels:
        return Sheet(STEM, reason=reason("nothing-in-common"))
    left_out = [
        reason("without-panels", panels=titles, why=reason("not-in-run", run=name))
        for name, titles in missing.items()
        if titles
    ]
    notes = [*_notes(both, names), _MARKS]
    return Sheet(STEM, list(in_rows(panels, 2)), notes, join(left_out) or None, shared=True)


def _panel(part: ComparedPart, tables: Sequence[Table], names: Sequence[str]) -> Panel:
    """Draw the rows of both tables in one chart, each run in its colour."""
    rows = [
        {**row, "series": name, "colour": colour}
        for name, colour, table in zip(names, SERIES, tables, strict=False)
        for row in table.rows
    ]
    order = list(dict.fromkeys(row["part"] for row in rows))
    rows.sort(key=lambda row: order.index(row["part"]))
    table = next(table for table in tables if table)
    columns = [table.column("part"), Column("series", "Run"), table.column(part.value)]
    chart = dots(Table(columns, rows), "part", part.value, series="series", log=part.log, reference=part.reference)
    return Panel(part.title, chart)


def _known(table: Table, value: str) -> Table:
    return replace(table, rows=[row for row in table.rows if row.get(value) is not None])


def _names(both: Both) -> list[str]:
    """Return what tells the runs apart: their models, or their names where the model is the same."""
    runs = [report.run.name for report in both]
    models = [str(report.part("model").get("name") or report.run.name) for report in both]
    names = models if models[0] != models[1] else runs
    return names if names[0] != names[1] else [f"{name} ({at})" for at, name in enumerate(names, 1)]


def _blocks(both: Both) -> Iterator[Table]:
    """Yield the blocks of each run's costliest phase, the same kinds under one name."""
    for report in both:
        table = blocks(report.main.tree, modelled=report.modelled) if report.main else Table([], [])
        yield replace(table, rows=[{**row, "part": title_of(row["kind"])} for row in table.rows])


def _impact(both: Both) -> Iterator[Table]:
    """Yield the mean KL divergence by kind of block under the first removal that the runs share."""
    methods = [set(report.run.impact["method"]) for report in both if report.run.impact is not None]
    shared = [name for name in REMOVALS if methods and all(name in names for names in methods)]
    for report in both:
        impact = report.run.impact
        if impact is None or not shared:
            yield Table([], [])
            continue
        table = kinds_table(impact[impact["method"] == shared[0]], "kl")
        rows = [row for row in table.rows if "." not in row["kind"] and row["kind"] != "layer"]
        column = replace(table.column("value"), title=f"{table.column('value').title}, {method_name(shared[0])}")
        yield Table([table.column("part"), column], rows)


def _precisions(both: Both) -> Iterator[Table]:
    """Yield each benchmark at one shape; ratios of the baseline to itself are left out."""
    for report, shape in zip(both, _shapes(both), strict=True):
        table = benchmark_table(report)
        base = report.benchmark.get("baseline")
        rows = [
            {**row, "part": row["name"]} | ({"ratio": None, "speedup": None} if row["kind"] == base else {})
            for row in table.rows
            if row["shape"] == shape
        ]
        yield Table([Column("part", "Precision"), *table.columns], rows)


def _shapes(both: Both) -> list[str | None]:
    """Return the shape at which each benchmark is shown: the first that both have, else its own first."""
    shapes = [[row["shape"] for row in benchmark_table(report).rows] for report in both]
    common = [shape for shape in shapes[0] if shape in shapes[1]][:1]
    return [next(iter(common or own), None) for own in shapes]


def _notes(both: Both, names: Sequence[str]) -> list[str]:
    """Return the notes of each run, once where both have one, else with the run's name."""
    every = []
    for report, shape in zip(both, _shapes(both), strict=True):
        base = report.benchmark.get("baseline")
        against = f" against {precision_name(base)}" if base else ""
        workload = [f"Energy by block: {report.main.label}."] if report.main else []
        every.append([*notes(report), *workload, *([f"Precisions: {shape} tokens{against}."] if shape else [])])
    common = [note for note in every[0] if note in every[1]]
    own = [f"{name}: {note}" for name, run in zip(names, every, strict=True) for note in run if note not in common]
    return [*common, *own]


def _correlations(both: Both) -> Iterator[Table]:
    """Yield Spearman's coefficient of energy with the KL divergence under each change."""
    for report in both:
        rows = [
            {
                "part": method_name(str(entry["y"]).partition(":")[0]),
                "value": interval(entry.get("value"), entry.get("ci_low"), entry.get("ci_high")),
            }
            for entry in report.correlation.get("correlations") or []
            if (entry.get("x"), entry.get("method")) == ("energy_mj", "spearman")
            and str(entry.get("y")).endswith(":kl")
        ]
        yield Table([Column("part", "Change"), Column("value", "Spearman, energy with KL", "")], rows)


PARTS = (
    ComparedPart("Energy by block", "share", _blocks, log=False),
    ComparedPart("Impact by kind", "value", _impact),
    ComparedPart("Latency by precision", "latency", _precisions),
    ComparedPart("Energy by precision", "energy", _precisions),
    ComparedPart("Speed-up by precision", "speedup", _precisions, 1.0),
    ComparedPart("Energy against the baseline", "ratio", _precisions, 1.0),
    ComparedPart("Energy with impact", "value", _correlations, 0.0, log=False),
)

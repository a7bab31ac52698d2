"""A run in the terminal: how `energyscope run` ends, and what `energyscope show` prints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from energyscope import reasons
from energyscope.errors import UsageError, did_you_mean
from energyscope.intervals import interval
from energyscope.reasons.planning import EXPORTED
from energyscope.reporting.run import page  # noqa: F401 - registers the sections
from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.budget import is_priced
from energyscope.reporting.run.changes import change_table
from energyscope.reporting.run.host import lost, of_generation, of_pass
from energyscope.reporting.run.power_limit import lower_limit_sentence
from energyscope.reporting.run.report import RUN, Report
from energyscope.reporting.section import tables
from energyscope.reporting.table import Column, Table
from energyscope.reporting.terminal_text import Sanitized, print_table, printable, shortened
from energyscope.runs import schema
from energyscope.runs.summary import summary

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from energyscope.runs.store import Run

MOST_LINES = 25
SUMMARY = "summary"
_BLOCKS = ("part", "time", "energy", "share", "work", "idle", "check")
_WORK_BLOCKS = ("part", "work", "work_share", "grade", "check")
_CHANGES = ("change", "phase", "saved", "time", "quality", "confidence")
_SHOWN = {"changes": 14, "benchmark": 14, "phases": 10, "impact-by-kind": 14, "trust": 10, "energy": 10}  # rows


def answer_of(run: Run, width: int) -> RenderableType:
    """Return the answer in at most 25 lines: sentence, breakdown, changes, trust, and where the page is."""
    from rich.console import Group

    answer = Answer(Report(run))
    counts = ((8, 6), (7, 5), (6, 4), (5, 4), (5, 3), (4, 3), (4, 2))
    fewer = ((5, 2), (4, 2), (4, 1), (3, 1), (2, 1))  # without the ranking, of which the page has more
    whole = [*((*count, True) for count in counts), *((*count, False) for count in fewer)]
    drawings = (Group(*_answer(answer, *count, width)) for count in whole)
    return shortened(drawings, width, MOST_LINES)


def _answer(answer: Answer, blocks: int, changes: int, ranked: bool, width: int) -> Iterator[RenderableType]:
    from rich.text import Text

    report = answer.report
    name = str(report.part("model").get("name") or report.run.name)
    chips = Text(printable(name), style="bold")
    for chip in answer.chips:
        chips.append(" \u00b7 ", "dim").append(
            printable(chip.text), "bold yellow" if chip.tone == "warn" else "dim"
        )
    yield chips
    for stage in answer.alerts:
        why = f": {reasons.words(stage['reason'])}" if stage["reason"] else ""
        yield Text(printable(f"{stage['stage']} {stage['how']}{why}"), style="bold yellow")
    yield Text(printable(answer.sentence), style="bold")
    for text in filter(None, (answer.idle, answer.cause)):
        yield Text(printable(text))
    by_work = report.main is not None and report.main.tree.by_work
    breakdown = _columns(answer.breakdown, _WORK_BLOCKS if by_work else _BLOCKS)
    if breakdown:
        rest = [row for row in breakdown.rows if row.get("rest")]  # never left out: they say how well it adds up
        parts = replace(breakdown, rows=breakdown.rows[: len(breakdown.rows) - len(rest)], title="")
        parts = parts.head(max(blocks - len(rest), 1))
        yield replace(parts, rows=[*parts.rows, *rest]).rich(width)
    phase = answer.subject.phase if answer.subject else None
    measured = [change for change in answer.changes if change.phase == phase] or answer.changes
    if measured:
        yield _columns(change_table(measured, report), _CHANGES).head(changes).rich(width)
    if answer.ranking and ranked:
        yield Text(printable(answer.ranking))
    yield Text.assemble(("Can I trust this? ", "bold"), printable(answer.trust))
    for note in map(reasons.read, report.document.get("warnings") or ()):
        if note.code in EXPORTED:
            yield Text(printable(f"{note.words[0].upper()}{note.words[1:]}."), overflow="fold")
    file = report.run.path / schema.REPORT_FILE
    command = f"No page yet: energyscope report {shlex.quote(printable(report.run.path))}"
    where = f"Report: {file}" if file.is_file() else command
    yield Text(printable(where), style="bold", overflow="fold")


def _columns(table: Table, keys: tuple[str, ...]) -> Table:
    return Table([column for column in table.columns if column.key in keys], table.rows, table.title).filled()


def run_tables(run: Run) -> dict[str, Table]:
    """Return every table of a run's page by name."""
    return tables(RUN.shown(Report(run)))


def table_of(run: Run, name: str) -> Table:
    """Return one table of a run's page; the name of one that each phase has does without a single phase's.

    Raises:
        UsageError: it has none of that name; the message names the nearest of those that it has, or all.

    """
    known = run_tables(run)
    of_phases = [table for table in known if table.startswith(f"{name}-")]
    if name not in known and len(of_phases) != 1:
        raise UsageError(f"--table {name} is no table of this run{did_you_mean(name, [SUMMARY, *known])}")
    return known[name] if name in known else known[of_phases[0]]


def plan_of(run: Run, width: int) -> RenderableType:
    """Return the choices of a plan, what else saves energy with it, and what may be tried."""
    from rich.console import Group
    from rich.text import Text

    known = run_tables(run)
    shown = [known[name] for name in ("plan", "plan-levers") if name in known]
    texts = [*(note for table in shown for note in table.notes), lower_limit_sentence(Report(run))]
    return Group(*(table.rich(width) for table in shown), *(Text(printable(text)) for text in texts if text))


def record(run: Run, name: str | None = None) -> Any:
    """Return what JSON holds of a run: its summary with the answer, or one table's rows with raw numbers."""
    if name in {None, SUMMARY}:
        report, every = Report(run), run_tables(run)
        budget = {"budget": every["budget"].records()} if is_priced(report) and "budget" in every else {}
        return {**summary(run), "answer": Answer(report).record(), "tables": list(every), **budget}
    return table_of(run, str(name)).records()


def show(run: Run, console: Console, name: str | None = None) -> None:
    """Print a run's answer and its usual tables, or one whole table, tab-separated where that is no terminal.

    Raises:
        UsageError: there is no table of that name.

    """
    if name not in {None, SUMMARY}:
        print_table(table_of(run, str(name)), console, modelled=run.modelled)
        return
    console.print(Sanitized(answer_of(run, console.width)))
    report = Report(run)
    of_main = of_pass(report, report.main) if report.main else ""
    for text in filter(None, (of_main, of_generation(report), lost(report))):
        console.print(printable(text), style="dim", markup=False)
    if name is None:
        every = run_tables(run)
        shown = {**_SHOWN, "budget": 10} if is_priced(report) else _SHOWN
        for key in (key for key in every if key in shown):
            console.print()
            console.print(Sanitized(every[key].head(shown[key]).filled().rich(console.width)))
        if proposed := lower_limit_sentence(report):
            console.print()
            console.print(printable(proposed), markup=False)
        names = ", ".join(map(printable, every))
        console.print(f"One table whole: energyscope show RUN --table NAME ({names})", style="dim", markup=False)


def trials(run: Run) -> Table:
    """Return every trial of a benchmark."""
    columns = [
        Column("precision", "Precision"),
        Column("batch_size", "Batch", "count", rank=2),
        Column("sequence_length", "Tokens", "count", rank=2),
        Column("trial", "Trial", "count"),
        Column("mean_latency", "Latency", "s"),
        Column("p95_latency", "p95", "s", rank=3),
        Column("throughput", "Throughput", "/s", rank=4),
        Column("mean_power_w", "Power", "W", rank=1),
        Column("energy", "Energy", "mJ", "of one inference"),
        Column("ticks", "Ticks", "count", rank=5),
        Column("reasons", "Reasons", "reasons", rank=6),
    ]
    keys = ("energy_per_inference_mj", "energy_ci_low_mj", "energy_ci_high_mj")
    records = [] if run.trials is None else run.trials.to_dict("records")
    rows = [
        {**{str(key): cell for key, cell in row.items()}, "energy": interval(*map(row.get, keys))}
        for row in records
    ]
    return Table(columns, rows, "Trials")

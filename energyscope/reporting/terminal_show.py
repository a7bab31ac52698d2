"""`energyscope show`: a run's tables, drawn for a terminal or as plain lines for whatever reads a pipe."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from energyscope.errors import UsageError
from energyscope.reporting import terminal_show_sheets as sheets
from energyscope.reporting import terminal_show_stages as stages
from energyscope.reporting.data import ReportData, report_data
from energyscope.reporting.terminal_show_sheets import DASH, WIDE, Sheet
from energyscope.reporting.terminal_text import printable
from energyscope.runs import schema
from energyscope.runs.summary import summary

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, RenderableType

    from energyscope.runs.store import Run

MOST_COMPONENTS = 10
_WHOLE: dict[str, Callable[[Run, ReportData], list[Sheet]]] = {
    "summary": lambda _, data: [sheets.summary_sheet(data)],
    "energy": sheets.energy_sheets,
    "kinds": lambda _, data: sheets.kinds_sheets(data),
    "impact": lambda _, data: [stages.impact_sheet(data, every=True)],
    "advice": lambda _, data: [stages.advice_sheet(data)],
    "benchmark": lambda _, data: [stages.benchmark_sheet(data)],
    "generation": lambda _, data: [stages.generation_sheet(data)],
}
TABLES = tuple(_WHOLE)


def run_sheets(run: Run, table: str | None = None) -> list[Sheet]:
    """Return one whole table of a run, or without a name the usual ones: those whose stages ran, shortened.

    Raises:
        UsageError: there is no table of that name.

    """
    check_table(table)
    data = report_data(run)
    if table is not None:
        return _WHOLE[table](run, data)
    found = [sheets.summary_sheet(data)]
    found += [stages.benchmark_sheet(data)] if data.benchmark else []
    found += [stages.generation_sheet(data)] if data.generation else []
    found += [*sheets.kinds_sheets(data), *sheets.energy_sheets(run, data, MOST_COMPONENTS)]
    return [*found, stages.impact_sheet(data), stages.advice_sheet(data)]


def check_table(table: str | None) -> None:
    """Refuse a table that there is not.

    Raises:
        UsageError: with the names of those that there are.

    """
    if table is not None and table not in TABLES:
        raise UsageError(f"--table {table!r} is none of {', '.join(TABLES)}")


def run_record(run: Run, table: str | None = None) -> Any:
    """Return what JSON holds of a run: one table's rows with raw numbers, or the summary with the usual tables.

    Units are in the names, as in the run's files; what is unknown is None. A stage that left nothing has no rows.

    Raises:
        UsageError: there is no table of that name.

    """
    check_table(table)
    data = report_data(run)
    if table is None:
        return {
            **summary(run),
            **{name: _record(run, data, name) for name in ("kinds", "energy", "impact", "advice")},
        }
    return _record(run, data, table)


def _record(run: Run, data: ReportData, table: str) -> Any:
    if table in {"energy", "impact", "benchmark"}:
        return _rows({"energy": run.energy, "impact": run.impact, "benchmark": run.trials}[table])
    if table == "summary":
        return summary(run)
    if table == "kinds":
        return [asdict(entry) for entry in data.energy.kinds] if data.energy else []
    if table == "generation":
        return run.generation or {}
    advice = (run.correlation or {}).get("advice") or []
    return {
        "settings": [asdict(one) for one in (data.choices.advice if data.choices else [])],
        "components": advice,
    }


def _rows(frame: pd.DataFrame | None) -> list[dict[str, Any]]:
    if frame is None:
        return []
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=15))
    return rows


def drawn(sheet: Sheet, width: int) -> RenderableType:
    """Return a table for a terminal of some width; texts that do not fit are folded, numbers are not."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    warnings = [Text(printable(warning), style="bold yellow") for warning in sheet.warnings]
    notes = [Text(f"- {printable(note)}", style="dim" if sheet.rows else "") for note in sheet.notes]
    title = Text(printable(sheet.title), style="italic")
    if not sheet.rows:
        return Group(*warnings, title, *notes, "")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown = [index for index in range(len(sheet.heads)) if _is_drawn(sheet, index, width)]
    for index in shown:
        right = sheet.heads[index].right
        table.add_column(
            sheet.heads[index].title, justify="right" if right else "left", no_wrap=right, overflow="fold"
        )
    for row in sheet.rows:
        table.add_row(*(_cell(sheet, row, index) for index in shown))
    return Group(*warnings, title, table, *notes, "")  # a table's own title is folded where the table is narrow


def _is_drawn(sheet: Sheet, index: int, width: int) -> bool:
    """Whether a column has room, and anything to say beyond what 80 columns have room for."""
    head = sheet.heads[index]
    return not head.wide or (width >= WIDE and any(row[index] != DASH for row in sheet.rows))


def _cell(sheet: Sheet, row: Sequence[str], index: int) -> RenderableType:
    from rich.text import Text

    from energyscope.reporting.terminal_text import Dotted

    if sheet.heads[index].title != "component":
        return Text(printable(row[index]))
    name, _, said = row[index].partition(" (")
    return Dotted(name, f"({said}" if said else "")


def plain_lines(sheet: Sheet) -> list[str]:
    """Return a line for each row, its cells between tabs, below a line with the columns' names.

    The title and the sentences begin with ``#``. No line is broken, whatever its length.
    """
    lines = [f"# {printable(said)}" for said in (sheet.title, *sheet.warnings)]
    lines += ["\t".join(head.title for head in sheet.heads)] if sheet.rows else []
    lines += ["\t".join(printable(cell) for cell in row) for row in sheet.rows]
    return [*lines, *(f"# {printable(note)}" for note in sheet.notes)]


def show(run: Run, console: Console, table: str | None = None) -> None:
    """Print a run's tables: drawn on a terminal, in plain lines elsewhere."""
    found = run_sheets(run, table)
    report = run.path / schema.REPORT_FILE
    where = f"Report: {report}" if report.is_file() else f"Run: {run.path}"
    if not console.is_terminal:
        lines: Sequence[str] = [line for sheet in found for line in plain_lines(sheet)]
        console.file.write("\n".join([*lines, *([] if table else [f"# {printable(where)}"])]) + "\n")
        return
    for sheet in found:
        console.print(drawn(sheet, console.width))
    if table is None:
        console.print(printable(where), style="bold", markup=False, highlight=False, overflow="fold")

"""What a run found, on a screen or two: how `energyscope run` ends. `show` and the report have the rest."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from energyscope.reporting import terminal_show_sheets as sheets
from energyscope.reporting import terminal_show_stages as stages
from energyscope.reporting import text
from energyscope.reporting.data import ReportData, report_data
from energyscope.reporting.terminal import shown
from energyscope.reporting.terminal_inference import advice_lines
from energyscope.reporting.terminal_show import drawn
from energyscope.reporting.terminal_show_sheets import Sheet
from energyscope.reporting.terminal_text import printable
from energyscope.runs import schema

if TYPE_CHECKING:
    from energyscope.runs.store import Run

MOST_COMPONENTS, MOST_FINDINGS, MOST_ADVICE = 5, 3, 3


def brief_summary(run: Run, width: int) -> RenderableType:
    """Return banners, headline, the stages' tables without remarks, first findings, and where the rest is."""
    data = report_data(run)
    parts: list[RenderableType] = [
        Text.assemble((f" {printable(banner.title)} ", "bold black on yellow"), " ", printable(banner.text))
        for banner in data.banners
    ]
    parts += [drawn(sheet, width) for sheet in _sheets(run, data)]
    parts += [Text(sentence, style="dim") for sentence in _skipped(data)]
    parts += [Text(f"{number}. {said}") for number, said in enumerate(_findings(data), 1)]
    parts += advice_lines(data.choices)[: MOST_ADVICE + 2] if data.choices else []
    return Group(*parts, *_elsewhere(run, data))


def _sheets(run: Run, data: ReportData) -> list[Sheet]:
    headline = sheets.summary_sheet(data)
    found = [Sheet(headline.title, headline.heads, headline.rows)] if headline.rows else []
    found += [_bare(stages.benchmark_sheet(data))] if data.benchmark else []
    found += [_bare(stages.generation_sheet(data))] if data.generation else []
    if data.energy is not None:
        found += [*sheets.kinds_sheets(data), *sheets.energy_sheets(run, data, MOST_COMPONENTS)]
    found += [stages.impact_sheet(data)] if data.impact else []
    return found


def _findings(data: ReportData) -> list[str]:
    """Return the first findings, and what to do where most rows are below grade C."""
    first = data.findings[:MOST_FINDINGS]
    return [*first, data.remedy] if data.remedy and data.remedy not in first else first


def _bare(sheet: Sheet) -> Sheet:
    return Sheet(sheet.title, sheet.heads, sheet.rows)


def _skipped(data: ReportData) -> list[str]:
    """Say why stages left nothing that were asked for."""
    return [
        said
        for stage, said in data.missing.items()
        if not shown(data).get(stage, True) and "not asked for" not in said
    ]


def _elsewhere(run: Run, data: ReportData) -> list[Text]:
    """Say where everything is that is not here."""
    more = len(data.findings) - len(_findings(data))
    beside = f"{text.count(more, 'more finding')} and all tables" if more > 0 else "All tables"
    report, path = run.path / schema.REPORT_FILE, shlex.quote(printable(run.path))
    last = f"Report: {report}" if report.is_file() else f"{_why_no_page(run)}: energyscope report {path}"
    return [
        Text(f"{beside}: energyscope show {path}", style="dim", overflow="fold"),
        Text(printable(last), style="bold", overflow="fold"),
    ]


def _why_no_page(run: Run) -> str:
    stage = (run.document.get("stages") or {}).get("report") or {}
    return "No report was asked for" if stage.get("state") == "skipped" else "No report was written"

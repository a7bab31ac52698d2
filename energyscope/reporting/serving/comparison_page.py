"""The page of measured servers that are compared, and what the terminal and JSON hold of them."""

from __future__ import annotations

import importlib.metadata
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.comparison.served import NAMES, PER_REQUEST
from energyscope.reporting.comparison.page import link, write_in_folder
from energyscope.reporting.comparison.sections import conditions_of
from energyscope.reporting.comparison.terminal import answer_text
from energyscope.reporting.page import render
from energyscope.reporting.section import Content
from energyscope.reporting.serving.comparison import (
    SERVED,
    ComparedServers,
    ServedAnswer,
    chips,
    figures,
    leads,
)
from energyscope.reporting.table import Table

if TYPE_CHECKING:
    from rich.console import RenderableType


@SERVED.section(1, "curve", "Load curve")
def curve(source: ComparedServers) -> Content | None:
    """Return energy and latencies of the user's request, by who asks."""
    tables = {f"curve-{against.key}": ServedAnswer(against).curve() for against in source.others}
    return Content({}, (), tables) if any(tables.values()) else None


@SERVED.section(2, "costs", "Tokens and the idle engine")
def costs(source: ComparedServers) -> Content | None:
    """Return what tokens of prompts and answers take, and the idle engine."""
    tables = {f"costs-{against.key}": ServedAnswer(against).costs(against.pair.costs) for against in source.others}
    return Content({}, (), tables) if any(tables.values()) else None


@SERVED.section(3, "conditions", "Conditions")
def conditions(source: ComparedServers) -> Content:
    """Return under which conditions each run was made."""
    documents = {run.name: run.document for run in source.runs}
    remarks = {against.names[1]: against.pair.remarks for against in source.others}
    return conditions_of(documents, NAMES, remarks, source.comparison.warnings)


@SERVED.section(4, "method", "Method")
def method(_: ComparedServers) -> Content:
    """Return how servers are compared."""
    return Content()


def write_served_comparison(source: ComparedServers, target: Path) -> Path:
    """Render a comparison of servers into a file and return its path.

    Raises:
        RunError: charts cannot be drawn here, or the file cannot be written.

    """
    return write_in_folder(target, served_comparison_page(source, target.parent))


def served_comparison_page(source: ComparedServers, folder: Path) -> str:
    """Return a comparison of servers as one self-contained HTML page that will stand in ``folder``."""
    shown, top = SERVED.shown(source), figures(source)
    return render(
        SERVED,
        shown,
        top,
        source=source,
        top=top,
        chips=chips(source),
        answers=[ServedAnswer(against) for against in source.others],
        links=[link(run.path, folder) for run in source.runs],
        version=importlib.metadata.version("energyscope-llm"),
    )


def served_answer(source: ComparedServers, width: int, page: str | None = None) -> RenderableType:
    """Return the answer for a terminal: sentence, requests, tokens, trust, and where the page is."""
    first = ServedAnswer(source.others[0])
    requests, tokens = first.curve(PER_REQUEST) or first.curve(), first.costs(first.against.main_costs)
    if source.switch:
        requests = leads(source)
        tokens = Table(tokens.columns, tokens.rows, f"{tokens.title}, {first.against.names[1]}")
    tables = [requests, tokens]
    return answer_text(source, chips(source), first, tables, width, page)


def served_record(source: ComparedServers) -> dict[str, Any]:
    """Return what JSON holds of a comparison of servers."""
    answers = [ServedAnswer(against).record() for against in source.others]
    return {**asdict(source.comparison), "answers": answers}

"""A run in a notebook: what the first screen of its page says, as HTML without scripts or styles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from energyscope.reporting.page import environment
from energyscope.reporting.run import page  # noqa: F401 - registers the sections
from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.changes import change_table
from energyscope.reporting.run.report import Report
from energyscope.reporting.terminal_text import printable

if TYPE_CHECKING:
    from energyscope.runs.store import Run


def first_screen(run: Run) -> str:
    """Return the answer of a run with its parts, what would change it, and whether to trust it."""
    report = Report(run)
    answer = Answer(report)
    tables = [answer.breakdown, *([change_table(answer.changes, report)] if answer.changes else [])]
    return (
        environment()
        .get_template("run/notebook.html.j2")
        .render(
            answer=answer,
            tables=[table for table in tables if table.rows],
            model=report.part("model").get("name") or run.name,
            path=printable(run.path),
        )
    )

"""The page of a run as a file, and the modules that its sections are registered in."""

from __future__ import annotations

from pathlib import Path

from energyscope.reporting.page import render, write
from energyscope.reporting.run import (  # noqa: F401 - each registers its section
    budget,
    changes,
    components,
    energy,
    generation,
    method,
    plan,
    quality,
    scaling,
    trust,
)
from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.report import RUN, Report
from energyscope.runs import schema
from energyscope.runs.store import Run, load_run


def write_report(path: Path) -> Path:
    """Render a run's page into its directory and return the file's path.

    Raises:
        RunError: the run cannot be read, or its directory cannot be written.

    """
    run = load_run(path)
    return write(run.path / schema.REPORT_FILE, run_page(run))


def run_page(run: Run) -> str:
    """Return a run's page as one self-contained HTML file."""
    report = Report(run)
    answer, shown = Answer(report), RUN.shown(report)
    files: list[components.Download] = next(
        (item.content.data["downloads"] for item in shown if item.section.name == "table"), []
    )
    return render(
        RUN,
        shown,
        answer.figures,
        report=report,
        missing=RUN.missing(report, shown),
        answer=answer,
        anchors={item.section.name for item in shown},
        model=report.part("model").get("name") or run.name,
        created=str(report.document.get("created") or "").replace("T", " ").removesuffix("Z"),
        version=report.document.get("energyscope") or "",
        downloads=components.payload(report, files),
        tree=components.tree(report),
    )

"""The page of a comparison: one HTML file made of the runs as they were stored; nothing is measured for it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from energyscope.errors import RunError
from energyscope.reporting.comparison import sections  # noqa: F401 - registers the sections
from energyscope.reporting.comparison.answer import ComparisonAnswer, chips, figures
from energyscope.reporting.comparison.source import COMPARE, ComparedRuns
from energyscope.reporting.page import render, write
from energyscope.runs.schema import REPORT_FILE
from energyscope.runs.store import Run

DIRECTORY = "comparisons"
_MOST_LETTERS = 120


def default_path(names: Sequence[str], root: Path) -> Path:
    """Return where the page of runs with these names stands: in ``comparisons`` beside them."""
    plain = [re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip(".-") or "run" for name in names]
    whole = "-vs-".join(plain)
    if len(whole) > _MOST_LETTERS:
        digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]
        whole = f"{whole[:_MOST_LETTERS]}-{digest}"
    return root / DIRECTORY / f"{whole}.html"


def write_comparison(runs: ComparedRuns | Iterable[Run], target: Path) -> Path:
    """Render the comparison of runs, the first of them the baseline, into a file and return its path.

    Raises:
        RunError: charts cannot be drawn here, or the file cannot be written.

    """
    source = runs if isinstance(runs, ComparedRuns) else ComparedRuns.of(runs)
    return write_in_folder(target, comparison_page(source, target.parent))


def write_in_folder(target: Path, html: str) -> Path:
    """Write a page into a folder that is made where it is missing, and return its path.

    Raises:
        RunError: it cannot be written.

    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror or error}") from error
    return write(target, html)


def comparison_page(source: ComparedRuns, folder: Path) -> str:
    """Return a comparison as one self-contained HTML page that will stand in ``folder``."""
    shown = COMPARE.shown(source)
    return render(
        COMPARE,
        shown,
        top := figures(source),
        source=source,
        top=top,
        chips=chips(source),
        answers=[ComparisonAnswer(against) for against in source.others],
        links=[link(run.path, folder) for run in source.runs],
        version=importlib.metadata.version("energyscope-llm"),
    )


def link(run: Path, folder: Path) -> str | None:
    """Return where the page of a run is, from where this one stands."""
    report = run / REPORT_FILE
    return quote(os.path.relpath(report.resolve(), folder.resolve())) if report.is_file() else None

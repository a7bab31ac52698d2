"""The page of a comparison: one HTML file made of the runs as they were stored; nothing is measured for it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from collections.abc import Sequence
from pathlib import Path

from energyscope.errors import RunError
from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.comparison.conditions import rules
from energyscope.reporting.comparison.page import comparison_page
from energyscope.reporting.comparison.source import Source
from energyscope.reporting.page_parts import (
    chart_payload,
    content_policy,
    json_for_script,
    page_script,
    page_style,
    vega_bundle,
)
from energyscope.reporting.templates import environment
from energyscope.runs.compare import Comparison
from energyscope.runs.files import write_text
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


def write_comparison(runs: Sequence[Run], target: Path, comparison: Comparison | None = None) -> Path:
    """Render the comparison of runs, the first of them the baseline, into a file and return its path.

    Raises:
        RunError: charts cannot be drawn here, or the file cannot be written.

    """
    page = render(Source.of(runs, comparison), target.parent)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, page)
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def render(source: Source, folder: Path) -> str:
    """Return a comparison as one self-contained HTML page that will stand in ``folder``."""
    page = comparison_page(source, folder)
    libraries = vega_bundle()
    script = page_script()
    filled = environment()
    filled.globals.update(text=text, colour=theme.colour)
    return filled.get_template("compare.html.j2").render(
        page=page,
        data=page,
        rules=rules(),
        version=_version(),
        style=page_style("report.css", "controls.css", "compare.css.j2"),
        libraries=libraries,
        script=script,
        payload=json_for_script(chart_payload(page.figures)),
        policy=content_policy(libraries, script),
    )


def _version() -> str:
    """Return this version; empty in a checkout that was not installed."""
    try:
        return importlib.metadata.version("energyscope-llm")
    except importlib.metadata.PackageNotFoundError:
        return ""

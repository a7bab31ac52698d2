"""The page of scaling laws: one HTML file made of a laws.json alone; nothing is measured or fitted for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from energyscope.errors import RunError
from energyscope.reporting import text
from energyscope.reporting.laws.page import bound, laws_page
from energyscope.reporting.laws.sources import COLUMNS
from energyscope.reporting.page_parts import (
    chart_payload,
    content_policy,
    json_for_script,
    page_script,
    page_style,
    vega_bundle,
)
from energyscope.reporting.templates import environment
from energyscope.runs import schema
from energyscope.runs.files import write_text
from energyscope.runs.laws import load_laws


def write_laws_page(path: Path) -> Path:
    """Render the laws.json of a directory as report.html beside it and return that file's path.

    Raises:
        RunError: there is no laws.json that can be read, or the directory cannot be written.

    """
    target = path / schema.REPORT_FILE
    page = render(load_laws(path), path)
    try:
        write_text(target, page)
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def render(document: dict[str, Any], folder: Path) -> str:
    """Return a laws document as one self-contained HTML page that will stand in ``folder``."""
    page = laws_page(document, folder)
    libraries = vega_bundle()
    script = page_script()
    filled = environment()
    filled.globals.update(text=text)
    filled.filters["bound"] = bound
    return filled.get_template("laws.html.j2").render(
        page=page,
        data=page,
        document=document,
        columns=COLUMNS,
        style=page_style("report.css", "controls.css", "laws.css.j2"),
        libraries=libraries,
        script=script,
        payload=json_for_script(chart_payload(page.figures)),
        policy=content_policy(libraries, script),
    )

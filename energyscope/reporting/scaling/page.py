"""The page of laws as a file, and the modules that its sections are registered in."""

from __future__ import annotations

from pathlib import Path

from energyscope.reporting.page import render, write
from energyscope.reporting.scaling import (  # noqa: F401 - each registers its section
    cells,
    contrasts,
    efficiency,
    fits,
    limits,
    sizes,
    trust,
)
from energyscope.reporting.scaling.answer import SWITCHES, TOP, LawsAnswer
from energyscope.reporting.scaling.laws import LAWS, Laws
from energyscope.reporting.section import figures
from energyscope.runs import schema


def write_laws_page(folder: Path) -> Path:
    """Render the laws.json of a directory as the page beside it and return that file's path.

    Raises:
        RunError: there is no laws.json that can be read, or the directory cannot be written.

    """
    return write(folder / schema.REPORT_FILE, laws_page(Laws.load(folder)))


def laws_page(laws: Laws) -> str:
    """Return the page of laws as one self-contained HTML file."""
    answer, shown = LawsAnswer(laws), LAWS.shown(laws)
    names = {figure.name for figure in figures(shown)}
    top = [name for name in TOP[laws.case] if name in names][:2]
    switches = {
        name: [(str(index), label) for index, label in enumerate(labels)] if len(labels) > 1 else []
        for name, labels in (
            ("setting", laws.setting_labels),
            ("group", laws.labels),
            ("contrast", contrasts.pair_labels(laws)),
        )
    }
    return render(
        LAWS,
        shown,
        laws=laws,
        answer=answer,
        top=top,
        top_switches=list(dict.fromkeys(SWITCHES[name] for name in top if name in SWITCHES)),
        switches=switches,
        created=str(laws.document.get("created") or "").replace("T", " ").removesuffix("Z"),
        version=laws.document.get("energyscope") or "",
    )

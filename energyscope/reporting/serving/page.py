"""The page of a measured server as a file, and the modules that its sections are registered in."""

from __future__ import annotations

from pathlib import Path

from energyscope.reporting.page import render, write
from energyscope.reporting.section import figures
from energyscope.reporting.serving import curve, phases, trust  # noqa: F401 - each registers its section
from energyscope.reporting.serving.answer import TOP, ServingAnswer
from energyscope.reporting.serving.served import SERVER, Server
from energyscope.runs import schema


def write_serving_page(folder: Path) -> Path:
    """Render the page of a measured server into its directory and return that file's path.

    Raises:
        RunError: its files cannot be read, or the page not be written.

    """
    return write(folder / schema.REPORT_FILE, serving_page(Server.load(folder)))


def serving_page(server: Server) -> str:
    """Return the page as one self-contained HTML file."""
    shown = SERVER.shown(server)
    names = {figure.name for figure in figures(shown)}
    return render(
        SERVER,
        shown,
        server=server,
        answer=ServingAnswer(server),
        top=[name for name in TOP if name in names],
        created=str(server.run.document.get("created") or "").replace("T", " ").removesuffix("Z"),
        version=server.run.document.get("energyscope") or "",
    )

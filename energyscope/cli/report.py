"""`energyscope report RUN|SWEEP|LAWS`: render a run or laws again, without measuring and without fitting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.guard import guarded

NAME = "report"


@guarded
def command(
    run: Annotated[
        str, typer.Argument(help="A run (its path, its name, or the beginning of it), a sweep, or laws.")
    ],
    root: Annotated[Path, typer.Option(help="Where run directories are.")] = Path("runs"),
) -> None:
    """Render the report of a run, of a sweep or of laws again, without measuring."""
    from energyscope.runs.laws import find_laws

    laws = find_laws(run, root)
    typer.echo(str(_laws_page(laws) if laws else _run_page(run, root)))


def _laws_page(path: Path) -> Path:
    from energyscope.reporting.laws_page import write_laws_page

    return write_laws_page(path)


def _run_page(run: str, root: Path) -> Path:
    from energyscope.reporting.html import write_report
    from energyscope.runs.store import RunStore, find_run
    from energyscope.stages.salvage import salvage

    store = RunStore.open(find_run(run, root))
    for name in salvage(store):
        typer.echo(f"recovered {name} from the journal")
    if store.document.get("stages", {}).get("report", {}).get("state") != "done":
        store.stage("report", "done")  # the page says so of itself
    return write_report(store.path)

"""`energyscope report RUN`: render a run again, without measuring."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.guard import guarded

NAME = "report"


@guarded
def command(
    run: Annotated[str, typer.Argument(help="A run: its path, its name, or the beginning of its name.")],
    root: Annotated[Path, typer.Option(help="Where run directories are.")] = Path("runs"),
) -> None:
    """Render a run's report again, without measuring."""
    from energyscope.reporting.html import write_report
    from energyscope.runs.store import RunStore, find_run
    from energyscope.stages.salvage import salvage

    store = RunStore.open(find_run(run, root))
    for name in salvage(store):
        typer.echo(f"recovered {name} from the journal")
    if store.document.get("stages", {}).get("report", {}).get("state") != "done":
        store.stage("report", "done")  # the page says so of itself
    typer.echo(str(write_report(store.path)))

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
    from energyscope.runs.schema import ENERGY_FILE, JOURNAL_FILE
    from energyscope.runs.store import RunStore, find_run, load_run

    path = find_run(run, root)
    if (path / JOURNAL_FILE).exists() and not _finished(path, ENERGY_FILE):
        from energyscope.stages.salvage import salvage

        for name in salvage(RunStore.open(path)):
            typer.echo(f"recovered {name} from the journal")
    load_run(path)
    typer.echo(str(write_report(path)))


def _finished(path: Path, *files: str) -> bool:
    from energyscope.runs.store import read_document

    stages = read_document(path).get("stages", {})
    return all((path / name).exists() for name in files) and all(
        stage["state"] in {"done", "skipped"} for stage in stages.values()
    )

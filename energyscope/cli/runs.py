"""`energyscope runs`: what has been measured."""

from __future__ import annotations

import json

import typer

from energyscope.cli.errors import report_errors
from energyscope.cli.options import DEFAULT_ROOT, AsJson, Root


@report_errors
def command(
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """List runs, then sweeps and laws, oldest first."""
    from rich.console import Console

    from energyscope.errors import RunError
    from energyscope.reporting.run.terminal import runs_table
    from energyscope.reporting.scaling.sweep import collections_table
    from energyscope.reporting.terminal_text import Sanitized, printable
    from energyscope.runs.store import list_runs, load_run
    from energyscope.runs.summary import summary

    runs = []
    for path in list_runs(root):
        try:
            runs.append(load_run(path))
        except RunError as error:
            typer.echo(f"energyscope: {printable(error)}", err=True)
    if as_json:
        typer.echo(json.dumps([summary(run) for run in runs], indent=1))
        return
    others = collections_table(root)
    if not runs and not others:
        typer.echo(f"no runs in {printable(root)}/: `energyscope run tiny-gpt2` makes one")
    console = Console()
    for table in (runs_table(runs), others):
        if table:
            console.print(Sanitized(table.filled().rich(console.width)))

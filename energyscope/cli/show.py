"""`energyscope show RUN`: a run's tables in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.guard import guarded

NAME = "show"


@guarded
def command(
    run: Annotated[str, typer.Argument(help="A run: its path, its name, or the beginning of it.")],
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="One table with all of its rows: summary, energy, kinds, impact, advice, benchmark, generation "
            "[default: the usual ones, the longest shortened].",
        ),
    ] = None,
    root: Annotated[Path, typer.Option(help="Where run directories are.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with raw numbers.")] = False,
) -> None:
    """Print a run's tables; in a pipe, plain lines with tabs between the cells."""
    from rich.console import Console

    from energyscope.reporting.terminal_show import check_table, run_record, show
    from energyscope.runs.store import load_run

    check_table(table)
    found = load_run(run, root)
    if as_json:
        typer.echo(json.dumps(run_record(found, table), indent=1, default=str))
    else:
        show(found, Console(), table)

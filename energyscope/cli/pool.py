"""`energyscope pool RUN RUN [RUN...]`: several runs under the same settings as one estimate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import DEFAULT_ROOT, AsJson, Root

_MOST_ROWS = 20  # on a terminal


@report_errors
@reading_runs
def command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Two runs or more, of one model.")],
    *,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the whole table to this file.")
    ] = None,
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Make one estimate of several runs under the same settings, with the variance between them."""
    from rich.console import Console

    from energyscope.comparison.pooling import pool
    from energyscope.errors import UsageError
    from energyscope.reporting.comparison.pooled import pooled_table, record, sentences
    from energyscope.reporting.terminal_text import print_table, printable
    from energyscope.runs.files import write_text
    from energyscope.runs.store import load_run

    pooled = pool([load_run(reference, root) for reference in runs])
    table = pooled_table(pooled)
    if csv is not None:
        try:
            csv.parent.mkdir(parents=True, exist_ok=True)
            write_text(csv, table.marked(modelled=pooled.modelled).delimited(","))
        except OSError as error:
            raise UsageError(f"--csv {csv} cannot be written ({error.strerror}): give another file") from error
    if as_json:
        typer.echo(json.dumps(record(pooled), indent=1, default=str))
        return
    console = Console()
    if console.is_terminal:
        for sentence in sentences(pooled):
            typer.echo(printable(sentence))
        table = table.filled().head(_MOST_ROWS)
    print_table(table, console, modelled=pooled.modelled)

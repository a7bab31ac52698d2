"""`energyscope compare RUN RUN`: how two runs differ."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.guard import guarded

NAME = "compare"


@guarded
def command(
    runs: Annotated[list[str], typer.Argument(help="Two runs or more: paths, names, or beginnings of names.")],
    root: Annotated[Path, typer.Option(help="Where run directories are.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print how runs differ; the first one is the baseline."""
    from rich.console import Console

    from energyscope.errors import UsageError
    from energyscope.reporting.terminal_compare import comparison_table
    from energyscope.runs.compare import compare
    from energyscope.runs.store import load_run

    if len(runs) < 2:
        raise UsageError("compare needs two runs or more: `energyscope runs` lists them")
    comparison = compare([load_run(run, root) for run in runs])
    if as_json:
        typer.echo(json.dumps(asdict(comparison), indent=1, default=str))
    else:
        Console().print(comparison_table(comparison))

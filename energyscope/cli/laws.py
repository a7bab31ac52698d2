"""`energyscope laws RUN|SWEEP...`: the laws of runs and sweeps, fitted once, in a directory with a page."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.guard import guarded


@guarded
def command(
    measured: Annotated[
        list[str], typer.Argument(metavar="RUN|SWEEP", help="Runs and sweeps: paths or names of them.")
    ],
    name: Annotated[str | None, typer.Option(help="Name of the laws [default: model and time].")] = None,
    root: Annotated[Path, typer.Option(help="Where run directories are.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit how energy grows with length, batch and model size.

    Laws are tested on held-out cells, and their errors are shown.

    For example: energyscope laws SWEEP SWEEP2
    """
    from rich.console import Console

    from energyscope.reporting.scaling.laws import Laws
    from energyscope.reporting.scaling.terminal import laws_text
    from energyscope.reporting.terminal_text import Harmless
    from energyscope.stages.laws import laws

    path, document = laws(measured, name=name, root=root, command=shlex.join(["energyscope", *sys.argv[1:]]))
    if as_json:
        typer.echo(json.dumps(document, indent=1))
    else:
        console = Console()
        console.print(Harmless(laws_text(Laws.load(path), console.width)))

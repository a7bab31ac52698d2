"""`energyscope laws RUN|SWEEP...`: the laws of runs and sweeps, fitted once, in a directory with a page."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import DEFAULT_ROOT, AsJson, Root
from energyscope.cli.output import command_line, draw


@report_errors
@reading_runs
def command(
    measured: Annotated[
        list[str], typer.Argument(metavar="RUN|SWEEP", help="Runs and sweeps: paths or names of them.")
    ],
    name: Annotated[str | None, typer.Option(help="Name of the laws [default: model and time].")] = None,
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Fit how energy grows with length, batch and model size.

    Laws are tested on held-out cells, and their errors are shown.

    For example: energyscope laws SWEEP SWEEP2
    """
    from energyscope.reporting.scaling.laws import Laws
    from energyscope.reporting.scaling.terminal import laws_text
    from energyscope.stages.laws import laws

    path, document = laws(measured, name=name, root=root, command=command_line())
    if as_json:
        typer.echo(json.dumps(document, indent=1))
    else:
        draw(lambda width: laws_text(Laws.load(path), width))

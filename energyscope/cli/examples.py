"""`energyscope examples [NAME]`: runs that ship with energyscope."""

from __future__ import annotations

from typing import Annotated

import typer

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.output import draw, path_text
from energyscope.errors import UsageError


@report_errors
@reading_runs
def command(
    name: Annotated[str | None, typer.Argument(help="An example; without one, all are listed.")] = None,
    *,
    browser: Annotated[bool, typer.Option("--open", help="Open its page in a browser.")] = False,
) -> None:
    """List runs on data-centre GPUs that ship with energyscope, or show one."""
    from energyscope.runs.examples import EXAMPLES, example

    if name is None:
        if browser:
            raise UsageError("--open requires the name of an example")
        for known, what in EXAMPLES.items():
            typer.echo(f"{known}: {what}\n  {path_text(example(known) / 'report.html')}")
        return
    show_example(name)
    if browser:
        typer.launch(str(example(name) / "report.html"))


def show_example(name: str) -> None:
    """Print the answer of an example, which ends with the path of its page."""
    from rich.console import Console

    from energyscope.reporting.run.terminal import answer_of
    from energyscope.runs.examples import example
    from energyscope.runs.store import load_run

    run = load_run(example(name))
    draw(lambda width: answer_of(run, width), Console())

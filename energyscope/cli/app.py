"""The application: its commands, and `main`, which the console script calls."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from energyscope.cli import (
    benchmark,
    compare,
    doctor,
    figures,
    laws,
    models,
    predict,
    prepare,
    report,
    run,
    runs,
    show,
    sweep,
)
from energyscope.cli.guard import DEBUG, listen_for_termination

app = typer.Typer(
    name="energyscope",
    help="Where do a transformer's joules go, which of them do its predictions need, and what should be changed?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,  # drawing help with rich imports a Markdown parser and triples its time
    context_settings={"help_option_names": ["-h", "--help"]},
)
for one in (run, sweep, benchmark, figures, report, compare, laws, predict, prepare, models, runs, show, doctor):
    app.command(one.NAME)(one.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"energyscope {version('energyscope-llm')}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback prints and leaves
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    DEBUG.on = DEBUG.on or debug


def main() -> None:
    """Run the command line; `--debug` may stand anywhere on it."""
    if "--debug" in sys.argv[2:]:
        sys.argv.remove("--debug")
        DEBUG.on = True
    listen_for_termination()
    app()

"""The application: its commands, and `main`, which the console script calls."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from energyscope.cli import compare, doctor, models, report, run, runs
from energyscope.cli.guard import DEBUG, listen_for_termination

app = typer.Typer(
    name="energyscope",
    help="Where do a transformer's joules go, which of them do its predictions need, and what should be changed?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (run, report, compare, models, runs, doctor):
    app.command(module.NAME)(module.command)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    DEBUG.on = DEBUG.on or debug
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"energyscope {installed('energyscope-llm')}")
        raise typer.Exit


def main() -> None:
    """Run the command line; `--debug` may stand anywhere on it."""
    if "--debug" in sys.argv[2:]:
        sys.argv.remove("--debug")
        DEBUG.on = True
    if sys.argv[1:] == ["--version"]:  # needs no command behind it
        sys.argv.append("models")
    listen_for_termination()
    app()

"""`energyscope serving URL`: what requests cost on a server that is running."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import MOST_USED, OUTPUT, DryRun, Option, QuietPath, with_settings
from energyscope.cli.output import command_line, draw, path_text
from energyscope.errors import UsageError
from energyscope.settings.fields import select_settings
from energyscope.settings.serving import ServingSettings

if TYPE_CHECKING:
    from rich.console import Console

    from energyscope.serving.run import ServingRun

URL = "url"
_URL = typer.Argument(
    metavar="URL|FILE.toml",
    help="Address of a server with the OpenAI API on this machine; or a TOML file of these options.",
)


def _settings(url: str, values: Mapping[str, Any], _: Collection[str]) -> ServingSettings:
    return ServingSettings(url, **values)


@report_errors
@reading_runs
@with_settings(_settings, *select_settings(ServingSettings), required=False, subject=URL, argument=_URL)
def command(
    settings: ServingSettings | None,
    *,
    context: typer.Context,
    resume: Annotated[
        Path | None,
        Option(metavar="RUN", help="Send the loads that a run lacks.", rich_help_panel=MOST_USED),
    ] = None,
    dry_run: DryRun = False,
    quiet: QuietPath = False,
    as_json: Annotated[bool, Option("--json", help="Print the results as JSON.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Measure what requests cost on a running server.

    Loads of requests are sent to it, while the energy counter of its GPUs is watched: joules per prompt token, per
    generated token and per request, by how many ask. Nothing is installed in the server, and only its address is
    contacted; a key is taken from ENERGYSCOPE_API_KEY or OPENAI_API_KEY.

    For example: energyscope serving http://localhost:8000 --prompt-tokens 512 --new-tokens 128
    """
    from rich.console import Console

    if (settings is None) == (resume is None):
        raise UsageError("give the server's address, or --resume RUN")
    if settings is None and dry_run:
        raise UsageError("--resume sends what the run lacks: leave --dry-run out")
    if settings is not None and dry_run:
        _foresee(settings)
        return
    console = Console(stderr=as_json or quiet)
    run = _measured(settings, resume, context.params["root"], console, quiet=quiet)
    _show(run, quiet=quiet, as_json=as_json)


def _foresee(settings: ServingSettings) -> None:
    """Print the loads that would be sent, and how long they take."""
    from energyscope.serving.design import seconds_of
    from energyscope.stages.serving import foreseen

    loads = foreseen(settings)
    for load in loads:
        typer.echo(f"{load.name}: {load.seconds:.3g} s")
    more = "" if settings.users else "; then more users while throughput grows"
    typer.echo(f"{len(loads)} loads, {seconds_of(loads):.0f} s and the last answers of each{more}")


def _measured(
    settings: ServingSettings | None, resume: Path | None, root: Path, console: Console, *, quiet: bool
) -> ServingRun:
    from energyscope.cli.progress import progress

    title = f"energyscope serving {resume if settings is None else settings.url}"
    with progress(console, quiet=quiet, title=title, stages=("serving",)) as report:
        from energyscope.stages import serving  # seconds, in which the terminal shows something

        if settings is None:
            return serving.resume(str(resume), root=root, progress=report)
        return serving.serve(settings, progress=report, command=command_line())


def _show(run: ServingRun, *, quiet: bool, as_json: bool) -> None:
    from energyscope.reporting.serving.page import write_serving_page
    from energyscope.reporting.serving.served import Server
    from energyscope.reporting.serving.terminal import serving_text

    page = write_serving_page(run.path)
    if as_json:
        typer.echo(json.dumps(Server(run).document, indent=1))
        return
    if not quiet:
        draw(lambda width: serving_text(Server(run), width))
    typer.echo(path_text(page))

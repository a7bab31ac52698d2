"""`energyscope run MODEL`: the whole job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.dry_run import show_plan
from energyscope.cli.errors import report_errors
from energyscope.cli.options import OUTPUT, DryRun, Option, QuietPath, with_settings
from energyscope.cli.output import draw, path_text
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.fields import select_settings
from energyscope.settings.run import BENCHMARK_OF_RUN, WHAT, RunSettings

BENCHMARK = [
    replace(
        setting, name=name, options=(f"--{name.replace('_', '-')}",), panel=WHAT, help=f"Benchmark: {setting.help}"
    )
    for name, field in BENCHMARK_OF_RUN.items()
    for setting in select_settings(BenchmarkSettings, field)
]


@report_errors
@with_settings(lambda model, values, _: RunSettings.of(model, **values), *select_settings(RunSettings), *BENCHMARK)
def command(
    settings: RunSettings,
    *,
    dry_run: DryRun = False,
    quiet: QuietPath = False,
    as_json: Annotated[
        bool, Option("--json", help="Print the summary (or the plan) as JSON.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Measure a model's energy and impact, and write a report."""
    if dry_run:
        show_plan(settings, as_json=as_json)
    else:
        _run(settings, quiet=quiet, as_json=as_json)


def _run(settings: RunSettings, *, quiet: bool, as_json: bool) -> None:
    from rich.console import Console

    from energyscope.cli.progress import measured_in_view

    console = Console(stderr=as_json)
    paths: list[Path] = []
    try:
        run = measured_in_view(settings, console, paths, command="run", quiet=quiet)
    except KeyboardInterrupt as error:
        if paths:
            other = " under another --name" if settings.name else ""
            error.add_note(f"runs cannot be resumed: the same command{other} starts over")
        raise
    from energyscope.reporting.run.terminal import answer_of
    from energyscope.runs.summary import summary

    result = summary(run)
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    elif quiet:
        typer.echo(path_text(result["report"] or result["path"]))
    else:
        draw(lambda width: answer_of(run, width), console)

"""`energyscope run MODEL`: the whole job."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyscope.cli.guard import guarded
from energyscope.cli.options import MOST_USED, OUTPUT, Option, QuietPath, with_settings
from energyscope.cli.preview import show_plan
from energyscope.cli.words import path_said
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.fields import chosen
from energyscope.settings.run import BENCHMARK_OF_RUN, RUN_STAGES, WHAT, RunSettings

if TYPE_CHECKING:
    from rich.console import Console

    from energyscope.runs.store import Run

BENCHMARK = [
    replace(one, name=name, options=(f"--{name.replace('_', '-')}",), panel=WHAT, help=f"Benchmark: {one.help}")
    for name, of in BENCHMARK_OF_RUN.items()
    for one in chosen(BenchmarkSettings, of)
]


@guarded
@with_settings(lambda model, values, _: RunSettings.of(model, **values), *chosen(RunSettings), *BENCHMARK)
def command(
    settings: RunSettings,
    *,
    dry_run: Annotated[
        bool,
        Option(
            "--dry-run",
            help="Show what would be measured, and about how long it takes.",
            rich_help_panel=MOST_USED,
        ),
    ] = False,
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

    from energyscope.cli.progress import progress

    console = Console(stderr=as_json)
    stages = ("load", *(name for name in RUN_STAGES if name in settings.stages))
    with progress(console, quiet=quiet, title=f"energyscope run {settings.model}", stages=stages) as report:
        from energyscope.stages.run import carry_out  # seconds, in which the terminal shows something

        made: list[Path] = []

        def follow(path: Path) -> None:
            made.append(path)
            report.follow(path)

        try:
            done: Run = carry_out(
                settings, progress=report, command=_command(), follow=follow, on_estimates=report.expect
            )
        except KeyboardInterrupt as error:
            if made:
                other = " under another --name" if settings.name else ""
                error.add_note(f"runs cannot be resumed: the same command{other} starts over")
            raise
    _say(done, console, quiet=quiet, as_json=as_json)


def _say(done: Run, console: Console, *, quiet: bool, as_json: bool) -> None:
    """Print what a run found: its summary, as JSON, or, where little is to be said, its path."""
    from energyscope.reporting.run.terminal import answer_of
    from energyscope.reporting.terminal_text import Harmless
    from energyscope.runs.summary import summary

    found = summary(done)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    elif quiet:
        typer.echo(path_said(found["report"] or found["path"]))
    else:
        console.print(Harmless(answer_of(done, console.width)))


def _command() -> str:
    return shlex.join(["energyscope", *sys.argv[1:]])

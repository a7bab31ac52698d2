"""`energyscope sweep MODEL|FILE`: models over lengths, batch sizes, precisions and executions, on any GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.dry_run import HELD_UNKNOWN, show_resume_plan, show_sweep_plan
from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import MOST_USED, OUTPUT, Option, Quiet, is_given, with_settings
from energyscope.cli.output import command_line, draw
from energyscope.errors import UsageError
from energyscope.settings.sweep import SWEEP, SweepSettings


@report_errors
@reading_runs
@with_settings(SweepSettings.of, *SWEEP, required=False, several=True)
def command(
    settings: SweepSettings | None,
    context: typer.Context,
    *,
    resume: Annotated[
        str | None,
        Option(
            metavar="SWEEP", help="Continue an interrupted sweep, with its settings.", rich_help_panel=MOST_USED
        ),
    ] = None,
    retry: Annotated[
        bool,
        Option(
            "--retry", help="With --resume: retry cells that failed or did not fit.", rich_help_panel=MOST_USED
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        Option(
            "--dry-run",
            help="Show the cells that would be measured, and about how long they take.",
            rich_help_panel=MOST_USED,
        ),
    ] = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, Option("--json", help="Print the cells as JSON.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Measure models over lengths, batch sizes, precisions and executions, on one GPU or many.

    Each combination is a cell of the sweep and a run of its own. One model is loaded once for each precision; of
    several, which a FILE.toml names, each cell is a process, and every GPU measures one at a time.

    For example: energyscope sweep gpt2 --sequence-length 32,64,128 --batch-size 1,4
    """
    if resume is not None:
        _refuse_beside_resume(context)
    elif retry:
        raise UsageError("--retry requires --resume SWEEP")
    elif settings is None:
        raise UsageError("name a model, a FILE.toml, or a sweep with --resume")
    root = settings.run.root if settings else context.params["root"]
    if dry_run:
        _plan(settings, resume, root, retry=retry, as_json=as_json)
        return
    _sweep(settings, resume, root, retry=retry, quiet=quiet, as_json=as_json)


def _plan(settings: SweepSettings | None, resumed: str | None, root: Path, *, retry: bool, as_json: bool) -> None:
    """Say what would be measured of a new sweep, or of what another one lacks."""
    from energyscope.runs.sweeps import find_sweep

    if settings is None:
        show_resume_plan(find_sweep(str(resumed), root), retry=retry, as_json=as_json)
    else:
        show_sweep_plan(settings, as_json=as_json)


def _refuse_beside_resume(context: typer.Context) -> None:
    """Refuse to change what the cells of a sweep have in common."""
    named = {"model": "the model", **{option.key: option.option for option in SWEEP if option.name != "root"}}
    for name, option in named.items():
        if is_given(context, name):
            raise UsageError(f"--resume uses the settings of the sweep: leave {option} out")


def _sweep(
    settings: SweepSettings | None, resumed: str | None, root: Path, *, retry: bool, quiet: bool, as_json: bool
) -> None:
    """Measure a new sweep, or what another one lacks, and show it."""
    from rich.console import Console

    from energyscope.cli.progress import progress
    from energyscope.reporting.scaling.sweep import sweep_text
    from energyscope.runs.sweeps import find_sweep, is_being_measured, sweep_rows
    from energyscope.stages.resume_sweep import resume
    from energyscope.stages.sweep import sweep

    console = Console(stderr=as_json)
    with progress(console, quiet=quiet) as report:
        if settings is None:
            path = find_sweep(str(resumed), root)
            if is_being_measured(path) is None and not quiet:
                typer.echo(HELD_UNKNOWN, err=True)
            done = resume(path, retry=retry, progress=report, command=command_line())
        else:
            done = sweep(settings, progress=report, command=command_line())
    if as_json:
        typer.echo(json.dumps(sweep_rows(done), indent=1))
    elif not quiet:
        draw(lambda width: sweep_text(done, width), console)

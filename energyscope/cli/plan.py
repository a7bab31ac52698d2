"""`energyscope plan MODEL|RUN --budget "perplexity +0.5%"`: the precision of each linear that saves the most."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.dry_run import show_plan
from energyscope.cli.errors import report_errors
from energyscope.cli.options import OUTPUT, DryRun, Option, QuietPath, with_settings
from energyscope.cli.output import draw, path_text
from energyscope.errors import RunError
from energyscope.settings.run import RunSettings
from energyscope.settings.single_stage import PLAN, plan_settings


@report_errors
@with_settings(plan_settings, *PLAN)
def command(
    settings: RunSettings,
    *,
    dry_run: DryRun = False,
    quiet: QuietPath = False,
    as_json: Annotated[bool, Option("--json", help="Print the plan as JSON.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Choose a precision for each part inside a budget for the predictions, and verify it."""
    if dry_run:
        show_plan(settings, as_json=as_json)
    else:
        planned(settings, quiet=quiet, as_json=as_json)


def planned(settings: RunSettings, *, quiet: bool, as_json: bool) -> None:
    """Make a plan in view of the user, and print it.

    Raises:
        RunError: its budget does not hold on the half of the data that it was not made on.

    """
    from rich.console import Console

    from energyscope.cli.progress import measured_in_view
    from energyscope.reporting.run import terminal

    console = Console(stderr=as_json)
    paths: list[Path] = []
    run = measured_in_view(settings, console, paths, command="plan", quiet=quiet)
    if as_json:
        typer.echo(json.dumps(run.plan, indent=1))
    elif quiet:
        typer.echo(path_text(run.path))
    else:
        if run.plan:
            draw(lambda width: terminal.plan_of(run, width), console)
        draw(lambda width: terminal.answer_of(run, width), console)
    document = run.plan or {}
    if any(workload["verdict"] == "over budget" for workload in document.get("workloads", ())):
        raise RunError(
            f"the budget of {document['budget']['text']} does not hold on the second half of the data: give more "
            "data (--data, --max-examples) or a wider --budget"
        )

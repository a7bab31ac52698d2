"""`energyscope plan MODEL|RUN --budget "perplexity +0.5%"`: the precision of each linear that saves the most."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from energyscope.cli.dry_run import show_plan
from energyscope.cli.errors import report_errors
from energyscope.cli.options import OUTPUT, DryRun, Option, QuietPath, with_settings
from energyscope.cli.output import draw, path_text
from energyscope.errors import RunError
from energyscope.settings.fields import select_settings, settings_of
from energyscope.settings.run import MOST_USED, RunSettings

OF_RUN = (
    "budget", "objective", "workloads", "levers", "plan_precisions", "precision", "weights", "phase", "batch_size",
    "sequence_length", "context_lengths", "kv_cache", "execution", "skip_modules", "data", "name", "device",
    "gpu_id", "whole_gpu", "trust_remote_code", "adapter", "meter", "watts", "passes", "target_interval",
    "window_s", "seed", "text_column", "label_column", "max_examples", "stride", "root", "export",
    "export_format",
)  # fmt: skip
_HERE = frozenset({"name", "root", "export", "export_format"})  # what a run does not hand on


def _settings(model: str, values: Mapping[str, Any], given: Collection[str]) -> RunSettings:
    """Return the settings of a run that is a plan and nothing else; a RUN gives what was not named."""
    from energyscope.loading import named_model
    from energyscope.runs.schema import RUN_FILE
    from energyscope.runs.store import read_document
    from energyscope.serving.run import refuse_server

    path = Path(model) if Path(model).is_dir() else values["root"] / model  # a folder here is not a run's name
    if not (path / RUN_FILE).is_file() or named_model(model):
        return RunSettings.of(model, **values, stages=("plan", "report"))
    refuse_server(path)
    recorded = read_document(path).get("settings") or {}
    known = settings_of(RunSettings)
    handed_on = {
        name: tuple(recorded[name]) if known[name].several else recorded[name]
        for name in OF_RUN
        if name in recorded and name not in given and name not in _HERE
    }
    return RunSettings.of(str(recorded["model"]), **{**values, **handed_on}, stages=("plan", "report"))


@report_errors
@with_settings(
    _settings,
    *select_settings(
        RunSettings,
        *OF_RUN,
        budget={"panel": MOST_USED},
        objective={"panel": MOST_USED},
        workloads={"panel": MOST_USED},
        plan_precisions={"panel": MOST_USED},
    ),
)
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

"""`energyscope run MODEL`: the whole job."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyscope.cli.dry_run import show_plan
from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import MOST_USED, OUTPUT, DryRun, Option, QuietPath, is_given, with_settings
from energyscope.cli.output import draw, path_text
from energyscope.errors import RunError, UsageError
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.fields import select_settings
from energyscope.settings.run import BENCHMARK_OF_RUN, WHAT, RunSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from energyscope.runs.store import Run

BENCHMARK = [
    replace(
        setting, name=name, options=(f"--{name.replace('_', '-')}",), panel=WHAT, help=f"Benchmark: {setting.help}"
    )
    for name, field in BENCHMARK_OF_RUN.items()
    for setting in select_settings(BenchmarkSettings, field)
]
DECLARED = (*select_settings(RunSettings), *BENCHMARK)


@report_errors
@reading_runs
@with_settings(lambda model, values, _: RunSettings.of(model, **values), *DECLARED, required=False)
def command(
    settings: RunSettings | None,
    context: typer.Context,
    *,
    resume: Annotated[
        str | None,
        Option(
            metavar="RUN", help="Go on with a run that was stopped, with its settings.", rich_help_panel=MOST_USED
        ),
    ] = None,
    new_run: Annotated[
        bool,
        Option("--new-run", help="With --resume: a new run, with the settings of RUN.", rich_help_panel=MOST_USED),
    ] = False,
    dry_run: DryRun = False,
    quiet: QuietPath = False,
    as_json: Annotated[
        bool, Option("--json", help="Print the summary (or the plan) as JSON.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Measure a model's energy and impact, and write a report."""
    lacking: list[str] | None = None
    if resume is not None:
        path = _named(resume, context)
        if not new_run and _lacks_nothing(path, quiet=quiet, as_json=as_json):
            return
        settings, lacking = _of_run(path, new_run=new_run)
    elif new_run:
        raise UsageError("--new-run requires --resume RUN")
    elif settings is None:
        raise UsageError("name a model, or a run with --resume")
    if dry_run:
        show_plan(settings, as_json=as_json)
    else:
        measure(settings, lacking, quiet=quiet, as_json=as_json)


def _named(run: str, context: typer.Context) -> Path:
    """Return the directory of a run that is to go on; refuse to change what its stages have in common."""
    from energyscope.runs.store import find_run
    from energyscope.serving.run import refuse_server

    named = {"model": "the model", **{option.key: option.option for option in DECLARED if option.name != "root"}}
    for key, option in {**named, "dry_run": "--dry-run"}.items():
        if is_given(context, key):
            raise UsageError(f"--resume uses the settings of the run: leave {option} out")
    path = find_run(run, context.params["root"]).resolve()
    refuse_server(path)
    return path


def _lacks_nothing(path: Path, *, quiet: bool, as_json: bool) -> bool:
    """Show a run that is finished, and tell whether it is: neither a model nor torch is needed for that."""
    from rich.console import Console

    from energyscope.runs.store import lacking_stages, load_run

    if lacking_stages(path):
        return False
    typer.echo(f"{path.name} is finished: there is nothing to do", err=True)
    _show(load_run(path), Console(stderr=as_json), quiet=quiet, as_json=as_json)
    return True


def _of_run(path: Path, *, new_run: bool) -> tuple[RunSettings, list[str] | None]:
    """Return the settings of a run, and what it lacks; None of it where another one is to begin."""
    from energyscope.runs.store import read_document
    from energyscope.stages.resume_run import resumable, settings_in

    if new_run:
        settings = settings_in(read_document(path))
        device = "auto" if settings.tensor_parallel else settings.device  # torchrun gives each process its own
        settings = replace(settings, locked_clock_mhz=None)  # of the sweep that the run was a cell of
        return replace(settings, name=None, root=path.parent, device=device), None
    return resumable(path)


def measure(
    settings: RunSettings, lacking: list[str] | None = None, *, quiet: bool = False, as_json: bool = False
) -> None:
    """Do what settings ask for, or what a run is ``lacking``, in view, and end with its answer.

    Raises:
        RunError: every stage that was asked for was skipped: scripts read the exit code. A new run is removed.

    """
    from rich.console import Console

    from energyscope.cli.progress import measured_in_view
    from energyscope.runs.archive import held, remove

    console = Console(stderr=as_json)
    paths: list[Path] = []
    try:
        run = measured_in_view(settings, console, paths, command="run", quiet=quiet, lacking=lacking)
    except BaseException as error:
        if paths and not settings.tensor_parallel:
            error.add_note(f"`energyscope run --resume {shlex.quote(str(paths[0]))}` goes on")
        raise
    undone = _why_nothing(run, settings.stages)  # of a resumed run too: it ends as the whole run would
    if undone and lacking is None:
        with held([str(run.path)], settings.root) as made:
            remove(*made)
    else:
        _show(run, console, quiet=quiet, as_json=as_json)
    if undone:
        raise RunError(f"nothing was done ({undone})")


def _why_nothing(run: Run, asked: Sequence[str]) -> str | None:
    """Return why every stage that was asked for was skipped; None where one was not."""
    from energyscope.reasons import words

    states = {name: run.document["stages"].get(name) or {} for name in asked if name != "report"}
    if not states or any(state.get("state") != "skipped" for state in states.values()):
        return None
    return "; ".join(f"{name}: {words(str(state.get('reason') or ''))}" for name, state in states.items())


def _show(run: Run, console: Console, *, quiet: bool, as_json: bool) -> None:
    from energyscope.reporting.run.terminal import answer_of
    from energyscope.runs.summary import summary

    result = summary(run)
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    elif quiet:
        typer.echo(path_text(result["report"] or result["path"]))
    else:
        draw(lambda width: answer_of(run, width), console)

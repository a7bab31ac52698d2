"""`energyscope benchmark MODEL`: the whole model at several precisions, batch sizes and lengths."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.dry_run import show_plan
from energyscope.cli.errors import report_errors
from energyscope.cli.options import OUTPUT, DryRun, Option, Quiet, with_settings
from energyscope.cli.output import draw
from energyscope.errors import UsageError
from energyscope.settings.run import HOW, RunSettings
from energyscope.settings.single_stage import BENCHMARK, benchmark_settings


@report_errors
@with_settings(benchmark_settings, *BENCHMARK)
def command(
    settings: RunSettings,
    *,
    no_warmup: Annotated[bool, Option("--no-warmup", help="Skip the warm-up.", rich_help_panel=HOW)] = False,
    output: Annotated[
        Path | None,
        Option(
            help="Also write the table to this CSV file, and all results to a JSON file beside it.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    verbose: Annotated[
        bool, Option("--verbose", "-v", help="Also print every trial.", rich_help_panel=OUTPUT)
    ] = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    as_json: Annotated[
        bool, Option("--json", help="Print the benchmark (or the plan) as JSON.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Compare a model's precisions: latency, energy and accuracy."""
    if no_warmup:
        settings = replace(settings, benchmark=replace(settings.benchmark, warmup_steps=0))
    settings.benchmark.check()
    if output is not None:
        check_output(output)
    if dry_run:
        show_plan(settings, as_json=as_json)
        return
    _benchmark(settings, output, verbose=verbose, quiet=quiet, as_json=as_json)


def check_output(output: Path) -> None:
    """Refuse a file that cannot be written, before hours are spent on it.

    Raises:
        UsageError: it is a directory, exists already, or its directory cannot be written.

    """
    if output.is_dir():
        raise UsageError(f"--output {output} is a folder: name a .csv file in it")
    for path in (output, output.with_suffix(".json")):
        if path.exists():
            raise UsageError(f"--output {path} exists: give another file, or remove it")
    if output.suffix.lower() != ".csv":
        raise UsageError(f"--output {output} must end in .csv (its JSON is written beside it)")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch()
    except OSError as error:
        raise UsageError(
            f"--output {output} cannot be written ({error.strerror or error}): give another"
        ) from error
    output.unlink()


def _benchmark(settings: RunSettings, output: Path | None, *, verbose: bool, quiet: bool, as_json: bool) -> None:
    from rich.console import Console

    from energyscope.cli.progress import measured_in_view
    from energyscope.reporting.run import terminal

    console = Console(stderr=as_json)
    paths: list[Path] = []
    try:
        run = measured_in_view(settings, console, paths, command="benchmark", quiet=quiet)
    finally:  # what was finished before an interruption, too
        if output is not None and paths:
            _copy(paths[0], output)
    if as_json:
        typer.echo(json.dumps(run.benchmark, indent=1))
    elif not quiet:
        if verbose:
            draw(lambda width: terminal.trials(run).rich(width), console)
        draw(lambda width: terminal.table_of(run, "benchmark").rich(width), console)
        draw(lambda width: terminal.answer_of(run, width), console)


def _copy(path: Path, output: Path) -> None:
    from energyscope.runs import schema

    if (path / schema.BENCHMARK_FILE).is_file():
        shutil.copyfile(path / schema.BENCHMARK_FILE, output)
        shutil.copyfile(path / schema.BENCHMARK_JSON, output.with_suffix(".json"))

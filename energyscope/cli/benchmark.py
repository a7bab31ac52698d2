"""`energyscope benchmark MODEL`: the whole model at several precisions, batch sizes and lengths."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from energyscope.cli.errors import report_errors
from energyscope.cli.options import OUTPUT, Option, Quiet, with_settings
from energyscope.cli.output import draw
from energyscope.errors import UsageError
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.fields import select_settings, settings_of
from energyscope.settings.run import HOW, ONE_EXECUTION, RunSettings

OF_RUN = (
    "weights", "execution", "device", "gpu_id", "whole_gpu", "trust_remote_code", "adapter", "meter", "watts",
    "data",
    "text_column", "label_column", "max_examples", "stride", "seed", "name", "root",
)  # fmt: skip


def _settings(model: str, values: Mapping[str, Any], _: Collection[str]) -> RunSettings:
    """Return the settings of a run that is a benchmark and nothing else."""
    own = {name: values[name] for name in settings_of(BenchmarkSettings)}
    if not own["batch_sizes"]:
        raise UsageError("--batch-size names nothing: leave it out, or name one")
    return RunSettings.of(
        model,
        **{name: values[name] for name in OF_RUN},
        benchmark=BenchmarkSettings(**own),
        stages=("benchmark", "report"),
        batch_size=own["batch_sizes"][0],
        sequence_length=next(iter(own["sequence_lengths"]), None),
        sample_interval_s=own["power_sample_interval_s"],
    )


@report_errors
@with_settings(
    _settings,
    *select_settings(
        BenchmarkSettings,
        batch_sizes={"default": (1,)},
        trials={"default": 5},
        trial_seconds={"default": 2.0},
    ),
    *select_settings(RunSettings, *OF_RUN, execution={"help": f"{ONE_EXECUTION}."}),
)
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
    quiet: Quiet = False,
    as_json: Annotated[
        bool, Option("--json", help="Print the benchmark as JSON.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Compare a model's precisions: latency, energy and accuracy."""
    if no_warmup:
        settings = replace(settings, benchmark=replace(settings.benchmark, warmup_steps=0))
    settings.benchmark.check()
    if output is not None:
        check_output(output)
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

"""`energyscope benchmark MODEL`: the whole model at several precisions, batch sizes and lengths."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from energyscope.benchmarking.settings import BenchmarkSettings
from energyscope.cli import options as shared
from energyscope.cli.guard import guarded
from energyscope.cli.options import Option
from energyscope.cli.words import numbers, words
from energyscope.errors import UsageError

if TYPE_CHECKING:
    from energyscope.runs.store import Run

NAME = "benchmark"


@guarded
def command(  # noqa: PLR0917 - Typer passes options by name
    model: shared.Model,
    precision: Annotated[
        str,
        Option(
            metavar="P[,P...]",
            help="fp32, fp16, bf16, fp16-autocast, int8, int8-static, nf4, fp4; auto: the usual ones that this "
            "device supports. The baseline is fp32, else bf16, fp16 or the first.",
        ),
    ] = "auto",
    batch_size: Annotated[str, Option(metavar="N[,N...]", help="Sequences in a forward pass.")] = "1",
    sequence_length: Annotated[
        str,
        Option(metavar="N[,N...]", help="Tokens of a sequence [default: 128, or the model's maximum]."),
    ] = "",
    num_iters: Annotated[
        int, Option(help="Timed forward passes per trial; more if the meter needs a longer one.")
    ] = 1000,
    warmup_steps: Annotated[int, Option(help="Warm-up passes at least; more until the latency is stable.")] = 100,
    no_warmup: Annotated[bool, Option("--no-warmup", help="Skip the warm-up.")] = False,
    trials: Annotated[int, Option("--trials", "--trial", help="Trials of each setting, in shuffled blocks.")] = 5,
    trial_seconds: Annotated[
        float | None, Option(help="Most seconds per trial, with fewer passes if needed [default: no limit].")
    ] = None,
    power_sample_interval: Annotated[
        float, Option(metavar="MS", help="Milliseconds between power samples; the board's own interval at least.")
    ] = 100.0,
    weights: shared.Weights = "pretrained",
    execution: shared.Execution = "eager",
    device: shared.Device = "auto",
    gpu_id: shared.GpuId = "",
    whole_gpu: shared.WholeGpu = False,
    meter: shared.Meter = "auto",
    watts: shared.Watts = 65.0,
    data: shared.Data = None,
    text_column: shared.TextColumn = "text",
    label_column: shared.LabelColumn = "label",
    max_examples: shared.MaxExamples = None,
    stride: shared.Stride = None,
    seed: Annotated[int, Option(help="Seed of random weights, tokens and the order of trials.")] = 0,
    trust_remote_code: shared.TrustRemoteCode = False,
    name: shared.Name = None,
    root: shared.Root = Path("runs"),
    output: Annotated[
        Path | None,
        Option(help="Also write the table to this CSV file, and all results to a JSON file beside it."),
    ] = None,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Also print every trial.")] = False,
    quiet: shared.Quiet = False,
    as_json: Annotated[bool, Option("--json", help="Print the benchmark as JSON.")] = False,
) -> None:
    """Compare a model's precisions: latency, energy and accuracy."""
    settings = BenchmarkSettings(
        precisions=words(precision.lower()),
        batch_sizes=numbers("--batch-size", batch_size),
        sequence_lengths=numbers("--sequence-length", sequence_length),
        num_iters=num_iters,
        warmup_steps=0 if no_warmup else warmup_steps,
        trials=trials,
        trial_seconds=trial_seconds,
        power_sample_interval_s=power_sample_interval / 1e3,
    )
    settings.check()
    if not settings.batch_sizes:
        raise UsageError("--batch-size names nothing: leave it out, or name one")
    if output is not None:
        check_output(output)
    options: dict[str, Any] = {
        "stages": ("benchmark", "report"), "benchmark": settings,
        "batch_size": settings.batch_sizes[0], "sequence_length": next(iter(settings.sequence_lengths), None),
        "sample_interval_s": power_sample_interval / 1e3, "weights": weights, "device": device,
        "execution": execution, "gpu_id": words(gpu_id), "whole_gpu": whole_gpu, "meter": meter,
        "watts": watts, "data": data,
        "text_column": text_column, "label_column": label_column, "max_examples": max_examples, "stride": stride,
        "seed": seed, "trust_remote_code": trust_remote_code, "name": name, "root": root,
    }  # fmt: skip
    _benchmark(model, options, output, verbose=verbose, quiet=quiet, as_json=as_json)


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


def _benchmark(
    model: str, options: dict[str, Any], output: Path | None, *, verbose: bool, quiet: bool, as_json: bool
) -> None:
    from rich.console import Console

    from energyscope.cli.progress import progress
    from energyscope.reporting.run import terminal
    from energyscope.reporting.terminal_text import Harmless
    from energyscope.stages.run import run

    console = Console(stderr=as_json)
    command = shlex.join(["energyscope", *sys.argv[1:]])
    made: list[Path] = []
    stages = ("load", *options["stages"])
    try:
        with progress(console, quiet=quiet, title=f"energyscope benchmark {model}", stages=stages) as report:

            def follow(path: Path) -> None:
                made.append(path)
                report.follow(path)

            done: Run = run(
                model, progress=report, command=command, follow=follow, foresee=report.foresee, **options
            )
    finally:  # what was finished before an interruption, too
        if output is not None and made:
            _copy(made[0], output)
    if as_json:
        typer.echo(json.dumps(done.benchmark, indent=1))
    elif not quiet:
        if verbose:
            console.print(Harmless(terminal.trials(done).rich(console.width)))
        console.print(Harmless(terminal.table_of(done, "benchmark").rich(console.width)))
        console.print(Harmless(terminal.answer_of(done, console.width)))


def _copy(path: Path, output: Path) -> None:
    from energyscope.runs import schema

    if (path / schema.BENCHMARK_FILE).is_file():
        shutil.copyfile(path / schema.BENCHMARK_FILE, output)
        shutil.copyfile(path / schema.BENCHMARK_JSON, output.with_suffix(".json"))

"""`energyscope sweep MODEL|FILE`: a model over lengths, batch sizes and precisions."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from energyscope.cli import options as shared
from energyscope.cli.guard import guarded
from energyscope.cli.options import Option
from energyscope.cli.sweep_file import SUFFIX, read_settings, refuse_other_lengths
from energyscope.cli.sweep_preview import HELD_UNKNOWN, show_resume_plan, show_sweep_plan
from energyscope.cli.words import numbers, words
from energyscope.errors import UsageError

if TYPE_CHECKING:
    from energyscope.stages.sweep import SweepSettings

NAME = "sweep"
BESIDE_RESUME = ("resume", "retry", "dry_run", "root", "quiet", "as_json")
VARIED = ("sequence_length", "context_length", "batch_size", "precision", "name")


@guarded
def command(  # noqa: PLR0917 - Typer passes options by name
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL|FILE]",
            help="A short name (`energyscope models`), a hub id or a folder; or a FILE.toml of these options.",
        ),
    ] = None,
    sequence_length: Annotated[
        str, Option(metavar="N[,N...]", help="Tokens of a sequence; one cell for each length and batch size.")
    ] = "32,64,128,256",
    context_length: Annotated[
        str, Option(metavar="N[,N...]", help="With --phase decode: tokens in the KV cache, instead of a sequence.")
    ] = "128,512,1024",
    batch_size: Annotated[str, Option(metavar="N[,N...]", help="Sequences in a forward pass.")] = "1",
    precision: Annotated[
        str, Option(metavar="P[,P...]", help="fp32, fp16, bf16, int8, nf4, fp4; auto: as stored, fp32 on a CPU.")
    ] = "auto",
    phase: Annotated[str, Option(help="prefill: a forward pass; decode: a step on a filled cache.")] = "prefill",
    granularity: Annotated[str, Option(help="coarse, medium or fine.")] = "medium",
    layers: Annotated[
        str, Option(help="kinds: the mean of each kind of component; or mean, sample or all, as in `run`.")
    ] = "kinds",
    weights: shared.Weights = "pretrained",
    execution: shared.Execution = "eager",
    kv_cache: Annotated[str, Option(help="dynamic or static, of a decode step.")] = "dynamic",
    device: shared.Device = "auto",
    device_map: shared.DeviceMap = None,
    gpu_id: shared.GpuId = "",
    whole_gpu: shared.WholeGpu = False,
    meter: shared.Meter = "auto",
    watts: shared.Watts = 65.0,
    passes: Annotated[int, Option(help="Windows of each component at least.")] = 3,
    target_interval: Annotated[
        float, Option(help="Relative 95 % half-width at which measuring a component stops.")
    ] = 0.01,
    component_budget: Annotated[float, Option(help="Most seconds of windows for a component.")] = 1.0,
    seed: Annotated[int, Option(help="Seed of random weights, tokens and order.")] = 0,
    trust_remote_code: shared.TrustRemoteCode = False,
    resume: Annotated[
        str | None, Option(metavar="SWEEP", help="Continue an interrupted sweep, with its settings.")
    ] = None,
    retry: Annotated[
        bool, Option("--retry", help="With --resume: retry cells that failed or did not fit.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show the cells that would be measured, and about how long they take.")
    ] = False,
    name: Annotated[str | None, Option(help="Name of the sweep [default: model and time].")] = None,
    root: shared.Root = Path("runs"),
    quiet: shared.Quiet = False,
    as_json: Annotated[bool, Option("--json", help="Print the cells as JSON.")] = False,
) -> None:
    """Measure a model over lengths, batch sizes and precisions.

    Each combination is a cell of the sweep and a run of its own; the model is loaded once for each precision.

    For example: energyscope sweep gpt2 --sequence-length 32,64,128 --batch-size 1,4
    """
    options: dict[str, Any] = {
        "model": model, "sequence_length": sequence_length, "context_length": context_length,
        "batch_size": batch_size, "precision": precision, "phase": phase, "granularity": granularity,
        "layers": layers, "weights": weights, "execution": execution, "kv_cache": kv_cache, "device": device,
        "device_map": device_map, "gpu_id": gpu_id, "whole_gpu": whole_gpu, "meter": meter, "watts": watts,
        "passes": passes, "target_interval": target_interval, "component_budget": component_budget,
        "seed": seed, "trust_remote_code": trust_remote_code, "name": name, "root": root,
    }  # fmt: skip
    given = [one for one in context.params if _is_given(context, one)]
    if resume is not None:
        _refuse_beside_resume(given)
    elif retry:
        raise UsageError("--retry requires --resume SWEEP")
    settings = None if resume is not None else _settings(options, given)
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


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse_beside_resume(given: list[str]) -> None:
    """Refuse to change what the cells of a sweep have in common."""
    for name in given:
        if name not in BESIDE_RESUME:
            option = "the model" if name == "model" else f"--{name.replace('_', '-')}"
            raise UsageError(f"--resume uses the settings of the sweep: leave {option} out")


def _settings(options: dict[str, Any], given: list[str]) -> SweepSettings:
    """Return the settings of the options, and of the file that stands in the model's place; options win."""
    from energyscope.stages.settings import RunSettings
    from energyscope.stages.sweep import SweepSettings

    model = options["model"]
    if model is not None and Path(model).suffix == SUFFIX:
        stated = read_settings(Path(model), options)
        kept = {key: one for key, one in options.items() if key in given and key != "model"}
        options = {**options, "model": None, **stated, **kept}
        given = [*given, *stated]
        if options["model"] is None:
            raise UsageError(f'{model} names no model: add a line such as model = "gpt2"')
    if options["model"] is None:
        raise UsageError("name a model, a FILE.toml, or a sweep with --resume")
    refuse_other_lengths(options["phase"], given)
    length = "context_length" if options["phase"] == "decode" else "sequence_length"
    run = {key: one for key, one in options.items() if key not in VARIED}
    run |= {"gpu_id": words(run["gpu_id"]), "component_budget_s": run.pop("component_budget")}
    return SweepSettings(
        RunSettings.of(**run),
        lengths=numbers(f"--{length.replace('_', '-')}", options[length]),
        batch_sizes=numbers("--batch-size", options["batch_size"]),
        precisions=tuple(dict.fromkeys(words(options["precision"].lower()))),
        name=options["name"],
    )


def _sweep(
    settings: SweepSettings | None, resumed: str | None, root: Path, *, retry: bool, quiet: bool, as_json: bool
) -> None:
    """Measure a new sweep, or what another one lacks, and show it."""
    from rich.console import Console

    from energyscope.cli.progress import progress
    from energyscope.reporting.scaling.sweep import sweep_text
    from energyscope.reporting.terminal_text import Harmless
    from energyscope.runs.sweep_rows import sweep_rows
    from energyscope.runs.sweeps import find_sweep, is_held
    from energyscope.stages.resume_sweep import resume
    from energyscope.stages.sweep import sweep

    console = Console(stderr=as_json)
    command = shlex.join(["energyscope", *sys.argv[1:]])
    with progress(console, quiet=quiet) as report:
        if settings is None:
            path = find_sweep(str(resumed), root)
            if is_held(path) is None and not quiet:
                typer.echo(HELD_UNKNOWN, err=True)
            done = resume(path, retry=retry, progress=report, command=command)
        else:
            done = sweep(settings, progress=report, command=command)
    if as_json:
        typer.echo(json.dumps(sweep_rows(done), indent=1))
    elif not quiet:
        console.print(Harmless(sweep_text(done, console.width)))

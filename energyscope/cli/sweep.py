"""`energyscope sweep MODEL`: a model over lengths, batch sizes and precisions."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli import options as shared
from energyscope.cli.guard import guarded
from energyscope.cli.options import Option
from energyscope.cli.words import numbers, words

NAME = "sweep"


@guarded
def command(  # noqa: PLR0917 - Typer passes options by name
    model: shared.Model,
    sequence_length: Annotated[
        str, Option(metavar="N[,N...]", help="Tokens of a sequence, one cell for each and each batch size.")
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
        str, Option(help="kinds: everything as the mean of its kind; or mean, sample or all, as in `run`.")
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
    passes: Annotated[int, Option(help="Windows taken of each component before it may stop.")] = 3,
    target_interval: Annotated[
        float, Option(help="Relative 95 % half-width at which a component is measured no more.")
    ] = 0.01,
    component_budget: Annotated[float, Option(help="Seconds of windows of one component at most.")] = 1.0,
    seed: Annotated[int, Option(help="Of random weights, tokens and order.")] = 0,
    trust_remote_code: shared.TrustRemoteCode = False,
    name: Annotated[str | None, Option(help="Name of the sweep [default: model and time].")] = None,
    root: shared.Root = Path("runs"),
    quiet: shared.Quiet = False,
    as_json: Annotated[bool, Option("--json", help="Print the cells as JSON.")] = False,
) -> None:
    """Measure a model over lengths, batch sizes and precisions: each cell a run, the model loaded once."""
    from rich.console import Console

    from energyscope.cli.progress import progress
    from energyscope.reporting.terminal_sweep import sweep_summary
    from energyscope.runs.sweep_rows import sweep_rows
    from energyscope.stages.settings import RunSettings
    from energyscope.stages.sweep import SweepSettings, sweep

    run = RunSettings.of(
        model, granularity=granularity, layers=layers, weights=weights, phase=phase, execution=execution,
        kv_cache=kv_cache, device=device, device_map=device_map, gpu_id=words(gpu_id), whole_gpu=whole_gpu,
        meter=meter, watts=watts, passes=passes, target_interval=target_interval,
        component_budget_s=component_budget, seed=seed, trust_remote_code=trust_remote_code, root=root,
    )  # fmt: skip
    option, text = (
        ("--context-length", context_length) if phase == "decode" else ("--sequence-length", sequence_length)
    )
    settings = SweepSettings(
        run,
        lengths=numbers(option, text),
        batch_sizes=numbers("--batch-size", batch_size),
        precisions=tuple(dict.fromkeys(words(precision.lower()))),
        name=name,
    )
    console = Console(stderr=as_json)
    with progress(console, quiet=quiet) as report:
        done = sweep(settings, progress=report, command=shlex.join(["energyscope", *sys.argv[1:]]))
    if as_json:
        typer.echo(json.dumps(sweep_rows(done), indent=1))
    elif not quiet:
        console.print(sweep_summary(done))

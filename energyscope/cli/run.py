"""`energyscope run MODEL`: the whole job."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from energyscope.benchmarking.settings import BenchmarkSettings
from energyscope.cli import options as shared
from energyscope.cli.guard import guarded
from energyscope.cli.options import Option
from energyscope.cli.preview import show_plan
from energyscope.cli.words import numbers, path_said, words
from energyscope.impact.methods import DEFAULT_METHODS

if TYPE_CHECKING:
    from rich.console import Console

    from energyscope.runs.store import Run

NAME = "run"
STAGES = ("benchmark", "generate", "profile", "alternatives", "ablate", "correlate", "report")


@guarded
def command(  # noqa: PLR0917 - Typer passes options by name
    model: shared.Model,
    granularity: Annotated[str, Option(help="coarse, medium or fine.")] = "medium",
    layers: Annotated[
        str,
        Option(
            help="mean: each layer as a whole, its sub-components as means over layers; all: everything in each "
            "layer; sample: the first, middle and last layer; kinds: the mean of each kind of "
            "component; auto: sample with --phase both, else mean."
        ),
    ] = "auto",
    precision: Annotated[
        str,
        Option(help="fp32, fp16, bf16, int8, nf4, fp4; auto: as stored, fp32 on a CPU."),
    ] = "auto",
    double_quant: shared.DoubleQuant = False,
    compute_dtype: shared.ComputeDtype = None,
    skip_modules: shared.SkipModules = "",
    weights: shared.Weights = "pretrained",
    phase: Annotated[
        str,
        Option(
            help="prefill: a forward pass without a KV cache; decode: a step with a filled one; both: the prompt "
            "and the decode steps of a generation; auto: both for chat models, else prefill."
        ),
    ] = "auto",
    context_length: Annotated[
        str,
        Option(
            metavar="N[,N...]",
            help="Tokens in the KV cache of a decode step; several are measured in turn [default: 1024, or the "
            "model's maximum].",
        ),
    ] = "",
    kv_cache: Annotated[
        str, Option(help="dynamic: grows, and is copied at every step; static: allocated at full size.")
    ] = "dynamic",
    new_tokens: Annotated[int, Option(help="Tokens to generate.")] = 128,
    execution: shared.Executions = "eager",
    sampling: Annotated[
        str,
        Option(
            help="replay: repeat each component in windows; triggered: read the meter around each component of "
            "ordinary passes (no energy for those shorter than the meter's tick)."
        ),
    ] = "replay",
    device: shared.Device = "auto",
    device_map: shared.DeviceMap = None,
    tensor_parallel: shared.TensorParallel = False,
    gpu_id: shared.GpuId = "",
    whole_gpu: shared.WholeGpu = False,
    meter: shared.Meter = "auto",
    watts: shared.Watts = 65.0,
    sample_interval: Annotated[float, Option(help="Seconds between samples of the nvidia-smi meter.")] = 0.1,
    passes: Annotated[int, Option(help="Windows of each component at least (triggered: readings).")] = 5,
    target_interval: Annotated[
        float, Option(help="Stop measuring a component at this relative 95 % half-width.")
    ] = 0.01,
    component_budget: Annotated[
        float | None, Option(help="Most seconds of windows for a component [default: set by the meter].")
    ] = None,
    window: Annotated[float | None, Option(help="Seconds of a replay window [default: set by the meter].")] = None,
    methods: Annotated[
        str,
        Option(
            help="Changes made to each component. Removal: zero, mean, resample (from another example), skip "
            "(layers only). Simulated quantization: int8, int8-tensor, int4, fp8, nf4; with activations: int8-wa, "
            "fp8-wa. Quantization by bitsandbytes: bnb-int8, bnb-nf4."
        ),
    ] = ",".join(DEFAULT_METHODS),
    joint: Annotated[
        str, Option(help="Also remove together: kinds (in all layers), pairs (of layers), all, or off.")
    ] = "kinds",
    heads: Annotated[
        str, Option(help="Also remove attention heads: each, kv (heads that share keys and values), or off.")
    ] = "off",
    adaptive: Annotated[bool, Option("--adaptive", help="Stop early for components whose rank is clear.")] = False,
    predict: Annotated[
        bool, Option("--predict/--no-predict", help="Also predict impact from gradients and weights.")
    ] = True,
    stages: Annotated[str, Option(help="Stages to run.")] = ",".join(STAGES),
    benchmark_precision: Annotated[
        str,
        Option(
            metavar="P[,P...]",
            help="Precisions to benchmark; auto: the usual ones that this device supports.",
        ),
    ] = "auto",
    trials: Annotated[
        int, Option(help="Benchmark trials of about a second; `energyscope benchmark` has more options.")
    ] = 3,
    batch_size: Annotated[int, Option(help="Sequences in a forward pass.")] = 1,
    sequence_length: Annotated[
        int | None,
        Option(help="Tokens of a sequence [default: 128, or the model's maximum]."),
    ] = None,
    data: shared.Data = None,
    text_column: shared.TextColumn = "text",
    label_column: shared.LabelColumn = "label",
    max_examples: shared.MaxExamples = None,
    stride: shared.Stride = None,
    seed: Annotated[int, Option(help="Seed of random weights, tokens, order and resampling.")] = 0,
    trust_remote_code: shared.TrustRemoteCode = False,
    name: shared.Name = None,
    root: shared.Root = Path("runs"),
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be measured, and about how long it takes.")
    ] = False,
    quiet: shared.QuietPath = False,
    as_json: Annotated[bool, Option("--json", help="Print the summary (or the plan) as JSON.")] = False,
) -> None:
    """Measure a model's energy and impact, and write a report."""
    options: dict[str, Any] = {
        "granularity": granularity, "layers": layers, "precision": precision, "weights": weights, "phase": phase,
        "double_quant": double_quant, "compute_dtype": compute_dtype, "skip_modules": words(skip_modules),
        "device_map": device_map, "tensor_parallel": tensor_parallel,
        "context_lengths": numbers("--context-length", context_length), "kv_cache": kv_cache,
        "new_tokens": new_tokens,
        "execution": execution, "sampling": sampling, "device": device, "gpu_id": words(gpu_id),
        "whole_gpu": whole_gpu, "meter": meter, "watts": watts, "sample_interval_s": sample_interval,
        "passes": passes, "target_interval": target_interval, "component_budget_s": component_budget,
        "window_s": window,
        "methods": words(methods), "joint": joint, "heads": heads, "adaptive": adaptive, "predict": predict,
        "stride": stride, "stages": words(stages), "batch_size": batch_size,
        "sequence_length": sequence_length, "data": data, "text_column": text_column,
        "label_column": label_column, "max_examples": max_examples, "seed": seed,
        "trust_remote_code": trust_remote_code, "name": name, "root": root,
        "benchmark": BenchmarkSettings(precisions=words(benchmark_precision.lower()), trials=trials),
    }  # fmt: skip
    if dry_run:
        show_plan(model, options, as_json=as_json)
    else:
        _run(model, options, quiet=quiet, as_json=as_json)


def _run(model: str, options: dict[str, Any], *, quiet: bool, as_json: bool) -> None:
    from rich.console import Console

    from energyscope.cli.progress import progress

    console = Console(stderr=as_json)
    stages = ("load", *(name for name in STAGES if name in options["stages"]))
    with progress(console, quiet=quiet, title=f"energyscope run {model}", stages=stages) as report:
        from energyscope.stages.run import run  # seconds, in which the terminal shows something

        made: list[Path] = []

        def follow(path: Path) -> None:
            made.append(path)
            report.follow(path)

        try:
            done: Run = run(
                model, progress=report, command=_command(), follow=follow, foresee=report.foresee, **options
            )
        except KeyboardInterrupt as error:
            if made:
                other = " under another --name" if options["name"] else ""
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

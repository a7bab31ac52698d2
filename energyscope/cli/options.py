"""Options that several commands share, so that they are called and explained alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Option = typer.Option

Model = Annotated[str, typer.Argument(help="Short name, bundled model, local folder or Hugging Face id.")]
Weights = Annotated[str, Option(help="pretrained, or random: the true shape without a download.")]
ONE_EXECUTION = "eager, as most people run it; cuda-graph: without the host's launches"
Execution = Annotated[str, Option(help=f"{ONE_EXECUTION}.")]
Executions = Annotated[
    str, Option(help=f"{ONE_EXECUTION}; both: the profile in one and in the other, all else eager.")
]
Device = Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")]
DeviceMap = Annotated[
    str | None,
    Option(
        help="Spread the model over GPUs: auto, balanced, sequential, or a JSON file of module paths and devices "
        "[default: one device]."
    ),
]
TensorParallel = Annotated[
    bool,
    Option(
        "--tensor-parallel",
        help="Split every large matrix over the processes of `torchrun --nproc-per-node N -m energyscope run "
        "...`, a GPU each; profile and report only.",
    ),
]
DoubleQuant = Annotated[
    bool, Option("--double-quant", help="4-bit: quantize the scales of the weights as well (bitsandbytes).")
]
ComputeDtype = Annotated[
    str | None, Option(help="4-bit: what products are computed in, fp32, fp16 or bf16 [default: bf16].")
]
SkipModules = Annotated[
    str, Option(metavar="PATH[,PATH...]", help="Modules that stay unquantized, beside the head (bitsandbytes).")
]
GpuId = Annotated[
    str,
    Option(
        metavar="ID[,ID...]",
        help="GPUs to measure, by nvidia-smi's index, UUID (or its beginning) or MIG id; the model runs on "
        "the first, and several are summed and listed [default: the GPU of --device].",
    ),
]
WholeGpu = Annotated[bool, Option("--whole-gpu", help="Under MIG, measure the whole GPU with all of its slices.")]
Meter = Annotated[
    str,
    Option(
        help="auto: the best that answers; nvml (energy counter), nvml-power (integrated power), nvidia-smi, "
        "or modelled (time x stated watts)."
    ),
]
Watts = Annotated[float, Option(help="The modelled meter's watts.")]
Data = Annotated[
    str | None, Option(help="File or folder to judge predictions on, or a set of `energyscope prepare`.")
]
TextColumn = Annotated[str, Option(help="The data's column of texts.")]
LabelColumn = Annotated[str, Option(help="The data's column of labels.")]
MaxExamples = Annotated[int | None, Option(help="Examples to judge on [default: all].")]
Stride = Annotated[
    int | None, Option(help="Tokens from one window of running text to the next [default: half a window].")
]
TrustRemoteCode = Annotated[bool, Option("--trust-remote-code", help="Run the model's own Python code.")]
Name = Annotated[str | None, Option(help="Name of the run [default: model and time].")]
Root = Annotated[Path, Option(help="Where run directories go.")]
QuietPath = Annotated[bool, Option("--quiet", "-q", help="Print only errors, and where the result is.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only errors.")]

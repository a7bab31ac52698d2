"""Options that several commands share, so that they are called and explained alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Option = typer.Option

Model = Annotated[str, typer.Argument(help="Short name, bundled model, local folder or Hugging Face id.")]
Weights = Annotated[str, Option(help="pretrained, or random: the same shape without a download.")]
ONE_EXECUTION = "eager: the host launches each kernel; cuda-graph: kernels are captured once and replayed"
Execution = Annotated[str, Option(help=f"{ONE_EXECUTION}.")]
Executions = Annotated[str, Option(help=f"{ONE_EXECUTION}; both: the profile in each, all else in eager.")]
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
        help="Split large matrices over the processes of `torchrun --nproc-per-node N -m energyscope run ...`, "
        "one GPU each; profile and report only.",
    ),
]
DoubleQuant = Annotated[
    bool, Option("--double-quant", help="4-bit: quantize the scales of the weights, too (bitsandbytes).")
]
ComputeDtype = Annotated[
    str | None, Option(help="4-bit: type of the matrix products: fp32, fp16 or bf16 [default: bf16].")
]
SkipModules = Annotated[
    str, Option(metavar="PATH[,PATH...]", help="Modules to leave unquantized, besides the head (bitsandbytes).")
]
GpuId = Annotated[
    str,
    Option(
        metavar="ID[,ID...]",
        help="GPUs to measure: nvidia-smi index, UUID (or its beginning) or MIG id. The model runs on the "
        "first; energy is summed, and listed for each GPU [default: the GPU of --device].",
    ),
]
WholeGpu = Annotated[bool, Option("--whole-gpu", help="Under MIG, measure the whole GPU with all of its slices.")]
Meter = Annotated[
    str,
    Option(
        help="auto: the best available; nvml: energy counter; nvml-power: integrated power; nvidia-smi: its "
        "power, integrated; modelled: time x --watts."
    ),
]
Watts = Annotated[float, Option(help="Power of the modelled meter.")]
Data = Annotated[str | None, Option(help="Evaluation data: a file, a folder, or a set of `energyscope prepare`.")]
TextColumn = Annotated[str, Option(help="Column of texts in the data.")]
LabelColumn = Annotated[str, Option(help="Column of labels in the data.")]
MaxExamples = Annotated[int | None, Option(help="Evaluation examples to use [default: all].")]
Stride = Annotated[int | None, Option(help="Tokens between windows of running text [default: half a window].")]
TrustRemoteCode = Annotated[bool, Option("--trust-remote-code", help="Run the model's own Python code.")]
Name = Annotated[str | None, Option(help="Name of the run [default: model and time].")]
Root = Annotated[Path, Option(help="Where run directories go.")]
QuietPath = Annotated[bool, Option("--quiet", "-q", help="Print only errors and the path of the result.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only errors.")]

"""What a run was asked to do: one frozen record, checked before anything is loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from energyscope.adapters import Granularity
from energyscope.impact.methods import DEFAULT_METHODS, METHODS
from energyscope.loading.options import PRECISIONS, QUANTIZED, LoadSettings
from energyscope.metering.choice import DEFAULT_INTERVAL_S, DEFAULT_WATTS, METERS
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.budget import BUDGET, CARBON, PRICE, RATE
from energyscope.settings.fields import PANELS, read_options, setting, settings_of

if TYPE_CHECKING:
    import torch

    from energyscope.replay.replayer import Execution

MOST_USED, WHAT, HOW, QUALITY, DATA, OUTPUT = PANELS
EXECUTIONS: tuple[Execution, ...] = ("eager", "cuda-graph")
BOTH: Final = "both"
ONE_EXECUTION = "eager: the host launches each kernel; cuda-graph: kernels are captured once and replayed"
RUN_METERS = tuple(name for name in METERS if name != "recorded")

USUAL_STAGES = ("benchmark", "generate", "profile", "alternatives", "ablate", "correlate", "report")
RUN_STAGES = (*USUAL_STAGES[:-1], "plan", "report")
BENCHMARK_OF_RUN = {"benchmark_precision": "precisions", "trials": "trials"}  # of which `run` has options
BUNDLED_EXAMPLES = 200  # of a bundled model's data, by default: a first look, within two minutes on two cores
SPLIT_STAGES = ("profile", "report")  # those of a model that is split over processes


@dataclass(frozen=True)
class RunSettings:
    """The settings of `energyscope run`; each is an option of the command line.

    ``precision`` ``auto`` is what the weights are stored in on a GPU, and fp32 on a CPU. ``window_s`` None is
    the meter's own, and ``component_budget_s`` None the usual; ``max_examples`` None is all of the evaluation
    data, but 200 of a bundled model's without a plan. ``target_interval`` is the relative 95 % half-width at which
    a component is left alone. ``gpu_id`` names the GPUs that are measured (NVML's index, UUID or MIG id), the one
    that the model runs on first; none is the GPU of ``device``.
    """

    model: str
    granularity: Granularity = setting("medium", "coarse, medium or fine.", MOST_USED)
    precision: str = setting("auto", f"{', '.join(PRECISIONS)}; auto: as stored, fp32 on a CPU.", MOST_USED)
    weights: Literal["pretrained", "random"] = setting(
        "pretrained", "pretrained, or random: the same shape without a download.", MOST_USED
    )
    phase: Literal["auto", "prefill", "decode", "both"] = setting(
        "auto",
        "prefill: a forward pass without a KV cache; decode: a step with a filled one; both: the prompt and the "
        "decode steps of a generation; auto: both for chat models, else prefill.",
        MOST_USED,
    )
    batch_size: int = setting(1, "Sequences in a forward pass.", MOST_USED, least=1)
    sequence_length: int | None = setting(
        None, "Tokens of a sequence.", MOST_USED, least=1, unset="128, or the model's maximum"
    )
    stages: tuple[str, ...] = setting(
        USUAL_STAGES, "Stages to run; plan with --budget.", MOST_USED, choices=RUN_STAGES
    )
    data: str | None = setting(
        None,
        "Evaluation data: a file of texts or tensors, a folder, or a set of `energyscope prepare`.",
        MOST_USED,
    )
    name: str | None = setting(None, "Name of the run.", MOST_USED, unset="model and time")

    layers: Literal["auto", "mean", "all", "sample", "kinds"] = setting(
        "auto",
        "mean: each layer as a whole, its sub-components as means over layers; all: everything in each layer; "
        "sample: the first, middle and last layer; kinds: the mean of each kind of component; auto: sample with "
        "--phase both, else mean.",
        WHAT,
    )
    context_lengths: tuple[int, ...] = setting(
        (),
        "Tokens in the KV cache of a decode step; several are measured in turn.",
        WHAT,
        option="--context-length",
        least=1,
        unset="1024, or the model's maximum",
    )
    new_tokens: int = setting(128, "Tokens to generate.", WHAT, least=2)
    kv_cache: Literal["dynamic", "static"] = setting(
        "dynamic", "dynamic: grows, and is copied at every step; static: allocated at full size.", WHAT
    )
    execution: Literal["eager", "cuda-graph", "both"] = setting(
        "eager",
        f"{ONE_EXECUTION}; both: the profile in each, all else in eager.",
        WHAT,
    )
    device: str = setting("auto", "auto, cpu, cuda or cuda:N.", WHAT)
    device_map: str | None = setting(
        None,
        "Spread the model over GPUs: auto, balanced, sequential, or a JSON file of module paths and devices.",
        WHAT,
        unset="one device",
    )
    tensor_parallel: bool = setting(
        False,
        "Split large matrices over the processes of `torchrun --nproc-per-node N -m energyscope run ...`, one GPU "
        "each; profile and report only.",
        WHAT,
    )
    gpu_id: tuple[str, ...] = setting(
        (),
        "GPUs to measure: nvidia-smi index, UUID (or its beginning) or MIG id. The model runs on the first; "
        "energy is summed, and listed for each GPU.",
        WHAT,
        metavar="ID[,ID...]",
        unset="the GPU of --device",
    )
    whole_gpu: bool = setting(False, "Under MIG, measure the whole GPU with all of its slices.", WHAT)
    double_quant: bool = setting(False, "4-bit: quantize the scales of the weights, too (bitsandbytes).", WHAT)
    compute_dtype: str | None = setting(
        None, "4-bit: type of the matrix products: fp32, fp16 or bf16.", WHAT, unset="bf16"
    )
    skip_modules: tuple[str, ...] = setting(
        (), "Modules to leave unquantized, besides the head.", WHAT, metavar="PATH[,PATH...]"
    )
    trust_remote_code: bool = setting(False, "Run the model's own Python code.", WHAT)
    adapter: str | None = setting(
        None,
        "Adapter that names the components (`energyscope models`); auto: by structure.",
        WHAT,
        unset="the one of its model type",
    )

    sampling: Literal["replay", "triggered"] = setting(
        "replay",
        "replay: repeat each component in windows; triggered: read the meter around each component of ordinary "
        "passes (no energy for those shorter than the meter's tick).",
        HOW,
    )
    meter: str = setting(
        "auto",
        "auto: the best available; nvml: energy counter; nvml-power: integrated power; nvidia-smi: its power, "
        "integrated; amd: an AMD GPU's energy counter; rapl, apple: the processor's, for models on the CPU "
        "(RAPL is also read beside a GPU, without asking for it); "
        "modelled: time x --watts.",
        HOW,
        choices=RUN_METERS,
    )
    watts: float = setting(DEFAULT_WATTS, "Power of the modelled meter.", HOW, above=0, unit="watts")
    sample_interval_s: float = setting(
        DEFAULT_INTERVAL_S,
        "Seconds between samples of the nvidia-smi meter.",
        HOW,
        option="--sample-interval",
        above=0,
        most=10,
        unit="seconds",
    )
    passes: int = setting(5, "Windows of each component at least (triggered: readings).", HOW, least=1)
    target_interval: float = setting(
        0.01,
        "Stop measuring a component at this relative 95 % half-width.",
        HOW,
        above=0,
        most=1,
        unit="(a share: 0.01 is 1 %)",
    )
    component_budget_s: float | None = setting(
        None,
        "Most seconds of windows for a component.",
        HOW,
        option="--component-budget",
        above=0,
        most=3600,
        unit="seconds",
        unset="set by the meter",
    )
    window_s: float | None = setting(
        None,
        "Seconds of a window.",
        HOW,
        option="--window",
        above=0,
        most=600,
        unit="seconds",
        unset="set by the meter",
    )
    seed: int = setting(0, "Seed of random weights, tokens, order and resampling.", HOW, least=0)

    methods: tuple[str, ...] = setting(
        DEFAULT_METHODS,
        "Changes made to each component. Removal: zero, mean, resample (from another example), skip (layers "
        "only). Simulated quantization: int8, int8-tensor, int4, fp8, nf4; with activations: int8-wa, fp8-wa. "
        "By kernels that one deploys: fp8-real, w8a8-real, w8a16-real, int4-real, bnb-int8, bnb-nf4 "
        "(bitsandbytes).",
        QUALITY,
        choices=METHODS,
    )
    joint: Literal["off", "kinds", "pairs", "all"] = setting(
        "kinds", "Also remove together: kinds (in all layers), pairs (of layers), all, or off.", QUALITY
    )
    heads: Literal["off", "each", "kv"] = setting(
        "off", "Also remove attention heads: each, kv (heads that share keys and values), or off.", QUALITY
    )
    adaptive: bool = setting(False, "Stop early for components whose rank is clear.", QUALITY)
    predict: bool = setting(True, "Also predict impact from gradients and weights.", QUALITY)
    budget: str | None = setting(
        None,
        'Plan: how much worse predictions may become, such as "perplexity +0.5%", "accuracy -1%", "loss +0.01" or '
        '"kl 0.02".',
        QUALITY,
        unset="perplexity +0.5%, accuracy -1%; kl 0.01 of random weights",
    )
    objective: Literal["energy", "time", "memory"] = setting("energy", "Plan: what to save.", QUALITY)
    workloads: tuple[str, ...] = setting(
        (),
        "Plan: for what, with a batch size where it is another one, such as prefill,decode,decode:32.",
        QUALITY,
        metavar="W[,W...]",
        unset="the run's own phase and batch",
        lower=True,
    )
    levers: bool = setting(True, "Plan: also measure what else saves energy with it.", QUALITY)
    plan_precisions: tuple[str, ...] = setting(
        (),
        "Plan: precisions to choose from, beside the model's own.",
        QUALITY,
        metavar="P[,P...]",
        unset="the usual ones that this device has kernels for",
        lower=True,
    )

    text_column: str = setting("text", "Column of texts in the data.", DATA)
    label_column: str = setting("label", "Column of labels in the data.", DATA)
    max_examples: int | None = setting(
        None,
        "Evaluation examples to use.",
        DATA,
        least=2,
        unset=f"all; {BUNDLED_EXAMPLES} of a bundled model's without a plan",
    )
    stride: int | None = setting(
        None, "Tokens between windows of running text.", DATA, least=1, unset="half a window"
    )

    root: Path = setting(Path("runs"), "Where run directories go.", OUTPUT)
    tags: tuple[str, ...] = setting(
        (), "Tags by which `energyscope runs` finds the run.", OUTPUT, option="--tag", metavar="TAG[,TAG...]"
    )
    note: str | None = setting(None, "A note that is kept with the run.", OUTPUT, metavar="TEXT")
    price: float | None = setting(None, PRICE, OUTPUT, above=0)
    carbon: float | None = setting(None, CARBON, OUTPUT, above=0, unit="g")
    rate: float | None = setting(None, RATE, OUTPUT, above=0)
    export: Path | None = setting(
        None, "Plan: also write the model with it to this folder, for vLLM and transformers.", OUTPUT
    )
    export_format: Literal["compressed-tensors", "torchao", "bitsandbytes"] | None = setting(
        None,
        "Plan: the format of that folder: compressed-tensors, torchao or bitsandbytes.",
        OUTPUT,
        unset="the first that holds the precisions",
    )
    benchmark: BenchmarkSettings = field(default_factory=BenchmarkSettings)
    locked_clock_mhz: float | None = None  # by the sweep that the run is a cell of: NVML does not tell it

    @property
    def executions(self) -> tuple[Execution, ...]:
        """In which the profile measures; the first is that of all other stages."""
        return EXECUTIONS if self.execution == BOTH else (self.execution,)

    @classmethod
    def of(cls, model: str, **options: Any) -> Self:
        """Return the settings of options (see `read_options`), some of the benchmark's among them.

        Raises:
            UsageError: there is no such option.

        """
        of_benchmark = settings_of(BenchmarkSettings)
        declared = {**settings_of(cls), **{name: of_benchmark[field] for name, field in BENCHMARK_OF_RUN.items()}}
        options = read_options(declared, options, others=("benchmark", "locked_clock_mhz"))
        benchmark = {field: options.pop(field) for field in BENCHMARK_OF_RUN.values() if field in options}
        if benchmark:
            options["benchmark"] = replace(options.get("benchmark", BenchmarkSettings()), **benchmark)
        if options.get("budget") is not None and options.get("stages", USUAL_STAGES) == USUAL_STAGES:
            options["stages"] = RUN_STAGES  # who has a budget wants a plan
        return cls(model, **options)

    def loading(self, precision: str, devices: Sequence[torch.device]) -> LoadSettings:
        """Return how the model is to be loaded, with what was settled of it."""
        return LoadSettings(
            precision=precision,
            device=self.device,
            weights=self.weights,
            seed=self.seed,
            trust_remote_code=self.trust_remote_code,
            adapter=self.adapter,
            device_map=self.device_map,
            devices=devices if self.device_map else (),
            double_quant=self.double_quant,
            compute_dtype=self.compute_dtype,
            skip_modules=self.skip_modules if precision in QUANTIZED else (),  # a plan's, of unquantized models
            tensor_parallel=self.tensor_parallel,
        )

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: an unknown word or a number out of range, with what to give instead.

        """
        from energyscope.settings.run_checks import check  # late: it imports this module

        check(self)

    def check_places(self) -> None:
        """Refuse files and folders that cannot be used, before anything is loaded.

        Raises:
            UsageError: ``data`` is no file and no folder with data, ``name`` is taken or not plain, or ``root``
                cannot be written.

        """
        from energyscope.settings.run_checks import check_places

        check_places(self)

    def document(self) -> dict[str, Any]:
        """Return the settings as plain data, for run.json."""
        return {
            **asdict(self),
            "root": str(self.root),
            "export": None if self.export is None else str(self.export),
        }

    def fingerprint(self, **inputs: Any) -> str:
        """Return a digest of everything that decides what is measured, the given inputs included."""
        places = {"name", "root", "stages", "export", "export_format", "tags", "note", *BUDGET}
        settings = {key: value for key, value in self.document().items() if key not in places}
        text = json.dumps({**settings, **inputs}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

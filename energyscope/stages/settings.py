"""What a run was asked to do: one frozen record, checked before anything is loaded."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from energyscope.adapters import GRANULARITIES, Granularity, did_you_mean
from energyscope.benchmarking.settings import BenchmarkSettings
from energyscope.errors import UsageError
from energyscope.impact.methods import DEFAULT_METHODS, HEADS, JOINT, METHODS
from energyscope.loading.options import QUANTIZED, check_quantization
from energyscope.loading.sharding.device_maps import check_device_map
from energyscope.metering.choice import DEFAULT_INTERVAL_S, DEFAULT_WATTS, METERS
from energyscope.runs.store import RunStore

if TYPE_CHECKING:
    import torch

    from energyscope.replay.replayer import Execution

EXECUTIONS: tuple[Execution, ...] = ("eager", "cuda-graph")
BOTH: Final = "both"
LAYERS = ("auto", "mean", "all", "sample", "kinds")
PHASES = ("auto", "prefill", "decode", "both")
KV_CACHES = ("dynamic", "static")
SAMPLING = ("replay", "triggered")
RUN_METERS = tuple(name for name in METERS if name != "recorded")
WITHOUT_COUNTER = ("nvml-power", "nvidia-smi")

RUN_STAGES = ("benchmark", "generate", "profile", "alternatives", "ablate", "correlate", "report")
SPLIT_STAGES = ("profile", "report")  # those of a model that is split over processes


@dataclass(frozen=True)
class RunSettings:
    """The settings of `energyscope run`; each is an option of the command line.

    ``precision`` ``auto`` is what the weights are stored in on a GPU, and fp32 on a CPU. ``window_s`` None is
    the meter's own, and ``component_budget_s`` None the usual; ``max_examples`` None is all of the evaluation
    data. ``target_interval`` is the relative 95 % half-width at which a component is left alone. ``gpu_id`` names
    the GPUs that are measured (NVML's index, UUID or MIG id), the one that the model runs on first; none is the
    GPU of ``device``.
    """

    model: str
    name: str | None = None
    root: Path = Path("runs")
    weights: Literal["pretrained", "random"] = "pretrained"
    precision: str = "auto"
    double_quant: bool = False
    compute_dtype: str | None = None
    skip_modules: tuple[str, ...] = ()
    device: str = "auto"
    device_map: str | None = None
    tensor_parallel: bool = False
    gpu_id: tuple[str, ...] = ()
    whole_gpu: bool = False
    granularity: Granularity = "medium"
    layers: Literal["auto", "mean", "all", "sample", "kinds"] = "auto"
    phase: Literal["auto", "prefill", "decode", "both"] = "auto"
    context_lengths: tuple[int, ...] = ()
    kv_cache: Literal["dynamic", "static"] = "dynamic"
    new_tokens: int = 128
    execution: Literal["eager", "cuda-graph", "both"] = "eager"
    sampling: Literal["replay", "triggered"] = "replay"
    batch_size: int = 1
    sequence_length: int | None = None
    meter: str = "auto"
    watts: float = DEFAULT_WATTS
    sample_interval_s: float = DEFAULT_INTERVAL_S
    passes: int = 5
    target_interval: float = 0.01
    component_budget_s: float | None = None
    window_s: float | None = None
    methods: tuple[str, ...] = DEFAULT_METHODS
    joint: Literal["off", "kinds", "pairs", "all"] = "kinds"
    heads: Literal["off", "each", "kv"] = "off"
    adaptive: bool = False
    predict: bool = True
    data: str | None = None
    text_column: str = "text"
    label_column: str = "label"
    max_examples: int | None = None
    stride: int | None = None
    seed: int = 0
    stages: tuple[str, ...] = RUN_STAGES
    trust_remote_code: bool = False
    benchmark: BenchmarkSettings = field(default_factory=BenchmarkSettings)

    @property
    def executions(self) -> tuple[Execution, ...]:
        """In which the profile measures; the first is that of all other stages."""
        return EXECUTIONS if self.execution == BOTH else (self.execution,)

    @classmethod
    def of(cls, model: str, **options: Any) -> Self:
        """Return the settings of options by name.

        Raises:
            UsageError: there is no such option.

        """
        known = [one.name for one in fields(cls)]
        for name in options:
            if name not in known:
                raise UsageError(f"no option is called {name!r}{did_you_mean(name, known)}")
        return cls(model, **options)

    def loading(self, precision: str, devices: Sequence[torch.device]) -> dict[str, Any]:
        """Return the options of `energyscope.loading.load_model`, with what was settled of them."""
        names = (
            "device", "device_map", "tensor_parallel", "double_quant", "compute_dtype", "skip_modules", "weights",
            "seed", "trust_remote_code",
        )  # fmt: skip
        spread = devices if self.device_map else ()
        return {"precision": precision, "devices": spread, **{name: getattr(self, name) for name in names}}

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: an unknown word or a number out of range, with what to give instead.

        """
        _one_of("--granularity", self.granularity, GRANULARITIES)
        _one_of("--layers", self.layers, LAYERS)
        _one_of("--weights", self.weights, ("pretrained", "random"))
        _one_of("--phase", self.phase, PHASES)
        _one_of("--kv-cache", self.kv_cache, KV_CACHES)
        _one_of("--execution", self.execution, (*EXECUTIONS, BOTH))
        _one_of("--sampling", self.sampling, SAMPLING)
        if self.meter == "recorded":
            raise UsageError(f"--meter recorded plays a trace back in tests: use one of {', '.join(RUN_METERS)}")
        _one_of("--meter", self.meter, RUN_METERS)
        self._check_loading()
        self._check_gpus()
        if self.tensor_parallel:
            self._check_tensor_parallel()
        if self.sampling == "triggered":
            self._check_triggered()
        if not self.stages or not self.methods:
            raise UsageError(
                f"{'--methods' if self.stages else '--stages'} names nothing: leave it out, or name one"
            )
        for stage in self.stages:
            _one_of("--stages", stage, RUN_STAGES)
        for method in self.methods:
            _one_of("--methods", method, METHODS)
        if self.execution == BOTH and "profile" not in self.stages:
            raise UsageError("--execution both is for the profile, and --stages leaves it out: name one of them")
        _one_of("--joint", self.joint, JOINT)
        _one_of("--heads", self.heads, HEADS)
        if self.joint in {"pairs", "all"} and "skip" not in self.methods:
            raise UsageError(f"--joint {self.joint} skips layers in pairs: add skip to --methods, to compare with")
        self.benchmark.check()
        _at_least("--passes", self.passes, 1)
        _at_least("--batch-size", self.batch_size, 1)
        _at_least("--sequence-length", self.sequence_length, 1)
        _at_least("--new-tokens", self.new_tokens, 2)
        self._check_contexts()
        _at_least("--max-examples", self.max_examples, 2)
        _at_least("--stride", self.stride, 1)
        _at_least("--seed", self.seed, 0)
        _within("--watts", self.watts, math.inf, "watts")
        _within("--window", self.window_s, 600, "seconds")
        _within("--component-budget", self.component_budget_s, 3600, "seconds")
        _within("--sample-interval", self.sample_interval_s, 10, "seconds")
        _within("--target-interval", self.target_interval, 1, "(a share: 0.01 is 1 %)")

    def _check_loading(self) -> None:
        """Refuse a device map, or options of quantized layers, that cannot be followed."""
        if self.device_map:
            check_device_map(self.device_map)
        check_quantization(
            self.precision,
            double_quant=self.double_quant,
            compute_dtype=self.compute_dtype,
            skip_modules=self.skip_modules,
        )

    def _check_contexts(self) -> None:
        if self.phase == "prefill" and self.context_lengths:
            raise UsageError("--context-length is for decode steps: use --phase decode or both, or leave it out")
        for length in self.context_lengths:
            _at_least("--context-length", length, 1)

    def _check_gpus(self) -> None:
        if self.gpu_id and self.device == "cpu":
            raise UsageError("--gpu-id measures GPUs, and --device cpu runs the model on none: give one of them")
        if len(self.gpu_id) > 1 and self.meter == "modelled":
            raise UsageError("--meter modelled knows the watts of one device: name one GPU with --gpu-id")

    def _check_tensor_parallel(self) -> None:
        """Refuse what a model that is split over processes cannot do."""
        if "cuda-graph" in self.executions:
            raise UsageError(
                f"--execution {self.execution} captures what one process does by itself, and --tensor-parallel "
                "needs several: use --execution eager"
            )
        if self.precision in QUANTIZED:
            raise UsageError(
                f"--tensor-parallel splits plain weights, not {self.precision}: use bf16, or --device-map"
            )
        given = {
            f"--device-map {self.device_map}": self.device_map,
            f"--gpu-id {','.join(self.gpu_id)}": self.gpu_id,
            f"--device {self.device}": ":" in self.device,
            f"--sampling {self.sampling}": self.sampling != "replay",
        }
        if said := [option for option, is_given in given.items() if is_given]:
            raise UsageError(
                f"{said[0]} does not go with --tensor-parallel, where process N has cuda:N: leave it out "
                "(CUDA_VISIBLE_DEVICES chooses GPUs)"
            )
        if not set(SPLIT_STAGES) & set(self.stages):
            raise UsageError(f"--tensor-parallel is for --stages {','.join(SPLIT_STAGES)}")

    def _check_triggered(self) -> None:
        """Refuse what only replay can do."""
        if "cuda-graph" in self.executions:
            raise UsageError("--sampling triggered reads the meter between launches: use --execution eager")
        if self.meter in WITHOUT_COUNTER:
            raise UsageError(f"--sampling triggered reads an energy counter, which {self.meter} has not: use nvml")
        replayed = {"--window": self.window_s, "--component-budget": self.component_budget_s}
        given = [option for option, value in replayed.items() if value is not None]
        if self.phase in {"decode", "both"}:
            given.append(f"--phase {self.phase}")
        if self.context_lengths:
            given.append("--context-length")
        if self.layers != RunSettings.layers:
            given.append("--layers")
        if self.target_interval != RunSettings.target_interval:
            given.append("--target-interval")
        if given:
            raise UsageError(f"{given[0]} is for replay: --sampling triggered reads around every component")

    def check_places(self) -> None:
        """Refuse files and folders that cannot be used, before anything is loaded.

        Raises:
            UsageError: ``data`` is no file and no folder with data, ``name`` is taken or not plain, or ``root``
                cannot be written.

        """
        if self.data is not None and Path(self.data).is_dir():
            from energyscope.workloads.inputs import check_folder  # imports torch, which no check before it needs

            check_folder(Path(self.data))
        elif self.data is not None and not Path(self.data).is_file():
            raise UsageError(f"there is no file {self.data}: give --data a JSONL, CSV or text file, or a folder")
        _writable(self.root)
        if self.name is not None:
            RunStore.check_free(self.name, self.root)

    def document(self) -> dict[str, Any]:
        """Return the settings as plain data, for run.json."""
        return {**asdict(self), "root": str(self.root)}

    def fingerprint(self, **inputs: Any) -> str:
        """Return a digest of everything that decides what is measured, the given inputs included."""
        settings = {key: value for key, value in self.document().items() if key not in {"name", "root", "stages"}}
        text = json.dumps({**settings, **inputs}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _writable(root: Path) -> None:
    """Refuse a folder in which, once it is made, nothing can be made; tried in the nearest one that exists."""
    there = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"--root {root} cannot be written ({there}: {reason}): give another folder") from error


def _one_of(option: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        near = did_you_mean(word, list(known))
        listed = "" if "known" in near else f" (known: {', '.join(known)})"
        raise UsageError(f"{option} {word!r} is not known{near}{listed}")


def _within(option: str, value: float | None, most: float, unit: str) -> None:
    if value is not None and not (0 < value <= most and math.isfinite(value)):
        bound = "" if math.isinf(most) else f" and at most {most:g}"
        raise UsageError(f"{option} must be above 0{bound} {unit}, not {value:g}")


def _at_least(option: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise UsageError(f"{option} must be {least} or more, not {value}")

"""What a run needs before its stages: the model on its devices, the data, and that all asked for can be done."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from typing import Any

import torch

from energyscope.benchmarking.summary import by_preference
from energyscope.errors import DataError, DeviceError, UsageError
from energyscope.loading import LoadedModel, load_model
from energyscope.loading.devices import gigabytes, pick_device, usable_bytes
from energyscope.loading.model import load_skeleton
from energyscope.loading.options import in_precision, resolve_precision
from energyscope.loading.variants import base_precision
from energyscope.metering.group import MeterGroup
from energyscope.model_inputs import reads_tokens
from energyscope.planning.workloads import parse_workload
from energyscope.reasons import Reason, reason
from energyscope.settings.run import BUNDLED_EXAMPLES, RunSettings
from energyscope.stages.generate import load_entry
from energyscope.stages.phases import plan_phases, resolve_phase
from energyscope.stages.profile import PREFILL
from energyscope.workloads import Evaluation, Workload, load_evaluation, profile_inputs
from energyscope.workloads.given import are_given
from energyscope.workloads.limits import check_length
from energyscope.workloads.pass_memory import pass_bytes
from energyscope.workloads.timed import default_length

_SMALL = 0.01  # of the memory, by its outputs: such a pass is not tried beforehand for what it takes


def load(settings: RunSettings, devices: Sequence[torch.device] = ()) -> LoadedModel:
    """Load the model of the settings, spread over devices by a map; ``auto`` precision is settled first."""
    precision = resolve_precision(settings.model, settings.precision, settings.device)  # a device by now
    return load_model(settings.model, settings.loading(precision, devices))


def skeleton_of(settings: RunSettings, *, tokenizer: bool = False) -> LoadedModel:
    """Return the run's model without weights; without its tokenizer, a short name needs no files."""
    return load_skeleton(
        settings.model,
        torch.device("cpu" if tokenizer else "meta"),  # where its inputs go
        tokenizer=tokenizer,
        trust_remote_code=settings.trust_remote_code,
        adapter=settings.adapter,
    )


def load_for_benchmark(
    settings: RunSettings, names: Sequence[str], devices: Sequence[torch.device] = ()
) -> LoadedModel:
    """Load the model in the first of the precisions that fits, those first that others are best compared with.

    Raises:
        DeviceError: none of them fits.

    """
    failure = DeviceError("no precision was named")
    for candidate in for_benchmark(settings, names):
        try:
            return load(candidate, devices)
        except DeviceError as error:  # the benchmark says so of this precision, and goes on to the next
            failure = error
    raise failure


def benchmark_alone(settings: RunSettings) -> bool:
    """Tell whether the benchmark is the one stage that measures: it then takes whichever precision fits."""
    return "benchmark" in settings.stages and not {"generate", "profile", "alternatives", "ablate", "plan"} & set(
        settings.stages
    )


def for_benchmark(settings: RunSettings, names: Sequence[str]) -> list[RunSettings]:
    """Return the settings with each precision that a benchmark's model may be loaded in, the best first."""
    device = pick_device(settings.device)
    return [in_precision(settings, base_precision(name, device)) for name in by_preference(names)]


@contextmanager
def watched_load(settings: RunSettings, meter: MeterGroup) -> Iterator[list[dict[str, Any]]]:
    """Measure what loading takes, where a whole generation is explained; fills the list with journal entries."""
    entries: list[dict[str, Any]] = []
    if "generate" not in settings.stages or settings.phase == "prefill":
        yield entries
        return
    with meter:
        begin = time.monotonic()
        yield entries
        entries.append(load_entry(begin, time.monotonic(), meter))


def check_possible(settings: RunSettings, loaded: LoadedModel) -> None:
    """Refuse what the loaded model cannot do, before a run is begun.

    Raises:
        UsageError: with what to do.

    """
    if "profile" in settings.stages:
        plan_phases(settings, loaded)
    if loaded.offloaded and "cuda-graph" in settings.executions:
        raise UsageError(
            f"{len(loaded.offloaded)} modules did not fit and wait in host memory, from where a CUDA graph cannot "
            "copy them: use --execution eager or a smaller --precision"
        )


def why_no_room(settings: RunSettings, loaded: LoadedModel, precision: str, device: torch.device) -> str | None:
    """Return why a pass to profile, benchmark or plan for has no room in the memory that is left; None if none.

    ``loaded`` is the model, or its skeleton, whose weights still need room: then less is refused than could be,
    since a pass takes its outputs at least, and on a GPU nothing else is known. Given tensors have a length of
    their own; what is spread over devices is not told here.
    """
    spread = len(loaded.devices) > 1 or settings.device_map or settings.tensor_parallel
    usable = usable_bytes(device)
    if usable is None or spread or are_given(settings.data) or not reads_tokens(loaded.model):
        return None
    own = _value_bytes([precision], device)
    for batch, length, size in _passes(settings, loaded, device, own):
        needed, how = batch * length * _outputs_of_a_token(loaded) * size, "at least"
        if _SMALL * usable < needed <= usable and _is_on_cpu(loaded):
            needed, how = max(needed, _held_bytes(loaded, batch, length) * size // own), "about"
        if needed > usable:
            return (
                f"a pass of {batch} x {length} tokens needs {how} {gigabytes(needed)} beside the weights, and "
                f"{device} has {gigabytes(usable)}: use a smaller --batch-size or --sequence-length"
            )
    return None


def _passes(
    settings: RunSettings, loaded: LoadedModel, device: torch.device, value_bytes: int
) -> Iterator[tuple[int, int, int]]:
    """Yield batch, length and bytes of a value of the passes whose head reads each token: a generation's does not.

    A benchmark on a GPU halves the batches that have no room.
    """
    usual = settings.sequence_length or default_length(loaded)
    prefills = resolve_phase(settings, loaded.adapter) == PREFILL
    if prefills and ("profile" in settings.stages or ("plan" in settings.stages and not settings.workloads)):
        yield settings.batch_size, usual, value_bytes
    if "plan" in settings.stages:
        planned = (parse_workload(text, settings.batch_size) for text in settings.workloads)
        yield from ((one.batch_size, usual, value_bytes) for one in planned if one.phase == PREFILL)
    if "benchmark" in settings.stages and device.type == "cpu":
        bench = settings.benchmark
        shapes = product(bench.batch_sizes or (settings.batch_size,), bench.sequence_lengths or (usual,))
        yield from ((*shape, _value_bytes(bench.precisions, device)) for shape in shapes)


def _value_bytes(precisions: Sequence[str], device: torch.device) -> int:
    """Return the bytes of an activation in the widest of some precisions; on a CPU, INT8 computes in FP32."""
    narrow = set(precisions) <= {"fp16", "bf16"} if device.type == "cpu" else "fp32" not in precisions
    return 2 if narrow else 4


def _held_bytes(loaded: LoadedModel, batch: int, length: int) -> int:
    """Return what a pass holds at once beside the weights, by passes of one sequence and of two; 0: not known."""
    with suppress(Exception):  # a pass of the run itself says what is wrong with it
        inputs = (profile_inputs(loaded, batch_size=size, sequence_length=length).inputs for size in (1, 2))
        one, two = (pass_bytes(loaded.model, given) for given in inputs)
        return one + (batch - 1) * max(0, two - one)
    return 0


def _is_on_cpu(loaded: LoadedModel) -> bool:
    """Whether a pass can be tried on the CPU: a skeleton has no weights."""
    return all(weight.device.type == "cpu" for weight in loaded.model.parameters())


def _outputs_of_a_token(loaded: LoadedModel) -> int:
    """Return how many values the model makes of each token at least; 0 where neither width nor head is known."""
    config = getattr(loaded.model, "config", None)
    hidden = getattr(config, "hidden_size", 0)
    width = hidden if isinstance(hidden, int) else 0  # a list in models of several stages
    if getattr(config, "is_encoder_decoder", False):  # whose head reads other tokens
        return width
    modules = dict(loaded.model.named_modules())
    heads = [modules.get(part.path) for part in loaded.adapter.parts if part.kind == "lm_head"]
    return max([width, *(getattr(head, "out_features", 0) for head in heads)])


def prompt_of(loaded: LoadedModel, evaluation: Evaluation | None, settings: RunSettings) -> Workload:
    """Return the run's input, once all lengths that it asks for are known to have positions and room.

    Raises:
        UsageError: a length is beyond the model's positions.
        DeviceError: the pass has no room in memory.

    """
    for length in settings.benchmark.sequence_lengths:
        check_length(loaded, length)
    if evaluation is None and are_given(settings.data):  # of random weights, or where nothing is judged
        evaluation = load_evaluation(loaded, data=settings.data, max_examples=settings.max_examples)
    if why := why_no_room(settings, loaded, loaded.precision, loaded.device):
        raise DeviceError(why)
    return profile_inputs(
        loaded,
        batch_size=settings.batch_size,
        sequence_length=settings.sequence_length,
        evaluation=evaluation,
        seed=settings.seed,
    )


def _usual_examples(loaded: LoadedModel, settings: RunSettings) -> int | None:
    """Return how many examples are enough where nobody named data or a number; None is all of them.

    A bundled model is for a first look, within two minutes. A plan takes a sample of its own, by its budget.
    """
    first_look = loaded.weights == "bundled" and settings.data is None and "plan" not in settings.stages
    return BUNDLED_EXAMPLES if first_look else None


def evaluation_of(loaded: LoadedModel, settings: RunSettings) -> tuple[Evaluation | None, Reason | None]:
    """Return the evaluation data, or why there is none; data that the user named must be there."""
    if settings.weights == "random":
        return None, reason("random-weights")
    if not {"ablate", "alternatives", "benchmark", "plan"} & set(settings.stages):
        return None, reason("not-asked-for")
    try:
        evaluation = load_evaluation(
            loaded,
            data=settings.data,
            max_examples=settings.max_examples or _usual_examples(loaded, settings),
            stride=settings.stride,
            text_column=settings.text_column,
            label_column=settings.label_column,
        )
    except DataError as error:
        if settings.data is not None:
            raise
        return None, reason("no-evaluation-data", error=error)
    return evaluation, None

"""What a run would measure and about how long it would take, found without weights and without a meter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from energyscope.components import ComponentTree, component_tree
from energyscope.impact.plan import beside_singles, singles
from energyscope.loading import LoadedModel, check_precision, parameter_count
from energyscope.loading.options import resolve_precision
from energyscope.loading.skeleton import LoadEstimate, estimate_load, load_skeleton
from energyscope.metering.settled import IDLE_S, SETTLE_S
from energyscope.reasons import Reason, reason
from energyscope.replay.targets import targets
from energyscope.settings.run import RunSettings
from energyscope.stages.alternatives import AlternativesSettings
from energyscope.stages.benchmark import chosen_precisions
from energyscope.stages.measured_devices import MeasuredDevices, find_devices
from energyscope.stages.preparing import benchmark_alone, for_benchmark
from energyscope.stages.ranks import require_torchrun
from energyscope.stages.sampling_budget import first_windows, seconds_range
from energyscope.stages.scenes import PREFILL, Scene, has_cache, profile_settings, resolve_phase, scenes
from energyscope.workloads import Workload, profile_inputs
from energyscope.workloads.decoding import too_long

TYPICAL_WINDOW_S = {"cuda": 0.42, "cpu": 0.15}
GENERATE_S = {False: 28.0, True: 12.0}  # modelled or not: generations, idle power, the loop, the tokenizer
ALTERNATIVES_S = {modelled: AlternativesSettings().budget(modelled=modelled) for modelled in (False, True)}
READ_S = 0.005  # one read of an energy counter and of the power beside it


@dataclass(frozen=True)
class Profiling:
    """What the profile would do: ``windows`` of replay over ``targets``, or reads around components.

    ``targets`` counts them by what they are (see `energyscope.replay.targets`). It takes at least about
    ``profile_seconds``, and at most about ``profile_seconds_most`` where components need more windows; calls that
    are longer than a window, pauses, and windows that are taken again come on top.
    """

    targets: dict[str, int]
    windows: int
    profile_seconds: float
    profile_seconds_most: float


@dataclass(frozen=True)
class Preview(Profiling):
    """A plan. ``gpus`` are the UUIDs of those that would be measured, ``kinds`` counts components by kind.

    ``scenes`` are the moments of the inference that are profiled. ``precisions`` are those of the benchmark, with
    ``trials`` loops in all of ``trial_seconds`` (s) at most (None: no limit); warming up takes as long again at
    most. ``ablations`` is how many changes of the model are compared with it on the evaluation data. The traced
    generations take about ``generate_seconds``, the alternatives ``alternatives_seconds_most`` at most (s; 0 where
    the stage is skipped). ``skipped`` says which stages will not run, and why. The weights take ``weight_bytes``
    on all devices together; ``refused`` says why the run would be refused here for want of memory (None: there is
    enough).
    """

    model: str
    precision: str
    device: str
    gpus: tuple[str, ...]
    scenes: tuple[str, ...]
    sampling: str
    parameters: int
    batch_size: int
    sequence_length: int
    components: int
    kinds: dict[str, int]
    precisions: tuple[str, ...]
    trials: int
    trial_seconds: float | None
    ablations: int
    weight_bytes: int
    refused: str | None
    generate_seconds: float
    alternatives_seconds_most: float
    skipped: dict[str, Reason]


def preview(settings: RunSettings) -> Preview:
    """Return what a run with these settings would do.

    Raises:
        EnergyscopeError: the run would be refused.

    """
    settings.check()
    require_torchrun(settings.tensor_parallel)
    settings.check_places()
    where = find_devices(settings)
    precision = resolve_precision(settings.model, settings.precision, str(where.device))
    check_precision(precision)
    shape = load_skeleton(
        settings.model, torch.device("meta"), tokenizer=False, trust_remote_code=settings.trust_remote_code
    )
    workload = profile_inputs(shape, batch_size=settings.batch_size, sequence_length=settings.sequence_length)
    tree = component_tree(shape.model, shape.adapter, settings.granularity)
    skipped = skipped_stages(settings, shape, workload)
    chosen = [Scene(PREFILL, None, "mean")] if "profile" in skipped else scenes(settings, shape)
    planned = [_Planned(one, _scene_tree(one, shape, settings)) for one in chosen]
    modelled = settings.meter == "modelled" or not where.gpus
    measured = "benchmark" not in skipped
    precisions = tuple(chosen_precisions(settings.benchmark.precisions, where.device)[0]) if measured else ()
    at_device = replace(settings, device=str(where.device), precision=precision)
    alone = for_benchmark(at_device, precisions) if benchmark_alone(settings) else [at_device]
    estimate = _load_estimate(alone, where)
    return Preview(
        **vars(_profiling(planned, settings, where)),
        scenes=tuple(one.scene.name for one in planned),
        model=settings.model,
        precision=precision,
        device=str(where.device),
        gpus=where.gpus,
        sampling=settings.sampling,
        parameters=parameter_count(shape.model),
        batch_size=workload.batch_size,
        sequence_length=workload.sequence_length,
        components=len(planned[0].tree),
        kinds=dict(Counter(component.kind for component in planned[0].tree)),
        precisions=precisions,
        trials=len(precisions) * _cells(settings) * settings.benchmark.trials,
        trial_seconds=settings.benchmark.trial_seconds,
        ablations=0 if "ablate" in skipped else _ablations(shape, tree, settings),
        weight_bytes=estimate.weight_bytes,
        refused=estimate.refused,
        generate_seconds=0.0 if "generate" in skipped else GENERATE_S[modelled],
        alternatives_seconds_most=0.0 if "alternatives" in skipped else ALTERNATIVES_S[modelled],
        skipped=skipped,
    )


def _load_estimate(tried: Sequence[RunSettings], where: MeasuredDevices) -> LoadEstimate:
    """Return what loading would take in the first of the settings that there is room for, else in the last."""
    found = [estimate_load(one.model, one.loading(one.precision, where.devices).resolved()) for one in tried]
    return next((one for one in found if one.refused is None), found[-1])


def _cells(settings: RunSettings) -> int:
    """Return at how many batch sizes and lengths each precision is timed."""
    return max(1, len(settings.benchmark.batch_sizes)) * max(1, len(settings.benchmark.sequence_lengths))


def _ablations(shape: LoadedModel, tree: ComponentTree, settings: RunSettings) -> int:
    more = beside_singles(
        shape.model, tree, shape.adapter, settings.methods, joint=settings.joint, per_head=settings.heads
    )
    return len(singles(tree, settings.methods)) + len(more)


def skipped_stages(settings: RunSettings, shape: LoadedModel, workload: Workload) -> dict[str, Reason]:
    """Return the stages that will not run, and why, as far as settings and the model's shape say."""
    stages = ("benchmark", "generate", "profile", "alternatives", "ablate", "correlate")
    skipped = {stage: reason("not-asked-for") for stage in stages if stage not in settings.stages}
    if resolve_phase(settings, shape.adapter) == PREFILL:
        skipped = dict.fromkeys(("generate", "alternatives"), reason("one-pass")) | skipped
    if "generate" not in skipped and (why := too_long(shape, workload.sequence_length, settings.new_tokens)):
        skipped["generate"] = why
    if settings.weights == "random":
        skipped |= dict.fromkeys(("ablate", "correlate"), reason("random-weights"))
    return skipped


@dataclass(frozen=True)
class _Planned:
    scene: Scene
    tree: ComponentTree


def _scene_tree(scene: Scene, shape: LoadedModel, settings: RunSettings) -> ComponentTree:
    return component_tree(
        shape.model, shape.adapter, settings.granularity, kv_cache=has_cache(scene, settings, shape.adapter)
    )


def _profiling(planned: Sequence[_Planned], settings: RunSettings, where: MeasuredDevices) -> Profiling:
    modelled = settings.meter == "modelled" or not where.gpus
    sampling_budget = profile_settings(settings, [one.scene for one in planned], planned[0].scene).sampling_budget
    if settings.sampling == "triggered":
        components = len(planned[0].tree)
        reads = components * sampling_budget.passes
        seconds = 0.0 if modelled else 2 * reads * READ_S + 2 * (SETTLE_S + IDLE_S)
        return Profiling({"node": components}, reads, seconds, seconds)
    plans = [targets(one.tree, settings.granularity, one.scene.layers) for one in planned]
    window_s = TYPICAL_WINDOW_S[where.device.type]
    ranges = [seconds_range(plan, sampling_budget, window_s, modelled=modelled) for plan in plans]
    least, most = (sum(seconds) for seconds in zip(*ranges, strict=True))
    windows = sum(first_windows(plan, sampling_budget) for plan in plans)
    return Profiling(dict(Counter(target.what for plan in plans for target in plan)), windows, least, most)

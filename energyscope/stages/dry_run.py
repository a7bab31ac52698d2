"""What `--dry-run` reports: what a run would do and about how long, before its model is loaded and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from energyscope.components import ComponentTree, component_tree
from energyscope.diagnostics.sensor import IDLE_WATCH_S
from energyscope.errors import DeviceError, EnergyscopeError
from energyscope.loading import LoadedModel, check_precision, parameter_count
from energyscope.loading.devices import fitting_threads
from energyscope.loading.options import resolve_precision
from energyscope.loading.planning import LoadEstimate, estimate_load
from energyscope.loading.sources import find_model
from energyscope.metering.choice import would_model
from energyscope.reasons import Reason, reason
from energyscope.replay.targets import targets
from energyscope.settings.run import RunSettings
from energyscope.stages.alternatives import AlternativesSettings
from energyscope.stages.benchmark import chosen_precisions
from energyscope.stages.context import Context
from energyscope.stages.measured_devices import MeasuredDevices, find_devices
from energyscope.stages.pace_estimates import Subject, ablation_time, benchmark_time, count_changes, table_times
from energyscope.stages.phases import (
    PhasePlan,
    has_cache,
    plan_phases,
    profile_settings,
    resolve_phase,
    why_no_generation,
)
from energyscope.stages.plan_dry_run import PlanPreview, counted_examples, plan_times, preview_plan
from energyscope.stages.preparing import (
    benchmark_alone,
    evaluation_of,
    for_benchmark,
    load,
    prompt_of,
    skeleton_of,
    why_no_room,
)
from energyscope.stages.profile import PREFILL, times_in_model
from energyscope.stages.ranks import require_torchrun
from energyscope.stages.sampling_budget import IDLING_S, ReplayTime, TimeEstimate, replay_time, typical_window_s
from energyscope.stages.sampling_interval import search_s
from energyscope.workloads import Workload, profile_inputs
from energyscope.workloads.decoding import can_generate, prompt_length, too_long

RELATED = frozenset({"profile", "ablate"})  # by `correlate`
GENERATE_S = {False: 28.0, True: 12.0}  # modelled or not: generations, idle power, the loop, the tokenizer
MOST_PARAMETERS = 50_000_000  # of a model that a dry run loads: it takes a second
READ_S = 0.005  # one read of an energy counter and of the power beside it


@dataclass(frozen=True)
class Preview:
    """What a run would do.

    ``targets`` counts what is replayed by what it is, in ``windows``, or reads around components. The profile
    takes about ``profile_seconds``, and up to ``profile_seconds_most`` where components need more windows; long
    calls, pauses and windows taken again come on top. ``trials`` of the benchmark take up to ``trial_seconds``
    each (None: no limit), and their warm-ups as long again. A stage that is ``skipped``, with its reason, takes
    0 s. ``weight_bytes`` is the sum over devices; ``refused`` says why they have no room for it (None: they have).
    """

    targets: dict[str, int]
    windows: int
    profile_seconds: float
    profile_seconds_most: float
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
    plan: PlanPreview | None
    skipped: dict[str, Reason]


def preview(settings: RunSettings) -> Preview:
    """Return what a run with these settings would do, without loading weights or starting a meter.

    Raises:
        EnergyscopeError: the run would be refused.

    """
    settings.check()
    require_torchrun(settings.tensor_parallel)
    settings.check_places()
    where = find_devices(settings)
    precision = resolve_precision(settings.model, settings.precision, str(where.device))
    check_precision(precision)
    shape = skeleton_of(settings)
    precisions: Sequence[str] = ()
    if "benchmark" in settings.stages:
        precisions, _ = chosen_precisions(settings.benchmark.precisions, where.device)
    resolved = replace(settings, device=str(where.device), precision=precision)
    load = _load_estimate(resolved, precisions, where)
    device = resolved.loading(precision, where.devices).resolved().device
    refused = load.refused or why_no_room(settings, shape, precision, device)
    workload = profile_inputs(shape, batch_size=1, sequence_length=settings.sequence_length)
    skipped = skipped_stages(settings, shape, workload)
    planned = [PhasePlan(PREFILL, None, "mean")] if "profile" in skipped else plan_phases(settings, shape)
    trees = [_tree(phase_plan, settings, shape) for phase_plan in planned]
    modelled = would_model(settings.meter, on_gpu=bool(where.gpus), watts=settings.watts)
    bench = settings.benchmark
    cells = len(precisions) * max(1, len(bench.batch_sizes)) * max(1, len(bench.sequence_lengths))
    counts, times = _profile(planned, trees, settings, where.device, modelled=modelled)
    return Preview(
        targets=counts,
        windows=sum(time.windows for time in times),
        profile_seconds=sum(time.least_s for time in times),
        profile_seconds_most=sum(time.most_s for time in times),
        model=settings.model,
        precision=precision,
        device=str(where.device),
        gpus=where.gpus,
        scenes=tuple(phase_plan.name for phase_plan in planned),
        sampling=settings.sampling,
        parameters=parameter_count(shape.model),
        batch_size=settings.batch_size,
        sequence_length=workload.sequence_length,
        components=len(trees[0]),
        kinds=dict(Counter(component.kind for component in trees[0])),
        precisions=tuple(precisions),
        trials=cells * bench.trials,
        trial_seconds=bench.trial_seconds,
        ablations=0 if "ablate" in skipped else count_changes(shape, settings),
        weight_bytes=load.weight_bytes,
        refused=refused,
        generate_seconds=0.0 if "generate" in skipped else GENERATE_S[modelled],
        alternatives_seconds_most=0.0
        if "alternatives" in skipped
        else AlternativesSettings().budget(modelled=modelled),
        plan=None if "plan" in skipped else _plan(settings, precision, shape, where.device, modelled=modelled),
        skipped=skipped,
    )


def _plan(
    settings: RunSettings, precision: str, shape: LoadedModel, device: torch.device, *, modelled: bool
) -> PlanPreview:
    plan = preview_plan(replace(settings, precision=precision), shape, device, modelled=modelled)
    return replace(plan, examples=counted_examples(settings, shape.adapter.task))


def _profile(
    planned: Sequence[PhasePlan],
    trees: Sequence[ComponentTree],
    settings: RunSettings,
    device: torch.device,
    *,
    modelled: bool,
) -> tuple[dict[str, int], list[ReplayTime]]:
    """Return how many targets of each sort a profile has, and the time of each phase."""
    budget = profile_settings(settings, planned, planned[0]).sampling_budget
    if settings.sampling == "triggered":
        reads = len(trees[0]) * budget.passes
        seconds = 0.0 if modelled else 2 * reads * READ_S + 2 * IDLING_S
        return {"node": len(trees[0])}, [ReplayTime(reads, reads, seconds, seconds)]
    together = times_in_model(device, 1, modelled=modelled)
    plans = [
        targets(tree, settings.granularity, phase_plan.layers, replayed=not together)
        for phase_plan, tree in zip(planned, trees, strict=True)
    ]
    window_s = typical_window_s(device.type, modelled=modelled)
    times = [
        replay_time(
            plan, budget, window_s, modelled=modelled, eager=_launched(phase_plan, device), together=together
        )
        for phase_plan, plan in zip(planned, plans, strict=True)
    ]
    return dict(Counter(target.what for plan in plans for target in plan)), times


def _load_estimate(settings: RunSettings, precisions: Sequence[str], where: MeasuredDevices) -> LoadEstimate:
    """Return what loading takes; of a benchmark alone, in the first precision that has room, else in the last."""
    tried = for_benchmark(settings, precisions) if benchmark_alone(settings) else [settings]
    loads = [
        estimate_load(candidate.model, candidate.loading(candidate.precision, where.devices).resolved())
        for candidate in tried
    ]
    return next((load for load in loads if load.refused is None), loads[-1])


def skipped_stages(settings: RunSettings, shape: LoadedModel, workload: Workload) -> dict[str, Reason]:
    """Return the stages that will not run, and why, as far as settings and the model's shape say."""
    stages = ("benchmark", "generate", "profile", "alternatives", "ablate", "correlate", "plan")
    skipped = {stage: reason("not-asked-for") for stage in stages if stage not in settings.stages}
    if resolve_phase(settings, shape.adapter) == PREFILL:
        skipped = dict.fromkeys(("generate", "alternatives"), reason("one-pass")) | skipped
    elif why := why_no_generation(settings, shape):
        skipped = {"generate": why} | skipped
    if "generate" not in skipped and (why := too_long(shape, prompt_length(shape, workload), settings.new_tokens)):
        skipped["generate"] = why
    if settings.weights == "random":
        skipped |= dict.fromkeys(("ablate", "correlate"), reason("random-weights"))
    if "correlate" not in skipped and skipped.keys() & RELATED:
        missing = "energy" if "profile" in skipped else "impact"
        skipped["correlate"] = reason("nothing-to-relate", missing=missing)
    return skipped


def estimated_times(context: Context) -> dict[str, list[TimeEstimate]]:
    """Return the times of each stage of a run whose model is loaded: a profile's by phase, none if it is skipped.

    Stages whose time nobody knows before they begin are left out.
    """
    modelled = context.meters["profile"].modelled
    times = {
        "generate": [TimeEstimate(GENERATE_S[modelled], GENERATE_S[modelled])],
        "alternatives": [TimeEstimate(0.0, AlternativesSettings().budget(modelled=modelled))],
    }
    subject = Subject(context.settings, context.loaded, context.evaluation, context.workload, modelled=modelled)
    if not context.loaded.offloaded:
        times |= {stage: [time] for stage, time in _at_its_pace(subject, _skipped(context)).items()}
    if context.settings.sampling == "replay" and "profile" in context.settings.stages:
        with suppress(
            RuntimeError, EnergyscopeError
        ):  # the profile itself says why it cannot be done, in its turn
            watch_s, warm = _watch_s(context, modelled=modelled), context.sensor is not None
            times["profile"] = _scene_times(subject, watch_s=watch_s, warm=warm)
    if "plan" in context.settings.stages:
        with suppress(EnergyscopeError):  # what cannot be planned was refused before, or is skipped
            watch_s = 0.0 if "profile" in context.settings.stages else _watch_s(context, modelled=modelled)
            times["plan"] = plan_times(context.settings, context.loaded, modelled=modelled, before_s=watch_s)
    with suppress(EnergyscopeError):
        tree = component_tree(context.loaded.model, context.loaded.adapter, context.settings.granularity)
        tables = _of_tables(context.settings, _skipped(context), len(tree))
        times |= {stage: [time] for stage, time in tables.items()}
    return times | {stage: [] for stage in _skipped(context)}


def _of_tables(settings: RunSettings, skipped: Collection[str], components: int) -> dict[str, TimeEstimate]:
    """Return the times of the stages that relate and draw a run's tables, as far as it has them."""
    asked = {"correlate", "report"} & set(settings.stages) - set(skipped)
    return {stage: time for stage, time in table_times(components).items() if stage in asked} if asked else {}


def _at_its_pace(subject: Subject, skipped: Collection[str]) -> dict[str, TimeEstimate]:
    """Return the times of the stages that go at the model's own pace, which a pass of it tells."""
    times = {}
    for stage, time_of in (("benchmark", benchmark_time), ("ablate", ablation_time)):
        if stage in subject.settings.stages and stage not in skipped:
            with suppress(RuntimeError, EnergyscopeError):  # what fails in a pass is the stage's to say
                times[stage] = time_of(subject)
    return times


def why_no_time(stage: str) -> Reason:
    """Return why `stage_times` has no time of a stage."""
    return reason("plan-sets-its-work" if stage == "plan" else "no-pass-timed")


def stage_times(settings: RunSettings, plan: Preview) -> dict[str, TimeEstimate | None]:
    """Return about how long each stage of a previewed run takes; None where only the run can tell.

    Trials and ablations go by the time of a pass: a small model on the CPU whose files are here is loaded for it.
    Relating and drawing go by the pace of this machine's processor. `why_no_time` says the rest.

    Raises:
        DeviceError: a pass of the loaded model has no room, for which the run would be refused.

    """
    times: dict[str, TimeEstimate | None] = dict.fromkeys(settings.stages)
    if settings.weights == "random" and plan.trial_seconds:  # else each precision is judged on data too
        times["benchmark"] = TimeEstimate(0.0, 2 * plan.trials * plan.trial_seconds)
    if plan.refused:
        return {}
    times |= {
        "generate": TimeEstimate(plan.generate_seconds, plan.generate_seconds),
        "profile": TimeEstimate(plan.profile_seconds, plan.profile_seconds_most),
        "alternatives": TimeEstimate(0.0, plan.alternatives_seconds_most),
        **_times_of_small(settings, plan),
        **_of_tables(settings, plan.skipped, plan.components),
    }
    return {stage: times[stage] for stage in settings.stages if stage not in plan.skipped}


def _times_of_small(settings: RunSettings, plan: Preview) -> dict[str, TimeEstimate]:
    """Return what a timed pass tells of a model that may be loaded for it; nothing of others, or if it fails."""
    kind = find_model(settings.model).kind
    small = kind in {"bundled", "folder"} and plan.device == "cpu" and plan.parameters <= MOST_PARAMETERS
    local = kind == "bundled" or settings.data is not None  # other data may have to be downloaded
    untold = {"ablate"} if settings.weights == "random" else {"ablate", "benchmark"}  # these judge on data
    skipped = {*plan.skipped, *(() if local else untold)}
    if plan.refused or not small or not {"benchmark", "ablate", "profile", "plan"} - skipped:
        return {}
    try:
        return _timed_here(replace(settings, device=plan.device, precision=plan.precision), skipped, local=local)
    except DeviceError:  # no room for a pass: the run would be refused, too
        raise
    except Exception:  # noqa: BLE001 - a preview ends with no error of a model's own code: the run says it
        return {}


def _timed_here(settings: RunSettings, skipped: set[str], *, local: bool) -> dict[str, TimeEstimate]:
    loaded = load(settings)
    evaluation = evaluation_of(loaded, settings)[0] if local else None
    workload = prompt_of(loaded, evaluation, settings)
    modelled = would_model(settings.meter, on_gpu=False, watts=settings.watts)
    with fitting_threads(loaded.model, loaded.device):
        subject = Subject(settings, loaded, evaluation, workload, modelled)
        times = _at_its_pace(subject, skipped | (set() if evaluation else {"ablate"}))
        if "profile" in settings.stages and settings.sampling == "replay":
            scenes = _scene_times(subject)
            least_s, most_s = (sum(getattr(one, end) for one in scenes) for end in ("least_s", "most_s"))
            times["profile"] = TimeEstimate(least_s, most_s)
        return times


def _skipped(context: Context) -> set[str]:
    settings, loaded = context.settings, context.loaded
    skipped = set(skipped_stages(settings, loaded, context.workload))
    skipped |= {"benchmark", "plan"} if len(loaded.devices) > 1 else set()
    skipped |= {"generate", "alternatives"} if loaded.offloaded else set()
    skipped |= {"ablate"} if context.evaluation is None else set()
    return skipped | ({"correlate"} if skipped & RELATED else set())


def _scene_times(subject: Subject, *, watch_s: float = 0.0, warm: bool = False) -> list[TimeEstimate]:
    """Return how long each phase takes; before the first, sensors are watched for ``watch_s`` unless ``warm``."""
    settings, loaded, modelled = subject.settings, subject.loaded, subject.modelled
    planned = plan_phases(settings, loaded)
    window_s = typical_window_s(loaded.device.type, modelled=modelled)
    together = times_in_model(loaded.device, loaded.ranks, modelled=modelled)
    times: list[TimeEstimate] = []
    for phase_plan in planned:
        tree = _tree(phase_plan, settings, loaded)
        plan = targets(tree, settings.granularity, phase_plan.layers, replayed=not together)
        budget = profile_settings(settings, planned, phase_plan, warm=warm or bool(times)).sampling_budget
        eager = _launched(phase_plan, loaded.device)
        timed = (
            phase_plan.phase == PREFILL and not loaded.offloaded and loaded.ranks == 1
        )  # others would not follow
        pass_s = subject.pass_s if timed else 0.0
        replay = replay_time(
            plan, budget, window_s, modelled=modelled, eager=eager, together=together, pass_s=pass_s
        )
        before_s = 0.0 if times else watch_s
        times.append(TimeEstimate.of_replays(replay, modelled=modelled, before_s=before_s))
    return times


def _launched(phase_plan: PhasePlan, device: torch.device) -> bool:
    """Whether a host launches the work of a phase on a GPU, one kernel after another."""
    return phase_plan.execution == "eager" and device.type == "cuda"


def _watch_s(context: Context, *, modelled: bool) -> float:
    """Return how long the sensors are watched before the first window, as far as they are not known yet (s)."""
    meter, loaded = context.meters["profile"], context.loaded
    watch_s = 0.0 if modelled or context.sensor is not None else IDLE_WATCH_S * len(meter.meters)
    return watch_s + (search_s(meter, loaded.device) if loaded.ranks == 1 else 0.0)


def _tree(phase_plan: PhasePlan, settings: RunSettings, loaded: LoadedModel) -> ComponentTree:
    cached = has_cache(phase_plan, settings, loaded.adapter)
    tree = component_tree(loaded.model, loaded.adapter, settings.granularity, kv_cache=cached)
    if phase_plan.phase != "decode" or can_generate(loaded):
        return tree
    model: Any = loaded.model
    encoder = set(model.get_encoder().modules())  # which a decoder's step does not run
    return tree.without([component.name for component in tree if component.module in encoder])

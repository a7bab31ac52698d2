"""Profile: the energy of every component, by capture and replay, in shuffled interleaved passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from energyscope.accounting import records
from energyscope.accounting.aggregate import Attribution, attribute
from energyscope.adapters import Granularity
from energyscope.components import Component, ComponentTree, component_tree
from energyscope.errors import ModelError
from energyscope.kv_cache import states_put_back
from energyscope.loading import LoadedModel, parameter_count, weight_bytes
from energyscope.metering.group import MeterGroup
from energyscope.metering.interval import drift
from energyscope.metering.modelled import ModelledMeter
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, reason
from energyscope.replay.activations import ActivationStore, device_budget
from energyscope.replay.capture import Capture, capture, not_called
from energyscope.replay.distributed import follow, leading
from energyscope.replay.flops import Work, count_work
from energyscope.replay.graph_inputs import capture_in_graph, without_full_mask
from energyscope.replay.graphs import NotCapturableError
from energyscope.replay.in_model import InModel
from energyscope.replay.marks import clock_for
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.replayer import Execution, Replayer
from energyscope.replay.rotation import l2_bytes
from energyscope.replay.targets import Layers, Target, measured_layers, targets
from energyscope.replay.tensors import tensors_in
from energyscope.runs import schema
from energyscope.stages.instruments import Instruments
from energyscope.stages.sampling_budget import SamplingBudget
from energyscope.stages.sampling_interval import sampling_interval
from energyscope.stages.session import STAGE, Journal, Session, is_of

PREFILL = "prefill"

if TYPE_CHECKING:
    from energyscope.workloads import Workload


@dataclass(frozen=True)
class ProfileSettings:
    """How to profile: which components, how each layer's, in which execution, with how much sampling_budget."""

    granularity: Granularity = "medium"
    layers: Layers = "mean"
    sampling_budget: SamplingBudget = field(default_factory=SamplingBudget)
    seed: int = 0
    execution: Execution = "eager"


def profile(  # noqa: PLR0913  what is measured, and where it goes
    loaded: LoadedModel,
    workload: Workload,
    meter: MeterGroup,
    settings: ProfileSettings,
    *,
    earlier: Sequence[Mapping[str, Any]] = (),
    journal: Journal,
    progress: Progress = silent,
    phase_name: str = PREFILL,
) -> Attribution:
    """Measure every component of a loaded model on started meters, in one pass of the model: a workload.

    Every finished window goes to ``journal``, with ``phase_name``, before the next one starts: ``recover``
    makes the same tables of what was journalled. ``earlier`` is what it got from a profile that was stopped, of
    whole passes: the others follow, if what is to be measured is described as it was then.

    Raises:
        UsageError: the model's device cannot do the execution that was asked for.
        MeterError: the meter was lost.
        ModelError: a component is not called, and one in it is.
        DeviceError: the device ran out of memory.

    """
    clock = clock_for(meter, loaded.device)
    replayer = Replayer(loaded.device, settings.execution, clock=clock, host=meter.host)
    in_model = times_in_model(loaded.device, loaded.ranks, modelled=meter.modelled)
    ready = _set_up(loaded, workload, settings, replayed=not in_model)
    header = {
        "meter": meter.name,
        **_header(ready.plan, loaded, workload, settings, in_model=in_model),
        "tree": ready.described,
        "notes": ready.notes,
    }
    entries = list(earlier) if is_of(earlier, header) else []

    def keep(entry: Mapping[str, Any]) -> None:
        entries.append({"stage": STAGE, "scene": phase_name, **entry})
        journal(entries[-1])

    if earlier and not entries:
        journal({"stage": STAGE, "scene": phase_name, schema.BEGUN_AGAIN: True})
    if not entries:
        keep({"header": header})
    with _bench(ready, replayer, loaded, meter, progress) as instruments:
        session = Session(instruments, settings.sampling_budget, keep, seed=settings.seed, earlier=entries)
        session.run(ready.plan, progress)
    return recover(entries)


def follow_profile(loaded: LoadedModel, workload: Workload, settings: ProfileSettings) -> None:
    """Follow the process that does `profile`, in another one of a split model (tensor parallel)."""
    ready = _set_up(loaded, workload, settings)
    follow(ready.replay_setup, ready.plan, loaded.device)


@dataclass(frozen=True)
class _Ready:
    """What a session replays: the same in every process of a split model, after the same forward passes."""

    replay_setup: ReplaySetup
    plan: list[Target]
    described: list[dict[str, Any]]
    notes: list[Reason]


def _set_up(
    loaded: LoadedModel, workload: Workload, settings: ProfileSettings, *, replayed: bool = True
) -> _Ready:
    tree = component_tree(
        loaded.model, loaded.adapter, settings.granularity, kv_cache=workload.kv_cache is not None
    )
    inputs = without_full_mask(workload.inputs) if settings.execution == "cuda-graph" else workload.inputs
    captures, notes = captures_of(tree, inputs, loaded, settings.execution)
    tree, left_out = present(tree, captures)
    plan = targets(tree, settings.granularity, settings.layers, replayed=replayed)
    replay_setup = ReplaySetup(tree, captures, l2_bytes(loaded.device))
    notes = [*notes, *left_out, *without_numbers(tree, captures)]
    return _Ready(replay_setup, plan, described_tree(tree, captures, inputs), notes)


@contextmanager
def _bench(
    ready: _Ready, replayer: Replayer, loaded: LoadedModel, meter: MeterGroup, progress: Progress
) -> Iterator[Instruments]:
    """Yield what a session works with; of a split model, the other processes follow it."""
    eager = replayer.execution == "eager"
    if loaded.ranks == 1:
        clocked = next((each for each in meter.meters if isinstance(each, ModelledMeter)), None)
        timed = clocked and times_in_model(loaded.device, loaded.ranks, modelled=meter.modelled)
        in_model = InModel(ready.replay_setup, clocked, replayer.clock) if clocked and timed else None
        elsewhere = {device: Replayer(device, host=meter.host) for device in metered_devices(loaded)[1:]}
        yield Instruments(
            ready.replay_setup,
            replayer,
            meter,
            elsewhere=elsewhere,
            sampling_s=sampling_interval(meter, loaded.device, progress=progress),
            eager=eager,
            in_model=in_model,
        )
        return
    with leading(ready.replay_setup, ready.plan, loaded.device, meter.host) as lead:
        yield Instruments(
            lead.replay_setup, lead.replayer, meter, elsewhere=lead.elsewhere, eager=eager, split=True
        )


def times_in_model(device: torch.device, ranks: int, *, modelled: bool) -> bool:
    """Tell whether components are timed in the model: calls return when they are done, joules are time x watts."""
    return modelled and device.type == "cpu" and ranks == 1


def captures_of(
    tree: ComponentTree, inputs: Mapping[str, Any], loaded: LoadedModel, execution: Execution
) -> tuple[dict[str, Capture], list[Reason]]:
    """Return what every component is given in the execution that is measured, and what to know of it."""
    with states_put_back(inputs):
        return _captures_of(tree, inputs, loaded, execution)


def _captures_of(
    tree: ComponentTree, inputs: Mapping[str, Any], loaded: LoadedModel, execution: Execution
) -> tuple[dict[str, Capture], list[Reason]]:
    budget = device_budget(*loaded.devices)
    if execution == "eager":
        return capture(tree, inputs, ActivationStore(budget)), []
    try:
        return capture_in_graph(tree, inputs, loaded.device, ActivationStore(budget))
    except NotCapturableError as error:
        why = reason("not-capturable", error=error)
    except torch.OutOfMemoryError:  # a graph holds all inputs at once, on the device; the store need not
        why = reason("no-memory-for-graph")
    return capture(tree, inputs, ActivationStore(budget)), [reason("eager-inputs", why=why)]


def present(tree: ComponentTree, captures: Mapping[str, Capture]) -> tuple[ComponentTree, list[Reason]]:
    """Return the tree without what is not called, and a note on each function and group that is not in another.

    Raises:
        ModelError: a component is not called, and one in it is: what it takes would be nobody's.

    """
    absent = not_called(tree, captures)
    inside = {component.name for component in absent}
    for component in tree:
        if component.parent in inside and component.name not in inside:
            raise ModelError(
                f"{component.parent} is not called, and {component.name} in it is: its adapter must not declare it"
            )
    names = Counter(
        (component.part and component.part.function) or component.group
        for component in absent
        if component.parent not in inside
    )
    notes = [
        reason("components-not-called", components=number, function=name) for name, number in sorted(names.items())
    ]
    return tree.without([component.name for component in absent]), notes


def without_numbers(tree: ComponentTree, captures: Mapping[str, Capture]) -> list[Reason]:
    """Return a note that names the first component whose output holds NaN; none where all are numbers.

    Bits that are all alike switch less, and take less power, than those of real values.
    """
    broken = [component for component in tree if _holds_nan(captures[component.name].output)]
    parents = {component.parent for component in broken}
    first = next((component.name for component in broken if component.name not in parents), None)
    return [] if first is None else [reason("outputs-are-nan", component=first)]


def _holds_nan(output: Any) -> bool:
    floats = (tensor for tensor in tensors_in(output) if tensor.is_floating_point() and tensor.element_size() > 1)
    return any(bool(tensor.isnan().any()) for tensor in floats)


def described_tree(
    tree: ComponentTree, captures: Mapping[str, Capture], inputs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return what a profile's header says of each component, its work (FLOPs, bytes) included."""
    work = count_work(tree, inputs)
    return [_describe(component, captures[component.name], work[component.name]) for component in tree]


def _header(
    plan: Sequence[Target], loaded: LoadedModel, workload: Workload, settings: ProfileSettings, *, in_model: bool
) -> dict[str, Any]:
    """Return the settings that attribution needs, and the plan, as plain data."""
    return {
        "phase": workload.phase,
        "precision": loaded.precision,
        "execution": settings.execution,
        "batch_size": workload.batch_size,
        "context_length": workload.context,
        "kv_cache": workload.kv_cache,
        "layers": measured_layers(settings.layers, replayed=not in_model),
        "in_model": in_model,
        "device": str(loaded.device),
        "devices": [str(device) for device in metered_devices(loaded)],
        "passes": settings.sampling_budget.passes,
        "subjects": [asdict(target) for target in plan],
    }


def _describe(component: Component, captured: Capture, work: Work) -> dict[str, Any]:
    return {
        "name": component.name,
        "kind": component.kind,
        "layer": component.layer,
        "level": component.level,
        "parent": component.parent,
        "devices": places_of(component, captured),
        "calls": captured.calls,
        "varied": captured.varied,
        "parameters": parameter_count(component.module),
        "weight_bytes": weight_bytes(component.module),
        "flops": work.flops,
        "executed_flops": work.executed_flops,
        "bytes": work.bytes,
        "work_reason": work.reason,
    }


def metered_devices(loaded: LoadedModel) -> list[torch.device]:
    """Return the devices whose joules are measured: with GPUs not the host, where modules may wait."""
    return [device for device in loaded.devices if device.type == loaded.device.type]


def places_of(component: Component, captured: Capture) -> list[str]:
    """Return the devices that a component runs on: those of its weights, or of its output where it has none."""
    weights = dict.fromkeys(str(weight.device) for weight in component.module.parameters() if not weight.is_meta)
    if weights:
        return list(weights)
    return list(
        dict.fromkeys(str(getattr(tensor, "home", tensor.device)) for tensor in tensors_in(captured.output))
    )[:1]


def recover(entries: Sequence[Mapping[str, Any]]) -> Attribution:
    """Attribute energy from one phase's journalled entries, of a finished or of an interrupted profile."""
    entries = of_profile(entries)
    header = next(entry["header"] for entry in entries if "header" in entry)
    return attribute(header, entries, records.idle_of(entries))


def of_profile(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return this stage's entries of a run's journal."""
    return [entry for entry in entries if entry.get("stage") == STAGE]


def notes_of(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what a reader should know of how the profile was set up."""
    return [note for entry in entries if "header" in entry for note in entry["header"].get("notes", ())]


def anchors_drift(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return how much the whole model's energy drifted over the passes, with its 95 % interval, and a verdict."""
    at_one_speed, _ = records.at_main_speed(of_profile(entries))
    anchors = [entry for entry in records.windows(at_one_speed) if entry["subject"] == records.MODEL]
    trend = drift([entry["begin_s"] for entry in anchors], [entry["window"]["energy_mj"] for entry in anchors])
    return None if trend is None else {**asdict(trend), "significant": trend.significant}

"""Triggered sampling: the meter is read right before and right after each component of ordinary forward passes.

The simple method that people know, without amplification:

    model      ... |  component  | ...
    device         |=============|  waited for at both ends
    meter      read|             |read

A counter that ticks every 100 ms says nothing of a component that takes 100 us: then the energy is unknown, and
only time and power are given. A read takes milliseconds, so components inside one another are read in forward
passes of their own: no component contains the reads of its parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from energyscope.accounting.aggregate import Attribution
from energyscope.accounting.triggered import SAMPLING, recover
from energyscope.components import Component, ComponentTree, component_tree
from energyscope.functions import routed
from energyscope.loading import LoadedModel
from energyscope.metering.group import MeterGroup
from energyscope.metering.meter import Reading
from energyscope.metering.waiting import measure_idle
from energyscope.progress import Progress, silent
from energyscope.reasons import reason
from energyscope.replay.activations import ActivationStore, device_budget
from energyscope.replay.calls import Call
from energyscope.replay.capture import capture, forward_inputs
from energyscope.replay.replayer import Replayer
from energyscope.stages.profile import ProfileSettings, described_tree, present
from energyscope.stages.session import STAGE, Journal
from energyscope.unknown import minus, times, total

if TYPE_CHECKING:
    from energyscope.workloads import Workload

WARM_UP_CALLS = 3


def triggered(
    loaded: LoadedModel,
    workload: Workload,
    meter: MeterGroup,
    settings: ProfileSettings,
    *,
    journal: Journal,
    progress: Progress = silent,
) -> Attribution:
    """Read started meters around every component of a loaded model, in ``settings.sampling_budget.passes`` passes.

    The reads of each forward pass go to ``journal`` before the next one starts: ``recover`` makes the same table
    of what was journalled.

    Raises:
        UsageError: the meter cannot be read at a moment.
        MeterError: the meter was lost.
        ModelError: a component is not called, and one in it is.

    """
    tree, header = _prepared(loaded, workload, meter, settings)
    entries: list[Mapping[str, Any]] = []

    def keep(entry: Mapping[str, Any]) -> None:
        entries.append({"stage": STAGE, **entry})
        journal(entries[-1])

    keep({"header": header})
    call = partial(loaded.model, **forward_inputs(loaded.model, workload.inputs))
    replayer = Replayer(loaded.device)
    keep({"pass": 0, **_idle(meter, replayer)})
    levels, passes = by_depth(tree), settings.sampling_budget.passes
    with torch.no_grad():
        for _ in range(WARM_UP_CALLS):
            call()
        for step in range(passes * len(levels)):
            number, depth = divmod(step, len(levels))
            progress(STAGE, f"pass {number + 1}, {len(levels[depth])} components", step, passes * len(levels))
            keep({"pass": number, "reads": reads_around(levels[depth], call, meter.read, replayer.synchronize)})
    keep({"pass": passes, **_idle(meter, replayer)})
    return recover(entries)


def _prepared(
    loaded: LoadedModel, workload: Workload, meter: MeterGroup, settings: ProfileSettings
) -> tuple[ComponentTree, dict[str, Any]]:
    """Return the components that the model calls, and the header: what attribution needs, as plain data."""
    tree = component_tree(loaded.model, loaded.adapter, settings.granularity)
    captures = capture(tree, workload.inputs, ActivationStore(device_budget(loaded.device)))
    tree, notes = present(tree, captures)
    header = {
        "sampling": SAMPLING,
        "meter": meter.name,
        "ticks_s": [tick_period_s(member.describe()) for member in meter.meters],
        "phase": workload.phase,
        "precision": loaded.precision,
        "execution": "eager",
        "batch_size": workload.batch_size,
        "context_length": workload.sequence_length,
        "device": str(loaded.device),
        "passes": settings.sampling_budget.passes,
        "tree": described_tree(tree, captures, workload.inputs),
        "notes": [reason("read-around-components"), *notes],
    }
    return tree, header


def tick_period_s(sensor: Mapping[str, Any]) -> float | None:
    """Return how often a counter changes (s): more often than its meter watches it, where that says both."""
    period_s: float | None = sensor.get("update_period_s") or sensor.get("tick_period_s")
    return period_s


def _idle(meter: MeterGroup, replayer: Replayer) -> dict[str, Any]:
    replayer.synchronize()
    return measure_idle(meter, lambda: [replayer.own_bytes()]) or {"idle_w": None, "bystanders": []}


def by_depth(tree: ComponentTree) -> list[list[Component]]:
    """Return the components by how many others contain them: those of one list never contain one another."""
    depths: dict[str, int] = {}
    for component in tree:  # parents come first
        depths[component.name] = 0 if component.parent is None else depths[component.parent] + 1
    return [
        [component for component in tree if depths[component.name] == depth]
        for depth in range(max(depths.values()) + 1)
    ]


def reads_around(
    components: Sequence[Component], call: Call, read: Callable[[], list[Reading]], synchronize: Callable[[], None]
) -> list[dict[str, Any]]:
    """Run a forward pass, the meters read around each call of the components.

    Returns:
        For each call ``component``, ``time_us`` between the reads, and by device the counter's rise ``rises_mj``
        and ``power_w``, the mean of both readings; None what was not answered.

    """
    reads: list[dict[str, Any]] = []
    begun: dict[str, tuple[list[Reading], float]] = {}

    def before(name: str) -> None:
        synchronize()
        first = read()
        begun[name] = first, first[0].at_s or time.monotonic()

    def after(name: str) -> None:
        synchronize()
        now_s = time.monotonic()
        last = read()
        end_s = last[0].at_s or now_s
        first, begin_s = begun.pop(name)
        reads.append({
            "component": name,
            "time_us": (end_s - begin_s) * 1e6,
            "rises_mj": [minus(b.energy_mj, a.energy_mj) for a, b in zip(first, last, strict=True)],
            "power_w": [times(total([a.power_w, b.power_w]), 0.5) for a, b in zip(first, last, strict=True)],
        })  # fmt: skip

    with _hooked(components, before, after):
        call()
    return reads


@contextmanager
def _hooked(
    components: Sequence[Component], before: Callable[[str], None], after: Callable[[str], None]
) -> Iterator[None]:
    with ExitStack() as stack:
        for component in components:
            first, last = _hooks(component.name, before, after)
            stack.callback(component.module.register_forward_pre_hook(first).remove)
            stack.callback(component.module.register_forward_hook(last).remove)
        stack.enter_context(routed(component.module for component in components))
        yield


def _hooks(name: str, before: Callable[[str], None], after: Callable[[str], None]) -> tuple[Any, Any]:
    """Return PyTorch's two kinds of hooks; neither changes what the component is given or returns."""
    return lambda *_: before(name), lambda *_: after(name)

"""What a plan replays: groups of linears at each precision, and the whole model with choices applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from energyscope.benchmarking.memory import release
from energyscope.errors import ModelError
from energyscope.failures import first_line
from energyscope.grouping import group_by
from energyscope.loading import LoadedModel
from energyscope.metering.group import MeterGroup
from energyscope.planning.groups import LinearGroup
from energyscope.planning.layers import Layers, exchanged
from energyscope.planning.record import PRICES, STILL, TOGETHER, VERIFY
from energyscope.planning.replaying import MODEL, PlanSetup, applied_target, middle, price_target, tree_of
from energyscope.planning.workloads import PlanWorkload
from energyscope.progress import Progress
from energyscope.reasons import Reason, reason
from energyscope.replay.marks import clock_for
from energyscope.replay.replayer import Replayer
from energyscope.replay.rotation import l2_bytes
from energyscope.replay.targets import Target
from energyscope.settings.run import RunSettings
from energyscope.stages.alternatives import AlternativesSettings, alternatives
from energyscope.stages.context import Context
from energyscope.stages.instruments import Instruments
from energyscope.stages.phases import PhasePlan, workload_of
from energyscope.stages.preparing import prompt_of
from energyscope.stages.profile import captures_of
from energyscope.stages.sampling_budget import REWARM_S, SamplingBudget
from energyscope.stages.sampling_interval import sampling_interval
from energyscope.stages.session import Session
from energyscope.workloads import Workload

PRICING, LEVERS = "plan: prices", "plan: levers"
LABELS = {
    PRICES: PRICING,
    TOGETHER: "plan: each precision where it saves",
    STILL: "plan: each precision where it still saves",
    VERIFY: "plan: verification",
}
VERIFY_PASSES = 7

Keep = Callable[[Mapping[str, Any]], None]


def made(workload: PlanWorkload, context: Context) -> Workload:
    """Return the inputs of a workload, on the device.

    Raises:
        UsageError: the model generates no text, or has no positions for it.

    """
    settings = replace(context.settings, batch_size=workload.batch_size)
    length = next(iter(settings.context_lengths), None) if workload.phase == "decode" else None
    prompt = prompt_of(context.loaded, context.evaluation, settings)
    return workload_of(
        PhasePlan(workload.phase, length, "kinds"), context.loaded, prompt, settings, context.evaluation
    )


def passes_of(part: str, settings: RunSettings) -> int:
    """Return how many windows of each target decide how many are taken of it."""
    return max(VERIFY_PASSES, settings.passes) if part == VERIFY else settings.passes


def budget_of(part: str, settings: RunSettings) -> SamplingBudget:
    """Return how much is spent on each target of a part of a plan."""
    pricing = part == PRICES
    return SamplingBudget(
        passes_of(part, settings),
        settings.target_interval,
        None,
        settings.window_s,
        phases=2 if pricing else 1,  # brief: so many targets have their first windows only
        preheat_s=SamplingBudget.preheat_s if pricing else REWARM_S,
        settle_capped=not pricing,  # whole models in turn: each finds the clocks that the one before left
        idle_each_pass=False,  # savings are of all joules first: idle power may be known less well
    )


class PlanReplays:
    """Measures on one model; ``keep`` gets every entry with the workload that it is of."""

    def __init__(self, context: Context, meter: MeterGroup, keep: Keep, groups: Sequence[LinearGroup]) -> None:
        self.settings: RunSettings = context.settings
        self.loaded: LoadedModel = context.loaded
        self.progress: Progress = context.progress
        self.meter = meter
        self.groups = groups
        self._keep = keep

    def price(self, workload: Workload, key: str, precisions: Sequence[str]) -> list[Reason]:
        """Measure what a group of each family takes at each precision, beside the whole model.

        Returns what is to be known of the inputs.
        """
        targets = [MODEL]
        with self._setup(workload) as (setup, notes):
            for family, groups in self._families().items():
                for precision in precisions:
                    self.progress(PRICING, f"setting up {family} in {precision}", 0, 1)
                    priced = {"family": family, "precision": precision}
                    try:
                        size = setup.price(groups, precision, own=precision == self.loaded.precision)
                    except ModelError as error:
                        why = reason("failed", error=first_line(error))
                        self._keep({"workload": key, "not_priced": {**priced, "reason": why}})
                    else:
                        self._keep({"workload": key, "priced": {**priced, "bytes": size}})
                        targets.append(price_target(family, precision))
            self._run(setup, key, PRICES, targets)
        return notes

    def apply(self, part: str, workload: Workload, key: str, choices: Mapping[str, Layers]) -> None:
        """Measure the whole model with each of the choices, by name, in turn with the model as it is."""
        with self._setup(workload) as (setup, _):
            for name, layers in choices.items():
                setup.apply(name, layers)
            self._run(setup, key, part, [MODEL, *map(applied_target, choices)])

    def levers(self, workload: PlanWorkload, context: Context, layers: Layers) -> None:
        """Measure what else saves energy once a choice is applied: each alternative to the run's setting.

        What helps a model by itself need not help it then: a product that is cheaper leaves less to save.
        """
        settings = self.settings
        chosen = AlternativesSettings(
            passes=settings.passes,
            seed=settings.seed,
            window_s=settings.window_s,
            new_tokens=settings.new_tokens,
            phase=workload.phase,
        )
        run = replace(settings, batch_size=workload.batch_size)

        def keep(entry: Mapping[str, Any]) -> None:
            self._keep({"workload": workload.key, "lever": {**entry}})

        def progress(stage: str, label: str, done: int, total: int) -> None:  # noqa: ARG001 - named LEVERS here
            self.progress(LEVERS, label, done, total)

        with exchanged(self.loaded.model, layers):
            alternatives(
                self.loaded,
                prompt_of(self.loaded, context.evaluation, run),
                self.meter,
                chosen,
                execution=settings.executions[0],
                kv_cache=settings.kv_cache,
                batch_size=workload.batch_size,
                context_length=next(iter(settings.context_lengths), None),
                evaluation=context.evaluation,
                journal=keep,
                progress=progress,
            )

    def _families(self) -> dict[str, list[LinearGroup]]:
        return group_by(self.groups, lambda group: group.family)

    @contextmanager
    def _setup(self, workload: Workload) -> Iterator[tuple[PlanSetup, list[Reason]]]:
        model, execution = self.loaded.model, self.settings.executions[0]
        tree = tree_of(model, [middle(groups) for groups in self._families().values()])
        captures, notes = captures_of(tree, workload.inputs, self.loaded, execution)
        setup = PlanSetup(tree, captures, l2_bytes(self.loaded.device))
        try:
            yield setup, notes
        finally:
            setup.clear()
            release(self.loaded.device)

    def _run(self, setup: PlanSetup, key: str, part: str, targets: Sequence[Target]) -> None:
        settings, execution = self.settings, self.settings.executions[0]
        instruments = Instruments(
            setup,
            Replayer(self.loaded.device, execution, clock=clock_for(self.meter, self.loaded.device)),
            self.meter,
            sampling_s=sampling_interval(self.meter, self.loaded.device, progress=self.progress),
            eager=execution == "eager",
        )
        session = Session(
            instruments,
            budget_of(part, settings),
            lambda entry: self._keep({"workload": key, "part": part, **entry}),
            seed=settings.seed,
            stage=LABELS[part],
        )
        session.run(targets, self.progress)

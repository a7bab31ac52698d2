"""Plan: which linears at which precision save the most inside a budget for the predictions; applied and verified.

prices        a group of each family at each precision, and the whole model, in shuffled passes
sensitivity   each group by itself at each precision, on the first half of the data
whole choices every precision everywhere, rules of thumb and random mixtures, on the same half
choice        the cheapest within the budget; tried as a whole and corrected until it does what it should
verification  the model as it is and with each choice that counts, in turn; predictions on the second half
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from energyscope.benchmarking.memory import release
from energyscope.errors import DataError, ModelError, UsageError
from energyscope.failures import failure, first_line, out_of_memory
from energyscope.grouping import group_by
from energyscope.impact.metrics import Outcomes
from energyscope.loading.linears import skipped_linears
from energyscope.loading.options import NATIVE
from energyscope.loading.sizes import stored_bytes
from energyscope.metering.group import MeterGroup
from energyscope.planning import document
from energyscope.planning.budget import DEFAULTS, WITHOUT_WEIGHTS, Budget, parse_budget
from energyscope.planning.choice import Choice, ChoiceProblem, choose
from energyscope.planning.groups import LinearGroup, groups_of
from energyscope.planning.judging import Judge
from energyscope.planning.layers import BITS, candidates, layer_in, layers_of
from energyscope.planning.record import PRICES, VERIFY, NamedChoice, PlanRecord
from energyscope.planning.replaying import MODEL, PlanSetup, applied_target, middle, price_target, tree_of
from energyscope.progress import Progress
from energyscope.reasons import Reason, reason
from energyscope.replay.replayer import Replayer
from energyscope.replay.rotation import l2_bytes
from energyscope.runs.schema import PLAN_JSON
from energyscope.runs.store import RunStore, read_journal
from energyscope.stages.context import Context, Entries, metered
from energyscope.stages.instruments import Instruments
from energyscope.stages.phases import plan_phases, workload_of
from energyscope.stages.profile import captures_of
from energyscope.stages.sampling_budget import REWARM_S, SamplingBudget
from energyscope.stages.sampling_interval import sampling_interval
from energyscope.stages.session import Session
from energyscope.workloads.evaluation import halves
from energyscope.workloads.inputs import synthetic_evaluation

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation, Workload

STAGE = "plan"
PRICING, JUDGING, TRYING, VERIFYING = "plan: prices", "plan: sensitivity", "plan: choices", "plan: verification"
PLAN, SENSITIVITY_ONLY, MLP_RULE = document.PLAN, "sensitivity only", "MLP to 8 bits"
MIXTURES = 3
TRIES = 4  # of a choice that does more harm as a whole than its parts
AS_EXPECTED = 1.05  # times the harm that was expected
MOST_EXCESS = 4.0  # by which harms are scaled at once
VERIFY_PASSES = 7
_EIGHT_BITS = ("int8", "fp8")


def run(context: Context) -> Reason | None:
    """Plan a run's model; return why that is skipped.

    Raises:
        UsageError: the model is quantized, no precision is possible, or the budget does not go with the data.
        DataError: there is no evaluation data.

    """
    if len(context.loaded.devices) > 1:
        return reason("spread-model")
    with metered(context, STAGE) as meter:
        Planner(context, meter).run()
    write(context.store, read_journal(context.store.path))
    release(context.loaded.device)
    return None


def write(store: RunStore, entries: Entries) -> bool:
    """Write plan.json; False where no choice was made."""
    result = document.document(PlanRecord([entry for entry in entries if entry.get("stage") == STAGE]))
    if result is None:
        return False
    store.write_json(PLAN_JSON, result)
    store.update()
    return True


def evaluation_for(context: Context, budget: Budget) -> Evaluation:
    """Return the data on which a plan is made and judged: random tokens where weights are random.

    Raises:
        DataError: there are no data, or too few for the budget.

    """
    settings, loaded = context.settings, context.loaded
    if settings.weights == "random":
        return synthetic_evaluation(loaded, seed=settings.seed)
    if context.evaluation is None:
        why = "" if context.no_evaluation is None else f" ({context.no_evaluation.words})"
        raise DataError(f"a plan is judged on data, and there are none{why}: give some with --data")
    evaluation = context.evaluation
    fewest = 2 * (budget.fewest_examples() or 1)
    if evaluation.examples < max(fewest, 4):
        raise DataError(
            f"{evaluation.examples} examples are too few to see {budget}: each half of the data needs "
            f"{max(fewest, 4) // 2:,}; give more with --data, or a wider --budget"
        )
    return evaluation


class Planner:
    """Makes a plan for one model; whatever is finished is journalled at once."""

    def __init__(self, context: Context, meter: MeterGroup) -> None:
        """Find out what can be chosen, before anything is measured."""
        settings, self.loaded = context.settings, context.loaded
        self.context, self.settings, self.meter = context, settings, meter
        self.progress: Progress = context.progress
        self.model, self.device = self.loaded.model, self.loaded.device
        if self.loaded.precision not in NATIVE:
            raise UsageError(
                f"a plan chooses precisions, and the model is quantized already ({self.loaded.precision}): use "
                f"--precision {' or '.join(NATIVE)}"
            )
        random_weights = settings.weights == "random"
        usual = WITHOUT_WEIGHTS if random_weights else DEFAULTS[self.loaded.adapter.task]
        self.budget = parse_budget(settings.budget or usual)
        self.evaluation = evaluation_for(context, self.budget)
        self.groups = groups_of(
            self.model, self.loaded.adapter, skipped_linears(self.model, settings.skip_modules)
        )
        if not self.groups:
            raise UsageError(
                f"{self.loaded.name} has no linear layers that could be quantized: there is nothing to plan"
            )
        self.precisions, self.left_out = candidates(settings.plan_precisions, self.loaded.precision, self.device)
        if not self.precisions:
            why = "; ".join(f"{name}: {reason.words}" for name, reason in self.left_out.items())
            raise UsageError(f"no other precision is possible here ({why})")
        self.record = PlanRecord([])

    @property
    def names(self) -> list[str]:
        return [self.loaded.precision, *self.precisions]

    def keep(self, entry: Mapping[str, Any]) -> None:
        """Journal an entry; the record of all so far is made anew when it is asked for."""
        self.context.store.journal({"stage": STAGE, **entry})
        self.record = PlanRecord([*self.record.entries, entry])

    def run(self) -> None:
        """Price, judge, choose and verify."""
        first, second = halves(self.evaluation)
        planned = plan_phases(self.settings, self.loaded)[0]
        workload = workload_of(planned, self.loaded, self.context.workload, self.settings, self.context.evaluation)
        setup, notes = self._setup(workload)
        self.progress(JUDGING, "the original's predictions", 0, 1)
        judge = Judge(self.model, first)
        self.keep({"header": self._header(workload, judge, (first, second), notes)})
        try:
            self._price(setup)
            self._sensitivity(judge)
            problem = self._whole_choices(judge)
            self._choose(judge, problem)
            del judge
            self._verify(setup, second)
        finally:
            setup.clear()

    def _header(
        self, workload: Workload, judge: Judge, parts: tuple[Evaluation, Evaluation], notes: Sequence[Reason]
    ) -> dict[str, Any]:
        settings = self.settings
        return {
            "model": self.loaded.name,
            "weights": settings.weights,
            "budget": str(self.budget),
            "objective": settings.objective,
            "precisions": self.names,
            "left_out": self.left_out,
            "groups": [asdict(group) for group in self.groups],
            "execution": settings.executions[0],
            "phase": workload.phase,
            "batch_size": workload.batch_size,
            "context_length": workload.context,
            "rows": workload.batch_size * (1 if workload.phase == "decode" else workload.sequence_length),
            "data": self.evaluation.source,
            "examples": [part.examples for part in parts],
            "baseline": self.budget.baseline(judge.unchanged),
            "weight_bytes": stored_bytes(self.model),
            "modelled": self.meter.modelled,
            "passes": settings.passes,
            "seed": settings.seed,
            "notes": list(notes),
        }

    # --- what groups cost -----------------------------------------------------------------------------------

    def _setup(self, workload: Workload) -> tuple[PlanSetup, list[Reason]]:
        representatives = [middle(groups) for groups in self._families().values()]
        tree, execution = tree_of(self.model, representatives), self.settings.executions[0]
        captures, notes = captures_of(tree, workload.inputs, self.loaded, execution)
        return PlanSetup(tree, captures, l2_bytes(self.device)), notes

    def _families(self) -> dict[str, list[LinearGroup]]:
        return group_by(self.groups, lambda group: group.family)

    def _price(self, setup: PlanSetup) -> None:
        """Measure what a group of each family takes at each precision, beside the whole model."""
        targets = [MODEL]
        for family, groups in self._families().items():
            for precision in self.names:
                self.progress(PRICING, f"setting up {family} in {precision}", 0, 1)
                priced = {"family": family, "precision": precision}
                try:
                    size = setup.price(groups, precision, own=precision == self.loaded.precision)
                except ModelError as error:
                    why = reason("failed", error=first_line(error))
                    self.keep({"not_priced": {**priced, "reason": why}})
                else:
                    self.keep({"priced": {**priced, "bytes": size}})
                    targets.append(price_target(family, precision))
        self._session(setup, PRICES, self.settings.passes).run(targets, self.progress)
        setup.clear()
        release(self.device)

    def _session(self, setup: PlanSetup, part: str, passes: int) -> Session:
        execution = self.settings.executions[0]
        instruments = Instruments(
            setup,
            Replayer(self.device, execution),
            self.meter,
            sampling_s=sampling_interval(self.meter, self.device, progress=self.progress),
            eager=execution == "eager",
        )
        budget = SamplingBudget(
            passes,
            self.settings.target_interval,
            None,
            self.settings.window_s,
            phases=2 if part == PRICES else 1,  # brief: so many targets have their first windows only
            preheat_s=SamplingBudget.preheat_s if part == PRICES else REWARM_S,
        )
        return Session(
            instruments,
            budget,
            lambda entry: self.keep({"part": part, **entry}),
            seed=self.settings.seed,
            stage=PRICING if part == PRICES else VERIFYING,
        )

    # --- what it does to the predictions --------------------------------------------------------------------

    def _sensitivity(self, judge: Judge) -> None:
        """Measure what each group does by itself at each precision that has a price."""
        self.keep({"weights": self.budget.harm(judge.unchanged).weights.tolist()})
        priced, total = self.record.priced_bytes, len(self.groups) * len(self.precisions)
        for number, group in enumerate(self.groups):
            for place, precision in enumerate(self.precisions):
                self.progress(
                    JUDGING, f"{group.name} in {precision}", number * len(self.precisions) + place, total
                )
                if (group.family, precision) in priced:
                    item = {"group": group.name, "precision": precision}
                    self.keep({"harms": {**item, **self._judged(judge, [group.name], {group.name: precision})}})

    def _judged(self, judge: Judge, names: Sequence[str], precisions: Mapping[str, str]) -> dict[str, Any]:
        """Return the harm of exchanging some groups, by example; None with the reason where it cannot be had."""
        chosen = [group for group in self.groups if group.name in names]
        try:
            layers = {
                path: layer_in(self.model.get_submodule(path), precisions[group.name], path)
                for group in chosen
                for path in group.paths
            }
            outcomes = judge.outcomes(layers)
        except Exception as error:  # kernels fail in many ways, and one must not cost the others
            if out_of_memory(error):
                raise
            return {"sums": None, "reason": failure(error)}
        return {"sums": [float(f"{value:.6g}") for value in self.budget.harm(outcomes).sums]}

    def _try(self, judge: Judge, name: str, choice: Choice) -> NamedChoice:
        """Measure what a whole choice does."""
        self.progress(TRYING, name, 0, 1)
        precisions = [self.names[option] for option in choice]
        changed = {
            group.name: precision
            for group, precision in zip(self.groups, precisions, strict=True)
            if precision != self.loaded.precision
        }
        judged = self._judged(judge, list(changed), changed)
        self.keep({"tried": {"name": name, "precisions": precisions, **judged}})
        return next(tried for tried in self.record.tried if tried.name == name)

    def _whole_choices(self, judge: Judge) -> ChoiceProblem:
        """Measure whole choices; return the problem with harms as large as these showed them to be together."""
        problem = self.record.problem()
        for name, choice in self._rules(problem):
            self._try(judge, name, choice)
        known = [tried for tried in self.record.tried if tried.harm is not None]
        indices = [self.record.indices(tried) for tried in known]
        return problem.corrected(indices, [tried.harm.value for tried in known if tried.harm is not None])

    def _rules(self, problem: ChoiceProblem) -> Iterator[tuple[str, Choice]]:
        """Yield the choices that people make without a plan, and random ones."""
        for option, precision in enumerate(self.precisions, start=1):
            choice = problem.possible(option)
            if choice.any():
                yield document.everywhere(precision), choice
        eight = next((name for name in _EIGHT_BITS if name in self.precisions), None)
        if eight is not None:
            is_mlp = np.array([group.kind.startswith("mlp") for group in self.groups])
            choice = np.where(is_mlp, problem.possible(self.names.index(eight)), 0)
            if choice.any():
                yield MLP_RULE, choice
        drawn = np.random.default_rng(self.settings.seed)
        for number in range(MIXTURES):
            options = [np.flatnonzero(~np.isnan(row)) for row in problem.costs]
            yield f"random {number + 1}", np.array([drawn.choice(row) for row in options], dtype=np.intp)

    # --- choosing -------------------------------------------------------------------------------------------

    def _choose(self, judge: Judge, problem: ChoiceProblem) -> None:
        """Choose, and choose again while the whole does more harm than its parts were expected to."""
        limit = self.budget.limit(self.record.header["baseline"])
        choice = problem.own
        for _ in range(TRIES):
            choice = choose(problem, limit)
            if not choice.any():
                break
            tried, expected = self._try(judge, PLAN, choice), problem.harm(choice)
            excess = math.inf
            if tried.harm is not None:
                more = tried.harm.value / (AS_EXPECTED * expected) if expected else 0.0
                excess = max(more, document.upper(tried.harm, self.record) / limit if limit else 0.0)
            if excess <= 1:
                break
            problem = replace(problem, factor=problem.factor * min(excess, MOST_EXCESS))
        else:
            choice = problem.own
        by_bits = self._by_bits(problem, limit)
        if by_bits.any():
            self._try(judge, SENSITIVITY_ONLY, by_bits)
        best = document.best_within(self.record, limit)
        if best is not None and problem.cost(self.record.indices(best)) < problem.cost(choice):
            choice = self.record.indices(best)
            self._try(judge, PLAN, choice)
        self.keep(
            {
                "chosen": {
                    "precisions": [self.names[option] for option in choice],
                    "expected": problem.harm(choice),
                    "bound": problem.bound(choice),
                    "limit": limit,
                    "factor": problem.factor,
                }
            }
        )

    def _by_bits(self, problem: ChoiceProblem, limit: float) -> Choice:
        """Return what would be chosen if every bit cost the same, as planners without a meter assume."""
        bits = np.array([BITS[name] for name in self.names])
        sizes = np.array([group.parameters for group in self.groups])
        costs = np.where(np.isnan(problem.costs), np.nan, sizes[:, None] * bits)
        return choose(replace(problem, costs=costs), limit)

    # --- verifying ------------------------------------------------------------------------------------------

    def _verify(self, setup: PlanSetup, held_out: Evaluation) -> None:
        """Measure the model with the choices that count, in turn with the model as it is, and judge them anew."""
        compared = document.to_verify(self.record)
        self.progress(VERIFYING, "the original's predictions", 0, 1)
        judge = Judge(self.model, held_out)
        self.keep({"held_out_baseline": self.budget.baseline(judge.unchanged)})
        for choice in compared:
            layers: dict[str, torch.nn.Module] = {}
            for precision, groups in group_by(
                zip(self.groups, choice.precisions, strict=True), lambda pair: pair[1]
            ).items():
                if precision != self.loaded.precision:
                    layers |= layers_of(self.model, [group for group, _ in groups], precision)
            self.progress(VERIFYING, f"predictions of {choice.name}", 0, 1)
            self._judge_held_out(judge, choice, layers)
            setup.apply(choice.name, layers)
        del judge
        release(self.device)
        if compared:
            targets = [MODEL, *(applied_target(choice.name) for choice in compared)]
            self._session(setup, VERIFY, max(VERIFY_PASSES, self.settings.passes)).run(targets, self.progress)

    def _judge_held_out(self, judge: Judge, choice: NamedChoice, layers: Mapping[str, torch.nn.Module]) -> None:
        outcomes: Outcomes = judge.outcomes(layers)
        harm = self.budget.harm(outcomes)
        self.keep(
            {
                "held_out": {
                    "name": choice.name,
                    "sums": harm.sums.tolist(),
                    "weights": harm.weights.tolist(),
                    "kl": float(outcomes.kl.mean()),
                    "agreement": float(outcomes.agreement.mean()),
                }
            }
        )

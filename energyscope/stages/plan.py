"""Plan: which linears at which precision save the most inside a budget for the predictions; applied and verified.

prices        a group of each family at each precision, and the whole model, in shuffled passes
in the model  each precision in all groups that it saves something in: together they may cost otherwise;
              then in those that this leaves a saving, if it does not leave it to all
sensitivity   each group by itself at each precision that saves something, on the first half of the data
whole choices every precision everywhere, rules of thumb and random mixtures, on the same half
choice        the cheapest within the budget; tried as a whole and corrected until it does what it should
verification  the model as it is and with each choice that counts, in turn; predictions on the second half
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from energyscope.benchmarking.memory import release
from energyscope.errors import ModelError
from energyscope.failures import ends_a_run, failure, first_line, out_of_memory
from energyscope.loading.checkpoint_formats import format_of
from energyscope.loading.sizes import stored_bytes
from energyscope.metering.group import MeterGroup
from energyscope.planning import document
from energyscope.planning.applying import precisions_of
from energyscope.planning.choice import Choice, choose
from energyscope.planning.document import PLAN
from energyscope.planning.exporting import export_plan, kernels_of
from energyscope.planning.judging import Judge
from energyscope.planning.layers import layer_in
from energyscope.planning.record import PRICES, STILL, TOGETHER, VERIFY, NamedChoice, PlanRecord, to_judge
from energyscope.planning.rules import SENSITIVITY_ONLY, everywhere, in_bits, rules
from energyscope.planning.workloads import PlanWorkload
from energyscope.reasons import Reason, reason
from energyscope.runs.schema import PLAN_JSON
from energyscope.runs.store import RunStore, read_journal
from energyscope.stages.context import Context, Entries, metered
from energyscope.stages.plan_replays import PlanReplays, made, passes_of
from energyscope.stages.plan_scope import context_of, plan_scope
from energyscope.workloads.evaluation import halves

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

STAGE = "plan"
# parts of the stage that nothing is replayed in; `plan_replays.LABELS` are the others
ORIGINAL, JUDGING, TRYING = "plan: predictions", "plan: sensitivity", "plan: choices"
HELD_OUT, EXPORTING = "plan: second half", "plan: export"
TRIES = 4  # of a choice that does more harm as a whole than its parts
MOST_EXCESS = 4.0  # by which harms are scaled at once


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
    if context.settings.export is not None:
        _export(context, context.settings.export)
    release(context.loaded.device)
    return None


def _export(context: Context, folder: Path) -> None:
    """Write the model with the first workload's plan, unless that changes nothing or breaks its budget."""
    plan = json.loads((context.store.path / PLAN_JSON).read_text(encoding="utf-8"))
    verdict = plan["workloads"][0]["verdict"]
    note = reason("plan-not-exported", verdict=verdict)
    if verdict == "saves":
        context.progress(EXPORTING, str(folder), 0, 1)
        model, plan["command"] = context.loaded.model, context.store.document.get("command")
        form = format_of(context.settings.plan_precisions, context.settings.export_format)
        export_plan(model, plan, folder, context.loaded.tokenizer, format=form.name)
        note = kernels_of(str(folder), model, precisions_of(model, plan), form)
    context.store.document["warnings"].append(note)
    context.store.update()


def write(store: RunStore, entries: Entries) -> bool:
    """Write plan.json; False where no choice was made."""
    result = document.document(PlanRecord([entry for entry in entries if entry.get("stage") == STAGE]))
    if result is None:
        return False
    store.write_json(PLAN_JSON, result)
    store.update()
    return True


class Planner:
    """Makes a plan for one model; whatever is finished is journalled at once."""

    def __init__(self, context: Context, meter: MeterGroup) -> None:
        """Find out what can be chosen, before anything is measured."""
        self.context, self.settings, self.meter = context, context.settings, meter
        self.loaded, self.model, self.progress = context.loaded, context.loaded.model, context.progress
        scope = plan_scope(context.settings, context.loaded, context.evaluation, context.no_evaluation)
        self.scope, self.budget, self.groups = scope, scope.budget, scope.groups
        self.names, self.workloads = scope.precisions, scope.workloads
        self.entries: list[Mapping[str, Any]] = []
        self.replays = PlanReplays(context, meter, self.keep, self.groups)

    def keep(self, entry: Mapping[str, Any]) -> None:
        """Journal an entry."""
        self.entries.append(entry)
        self.context.store.journal({"stage": STAGE, **entry})

    def record(self, workload: PlanWorkload | None = None) -> PlanRecord:
        """Return what the entries so far say, of a workload or of the first."""
        return PlanRecord(self.entries, workload.key if workload else "")

    def run(self) -> None:
        """Price, judge, choose and verify."""
        first, second = halves(self.scope.evaluation)
        self.progress(ORIGINAL, "on the first half of the data", 0, 1)
        judge = Judge(self.model, first)
        self.keep({"header": self._header(judge, (first, second))})
        for workload in self.workloads:
            notes = self.replays.price(made(workload, self.context), workload.key, self.names)
            for note in notes:
                self.keep({"workload": workload.key, "note": note})
            for part in (TOGETHER, STILL):
                self._together(part, workload)
        self._sensitivity(judge)
        self._whole_choices(judge)
        for workload in self.workloads:
            self._choose(judge, workload)
        del judge
        self._verify(second)
        self._levers()

    def _header(self, judge: Judge, parts: tuple[Evaluation, Evaluation]) -> dict[str, Any]:
        settings = self.settings
        return {
            "model": self.loaded.name,
            "weights": settings.weights,
            "budget": str(self.budget),
            "objective": settings.objective,
            "precisions": self.names,
            "left_out": self.scope.left_out,
            "groups": [asdict(group) for group in self.groups],
            "execution": settings.executions[0],
            "workloads": [
                {"key": workload.key, "phase": workload.phase, "batch_size": workload.batch_size, "tokens": tokens}
                for workload in self.workloads
                for tokens in [_tokens(workload, self.context)]
            ],
            "data": self.scope.evaluation.source,
            "examples": [part.examples for part in parts],
            "baseline": self.budget.baseline(judge.unchanged),
            "weight_bytes": stored_bytes(self.model),
            "modelled": self.meter.modelled,
            "passes": {part: passes_of(part, settings) for part in (PRICES, TOGETHER, STILL, VERIFY)},
            "seed": settings.seed,
        }

    def _together(self, part: str, workload: PlanWorkload) -> None:
        """Measure each precision in all groups that it saves something in by what is known, for the whole model.

        Groups in which it costs more are left out: what they cost more in the model is not that of the others.
        """
        record, layers = self.record(workload), dict[str, Mapping[str, nn.Module]]()
        quantity = "time" if self.settings.objective == "time" else "energy"
        for precision in self.names[1:]:
            saving = [group for group in self.groups if (record.saving(group, precision, quantity) or 0.0) > 0]
            families = Counter(group.family for group in saving)
            before = record.together_in(TOGETHER, precision)
            if not families or families == before or (part == STILL and not before):
                continue
            try:
                layers[everywhere(precision)] = self._layers({group.name: precision for group in saving})
            except Exception as error:  # noqa: BLE001 - kernels fail in many ways; then groups are added up
                release(self.loaded.device)
                note = reason("plan-parts-alone", precision=precision, error=first_line(error))
                self.keep({"workload": workload.key, "note": note})
            else:
                entry = {"precision": precision, "families": families, "part": part}
                self.keep({"workload": workload.key, "everywhere": entry})
        if layers:
            self.replays.apply(part, made(workload, self.context), workload.key, layers)

    # --- what it does to the predictions --------------------------------------------------------------------

    def _sensitivity(self, judge: Judge) -> None:
        """Measure what each group does by itself at each precision that may be chosen."""
        self.keep({"weights": self.budget.harm(judge.unchanged).weights.tolist()})
        pairs = to_judge([self.record(workload) for workload in self.workloads], self.settings.objective)
        for number, (group, precision) in enumerate(pairs):
            self.progress(JUDGING, f"{group.name} in {precision}", number, len(pairs))
            judged = self._judged(judge, {group.name: precision})
            self.keep({"harms": {"group": group.name, "precision": precision, **judged}})

    def _judged(self, judge: Judge, precisions: Mapping[str, str]) -> dict[str, Any]:
        """Return the harm of exchanging groups, by example; None with the reason where it cannot be had."""
        try:
            outcomes = judge.outcomes(self._layers(precisions))
        except Exception as error:  # kernels fail in many ways, and one must not cost the others
            if out_of_memory(error) or ends_a_run(error):
                raise
            return {"sums": None, "reason": failure(error)}
        return {"sums": [float(f"{value:.6g}") for value in self.budget.harm(outcomes).sums]}

    def _layers(
        self, precisions: Mapping[str, str], made_before: dict[tuple[str, str], nn.Module] | None = None
    ) -> dict[str, nn.Module]:
        """Return the layers of groups at their precisions, by the paths of the linears.

        Those that were ``made_before``, by path and precision, are taken again, and new ones join them.
        """
        known = {} if made_before is None else made_before
        layers = {}
        for group in self.groups:
            precision = precisions.get(group.name, self.loaded.precision)
            for path in group.paths if precision != self.loaded.precision else ():
                if (path, precision) not in known:
                    known[path, precision] = layer_in(self.model.get_submodule(path), precision, path)
                layers[path] = known[path, precision]
        return layers

    def _by_group(self, precisions: Sequence[str]) -> dict[str, str]:
        return {group.name: name for group, name in zip(self.groups, precisions, strict=True)}

    def _try(self, judge: Judge, name: str, choice: Choice, workload: PlanWorkload | None = None) -> NamedChoice:
        """Measure what a whole choice does, of one workload or of all."""
        self.progress(TRYING, name, 0, 1)
        precisions = [self.names[option] for option in choice]
        tried = {"name": name, "precisions": precisions, **self._judged(judge, self._by_group(precisions))}
        self.keep({"tried": tried} if workload is None else {"workload": workload.key, "tried": tried})
        return next(one for one in self.record(workload).tried if one.name == name)

    def _whole_choices(self, judge: Judge) -> None:
        """Measure choices that people make without a plan, by the first workload's prices, and random mixtures."""
        record = self.record()
        eight = record.eight(self.settings.objective)
        for name, choice in rules(record.problem(), self.names, self.groups, record.priced, eight):
            self._try(judge, name, choice)

    # --- choosing -------------------------------------------------------------------------------------------

    def _choose(self, judge: Judge, workload: PlanWorkload) -> None:
        """Choose, and choose again while the whole, unlike its parts, does more harm than the budget has."""
        record = self.record(workload)
        limit = self.budget.limit(record.header["baseline"])
        problem = record.corrected(limit)
        choice = problem.own
        for _ in range(TRIES):
            choice = choose(problem, limit)
            if not choice.any():
                break
            tried = self._try(judge, PLAN, choice, workload)
            excess = math.inf if tried.harm is None else document.upper(tried.harm, record) / limit
            if excess <= 1:
                break
            problem = replace(problem, factor=problem.factor * min(excess, MOST_EXCESS))
        else:
            choice = problem.own
        by_bits = choose(in_bits(problem, self.names, self.groups), limit)
        if by_bits.any():
            self._try(judge, SENSITIVITY_ONLY, by_bits, workload)
        best = document.best_within(self.record(workload), limit)
        if best is not None and record.cost_of(best) < problem.cost(choice):
            choice = record.indices(best)
            self._try(judge, PLAN, choice, workload)
        self.keep(
            {
                "workload": workload.key,
                "chosen": {
                    "precisions": [self.names[option] for option in choice],
                    "limit": limit,
                    "factor": problem.factor,
                },
            }
        )

    # --- verifying ------------------------------------------------------------------------------------------

    def _verify(self, held_out: Evaluation) -> None:
        """Judge the choices that count on the second half, and measure each in turn with the model as it is."""
        self.progress(HELD_OUT, "the original's predictions", 0, 1)
        judge = Judge(self.model, held_out)
        self.keep({"held_out_baseline": self.budget.baseline(judge.unchanged)})
        judged: dict[tuple[str, ...], dict[str, Any]] = {}
        compared = {workload: document.to_verify(self.record(workload)) for workload in self.workloads}
        for workload, choices in compared.items():
            for choice in choices:
                self.progress(HELD_OUT, f"predictions of {choice.name}", 0, 1)
                if choice.precisions not in judged:
                    judged[choice.precisions] = self._held_out(judge, choice)
                entry = {"name": choice.name, **judged[choice.precisions]}
                self.keep({"workload": workload.key, "held_out": entry})
        del judge
        release(self.loaded.device)
        for workload, choices in compared.items():
            if choices:
                known = dict[tuple[str, str], nn.Module]()  # choices share layers, or would fill the memory
                layers_of = {one.name: self._layers(self._by_group(one.precisions), known) for one in choices}
                self.replays.apply(VERIFY, made(workload, self.context), workload.key, layers_of)
                del layers_of, known  # before those of the next workload are made

    def _levers(self) -> None:
        """Measure what else saves energy of the first workload with the choice that was adopted, if that saves."""
        workload = self.workloads[0]
        result = document.document(self.record())
        plan = result["workloads"][0] if result else None
        if not self.settings.levers or plan is None or plan["verdict"] != "saves":
            return
        precisions = {group["name"]: group["precision"] for group in plan["groups"]}
        self.replays.levers(workload, self.context, self._layers(precisions))

    def _held_out(self, judge: Judge, choice: NamedChoice) -> dict[str, Any]:
        try:
            outcomes = judge.outcomes(self._layers(self._by_group(choice.precisions)))
        except ModelError as error:  # outputs that are not finite, on this half alone
            return {"failed": reason("failed", error=first_line(error))}
        harm = self.budget.harm(outcomes)
        return {
            "sums": harm.sums.tolist(),
            "weights": harm.weights.tolist(),
            "kl": float(outcomes.kl.mean()),
            "agreement": float(outcomes.agreement.mean()),
        }


def _tokens(workload: PlanWorkload, context: Context) -> int:
    """Return the tokens of each sequence: those of the prompt, or those in the KV cache of a decode step."""
    if workload.phase == "prefill":
        return context.workload.sequence_length
    return context_of(context.settings, context.loaded)

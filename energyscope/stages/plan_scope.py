"""Plan: what is chosen from, for which workloads, and on which data; what cannot be planned is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from energyscope.errors import DataError, UsageError
from energyscope.impact.metrics import FEWEST_CARRIERS
from energyscope.impact.predictions import positions_in
from energyscope.loading.checkpoint_formats import format_of
from energyscope.loading.linears import skipped_linears
from energyscope.loading.options import NATIVE
from energyscope.planning.budget import DEFAULTS, WITHOUT_WEIGHTS, Budget, parse_budget
from energyscope.planning.exporting import check_exportable
from energyscope.planning.groups import LinearGroup, groups_of
from energyscope.planning.layers import candidates
from energyscope.planning.workloads import PlanWorkload, parse_workload
from energyscope.stages.phases import plan_phases
from energyscope.workloads.decoding import check_context, default_context, why_no_prompt
from energyscope.workloads.evaluation import halves, thinned
from energyscope.workloads.inputs import synthetic_evaluation

if TYPE_CHECKING:
    import torch

    from energyscope.loading import LoadedModel
    from energyscope.reasons import Reason
    from energyscope.settings.run import RunSettings
    from energyscope.workloads import Evaluation

FEWEST_EXAMPLES = 2 * FEWEST_CARRIERS  # a half each: with fewer, resampled intervals are too narrow
USUAL_EXAMPLES = 256  # each group at each precision predicts half of them
RANDOM_EXAMPLES = 64  # of random tokens, which differ less than texts


@dataclass(frozen=True)
class PlanScope:
    """What a plan is made of: ``precisions``, the model's own first, for ``groups`` of linears.

    ``left_out`` has the reason of each precision that is not possible here.
    """

    budget: Budget
    evaluation: Evaluation
    workloads: Sequence[PlanWorkload]
    groups: Sequence[LinearGroup]
    precisions: Sequence[str]
    left_out: Mapping[str, Reason]


def plan_scope(
    settings: RunSettings, loaded: LoadedModel, evaluation: Evaluation | None, no_evaluation: Reason | None
) -> PlanScope:
    """Return what a plan of a loaded model is made of; nothing is measured.

    Raises:
        UsageError: the model is quantized, no precision is possible, or the budget does not go with the data.
        DataError: there are no data, or too few for the budget.
        ModelError: it is to be exported, and has linears that the format does not hold, or its library is missing.

    """
    precisions, left_out = precisions_of(settings, loaded.precision, loaded.device)
    budget, evaluation = budget_and_data(settings, loaded, evaluation, no_evaluation)
    return PlanScope(
        budget=budget,
        evaluation=evaluation,
        workloads=workloads_of(settings, loaded),
        groups=groups_in(settings, loaded),
        precisions=precisions,
        left_out=left_out,
    )


def check_plan(
    settings: RunSettings, loaded: LoadedModel, evaluation: Evaluation | None, no_evaluation: Reason | None
) -> None:
    """Refuse what cannot be planned, before other stages measure for minutes; see `plan_scope` for the errors.

    A model on several GPUs is no error: its plan is skipped.
    """
    if "plan" in settings.stages and len(loaded.devices) == 1:
        plan_scope(settings, loaded, evaluation, no_evaluation)


def _usual_budget(settings: RunSettings, loaded: LoadedModel, evaluation: Evaluation | None) -> Budget:
    """Return the budget where none was named: the usual one, or the narrowest that the data can show."""
    if settings.weights == "random":
        return parse_budget(WITHOUT_WEIGHTS)
    budget = parse_budget(DEFAULTS[loaded.adapter.metric])
    half = 0 if evaluation is None else _answers_a_half(evaluation)
    if half and (budget.fewest_answers() or 0) > half:
        return replace(budget, amount=min(math.ceil(3000 / half) / 1000, 1.0))
    return budget


def budget_and_data(
    settings: RunSettings, loaded: LoadedModel, evaluation: Evaluation | None, no_evaluation: Reason | None
) -> tuple[Budget, Evaluation]:
    """Return a plan's budget, and the data on which it is made and judged: random tokens of random weights.

    The model's weights need not be loaded.

    Raises:
        UsageError: the budget cannot be read.
        DataError: there are no data, or too few for the budget.

    """
    budget = parse_budget(settings.budget) if settings.budget else _usual_budget(settings, loaded, evaluation)
    if settings.weights == "random":
        evaluation = synthetic_evaluation(
            loaded, examples=settings.max_examples or RANDOM_EXAMPLES, seed=settings.seed
        )
    if evaluation is None:
        why = "" if no_evaluation is None else f" ({no_evaluation.words})"
        raise DataError(f"a plan is judged on data, and there are none{why}: give some with --data")
    check_examples(evaluation.examples)
    needed, answers = budget.fewest_answers() or 0, _answers_a_half(evaluation)
    check_answers(answers, budget)
    if settings.max_examples:
        return budget, evaluation
    most = max(math.ceil(evaluation.examples * needed / answers) if needed else 0, USUAL_EXAMPLES)
    while _answers_a_half(thinned(evaluation, most)) < needed:  # examples differ in how many they have
        most = math.ceil(1.05 * most)
    return budget, thinned(evaluation, most)


def check_examples(examples: int) -> None:
    """Refuse so few that half of them show nothing.

    Raises:
        DataError: with how many it takes.

    """
    if examples < FEWEST_EXAMPLES:
        raise DataError(
            f"{examples} examples are too few to plan on: it takes {FEWEST_EXAMPLES}, half of them to "
            "judge it; give more with --data or --max-examples"
        )


def check_answers(answers: int, budget: Budget) -> None:
    """Refuse a budget that so many answers, in half of the data, cannot show.

    Raises:
        DataError: with how many it takes.

    """
    needed = budget.fewest_answers() or 0
    if answers < needed:
        raise DataError(
            f"{answers:,} answers in half of the data are too few to see {budget}: each half of the data needs "
            f"{needed:,}; give more with --data, or a wider --budget"
        )


def _answers_a_half(evaluation: Evaluation) -> int:
    """Return how many predictions the accuracy is of, on the half of the data that has fewer of them.

    Of a next-token model every token that counts is one.
    """
    return min(
        sum(int(positions_in(half, index).mask.sum()) for index in range(len(half.batches)))
        for half in halves(evaluation)
    )


def workloads_of(settings: RunSettings, loaded: LoadedModel) -> list[PlanWorkload]:
    """Return what is planned for: the workloads that were named, else the run's own.

    Raises:
        UsageError: one has decode steps, and the model generates nothing or has no positions for them.

    """
    if settings.workloads:
        workloads = [parse_workload(text, settings.batch_size) for text in settings.workloads]
    else:
        workloads = [parse_workload(plan_phases(settings, loaded)[0].phase, settings.batch_size)]
    if any(workload.phase == "decode" for workload in workloads):
        if why := why_no_prompt(loaded):
            raise UsageError(f"{loaded.name} {why}, which cannot be planned: use --workloads prefill")
        context_of(settings, loaded)
    return list(dict.fromkeys(workloads))


def context_of(settings: RunSettings, loaded: LoadedModel) -> int:
    """Return the tokens in the KV cache of a decode step.

    Raises:
        UsageError: they are beyond the model's positions.

    """
    asked = next(iter(settings.context_lengths), None)
    return check_context(loaded, default_context(loaded) if asked is None else asked)


def groups_in(settings: RunSettings, loaded: LoadedModel) -> list[LinearGroup]:
    """Return the groups of linears that have a precision each.

    Raises:
        UsageError: there are none.
        ModelError: the model is to be exported, and has linears that the format does not hold.

    """
    groups = groups_of(loaded.model, loaded.adapter, skipped_linears(loaded.model, settings.skip_modules))
    if not groups:
        raise UsageError(f"{loaded.name} has no linear layers that could be quantized: there is nothing to plan")
    if settings.export is not None:
        form = format_of(settings.plan_precisions, settings.export_format)
        check_exportable(loaded.model, [path for group in groups for path in group.paths], form)
    return groups


def precisions_of(settings: RunSettings, own: str, device: torch.device) -> tuple[list[str], dict[str, Reason]]:
    """Return the precisions to choose from, the model's ``own`` first, and why others are not possible.

    Raises:
        UsageError: the model is quantized, or no other is possible.

    """
    if own not in NATIVE:
        raise UsageError(
            f"a plan chooses precisions, and the model is quantized already ({own}): use --precision "
            f"{' or '.join(NATIVE)}"
        )
    asked = settings.plan_precisions
    if settings.export is not None and not asked:
        asked = format_of((), settings.export_format).precisions
    others, left_out = candidates(asked, own, device)
    if not others:
        why = "; ".join(f"{name}: {reason.words}" for name, reason in left_out.items())
        raise UsageError(f"no precision is possible here but {own}" + (f" ({why})" if why else ""))
    return [own, *others], left_out

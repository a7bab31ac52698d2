"""What a plan would do, and about how long: for `--dry-run`, and for the time that a run still takes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from energyscope.loading.sources import find_model
from energyscope.planning.budget import parse_budget
from energyscope.planning.record import PRICES, STILL, TOGETHER, VERIFY
from energyscope.planning.replaying import MODEL
from energyscope.planning.rules import MIXTURES
from energyscope.stages.alternatives import AlternativesSettings
from energyscope.stages.plan import HELD_OUT, JUDGING, STAGE, TRIES, TRYING
from energyscope.stages.plan_replays import LABELS, LEVERS, budget_of
from energyscope.stages.plan_scope import (
    RANDOM_EXAMPLES,
    budget_and_data,
    check_answers,
    check_examples,
    groups_in,
    precisions_of,
    workloads_of,
)
from energyscope.stages.preparing import evaluation_of, skeleton_of
from energyscope.stages.sampling_budget import ReplayTime, TimeEstimate, replay_time, typical_window_s
from energyscope.tasks import RULES as TASK_RULES
from energyscope.workloads.given import are_given, given_examples
from energyscope.workloads.texts import file_texts

if TYPE_CHECKING:
    import torch

    from energyscope.adapters import Task
    from energyscope.loading import LoadedModel
    from energyscope.settings.run import RunSettings

RULES = 3  # choices that are tried beside those of one precision and at random
MOST_APPLIED = 4  # choices of a plan that are verified


@dataclass(frozen=True)
class PlanPreview:
    """What a plan would do: ``groups`` of linears, of ``families`` alike, at ``precisions``, for ``workloads``.

    There are ``windows`` to ``windows_most`` replays, which take between ``seconds`` and ``seconds_most``; levers
    take up to ``levers_seconds_most`` on top. ``changes`` of one group and at most ``choices`` of all are
    compared on half of the data, each of which takes as long as an evaluation of that half. Of the data, so many
    ``examples`` are used (None: they were not counted).
    """

    groups: int
    families: int
    precisions: tuple[str, ...]
    workloads: tuple[str, ...]
    windows: int
    windows_most: int
    seconds: float
    seconds_most: float
    levers_seconds_most: float
    changes: int
    choices: int
    examples: int | None = None


def preview_plan(
    settings: RunSettings, shape: LoadedModel, device: torch.device, *, modelled: bool
) -> PlanPreview:
    """Return what a plan would do with a model whose weights need not be loaded.

    Raises:
        UsageError: nothing can be planned.
        ModelError: the model cannot be exported.

    """
    groups, workloads = groups_in(settings, shape), workloads_of(settings, shape)
    precisions, _ = precisions_of(settings, settings.precision, device)
    families, others = len({group.family for group in groups}), len(precisions) - 1
    times = _replays(settings, families, others, device, modelled=modelled).values()
    return PlanPreview(
        groups=len(groups),
        families=families,
        precisions=tuple(precisions),
        workloads=tuple(workload.key for workload in workloads),
        windows=len(workloads) * sum(time.windows for time in times),
        windows_most=len(workloads) * sum(time.windows_most for time in times),
        seconds=len(workloads) * sum(time.least_s for time in times),
        seconds_most=len(workloads) * sum(time.most_s for time in times),
        levers_seconds_most=AlternativesSettings().budget(modelled=modelled) if settings.levers else 0.0,
        changes=len(groups) * others,
        choices=others + RULES + MIXTURES + len(workloads) * (TRIES + 2 + MOST_APPLIED),
    )


def counted_examples(settings: RunSettings, task: Task) -> int | None:
    """Return how many examples a plan uses; None where only the run reads them, such as those of the hub.

    They are read as the run does where the tokenizer is on this machine, else the rows of a file are counted.

    Raises:
        UsageError: the data or the budget cannot be read.
        DataError: there are too few for the budget.

    """
    source, data = find_model(settings.model), settings.data
    if settings.weights == "random":
        check_examples(settings.max_examples or RANDOM_EXAMPLES)
        return settings.max_examples or RANDOM_EXAMPLES
    if source.kind == "bundled" or (source.kind == "folder" and data is not None):
        model = skeleton_of(settings, tokenizer=True)
        return budget_and_data(settings, model, *evaluation_of(model, settings))[1].examples
    rows, per_token = None, TASK_RULES[task].per_token
    if are_given(data):
        rows = given_examples(Path(str(data)))
    elif data is not None and Path(data).is_file():
        texts = file_texts(Path(data), settings.text_column, settings.label_column)
        rows = len(texts.rows) if texts.running is None or not per_token else None
    most = min((count for count in (settings.max_examples, rows) if count is not None), default=None)
    if most is not None:
        check_examples(most)
        if settings.budget and not per_token:  # of each example one; of texts, each token is one
            check_answers(most // 2, parse_budget(settings.budget))
    return None if rows is None else most


def plan_times(
    settings: RunSettings, loaded: LoadedModel, *, modelled: bool, before_s: float
) -> list[TimeEstimate]:
    """Return the times of the parts of a plan in their order; those without replays have none.

    The first begins ``before_s`` later. The errors are those of `preview_plan`.
    """
    settings = replace(settings, precision=loaded.precision)
    plan = preview_plan(settings, loaded, loaded.device, modelled=modelled)
    times = _replays(settings, plan.families, len(plan.precisions) - 1, loaded.device, modelled=modelled)

    def replayed(part: str, before_s: float = 0.0) -> TimeEstimate:
        return TimeEstimate.of_replays(times[part], modelled=modelled, before_s=before_s, part=_name(LABELS[part]))

    priced = [
        (replayed(PRICES, 0.0 if number else before_s), replayed(TOGETHER), replayed(STILL))
        for number in range(len(plan.workloads))
    ]
    return [
        *itertools.chain.from_iterable(priced),
        TimeEstimate(None, None, plan.changes, _name(JUDGING)),
        TimeEstimate(None, None, 0, _name(TRYING)),
        TimeEstimate(None, None, 0, _name(HELD_OUT)),
        *[replayed(VERIFY)] * len(plan.workloads),
        *([TimeEstimate(0.0, plan.levers_seconds_most, 0, _name(LEVERS))] if settings.levers else []),
    ]


def _replays(
    settings: RunSettings, families: int, others: int, device: torch.device, *, modelled: bool
) -> dict[str, ReplayTime]:
    """Return the replays of a workload by part; at least, no precision saves, and the plan alone is verified."""

    def replays(part: str, choices: int) -> ReplayTime:
        return replay_time(
            [MODEL] * (1 + choices), budget_of(part, settings), typical_window_s(device.type, modelled=modelled),
            modelled=modelled, eager=settings.executions[0] == "eager" and device.type == "cuda",
        )  # fmt: skip

    one = replays(VERIFY, 1)
    together = replays(TOGETHER, others)._replace(windows=0, least_s=0.0)
    return {
        PRICES: replays(PRICES, families * (1 + others)),
        TOGETHER: together,
        STILL: together,
        VERIFY: replays(VERIFY, MOST_APPLIED)._replace(windows=one.windows, least_s=one.least_s),
    }


def _name(label: str) -> str:
    """Return the name of a part, as a stage reports it behind its own."""
    return label.removeprefix(f"{STAGE}: ")

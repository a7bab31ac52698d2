"""How long the stages take that go at the model's own pace: trials, and changes judged on the evaluation data.

One pass of the run's input and one of a middle batch of the data are timed, each after one that warms up.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch

from energyscope.benchmarking.loop import synchronize
from energyscope.components import component_tree
from energyscope.impact.plan import further_interventions, singles
from energyscope.loading import LoadedModel
from energyscope.settings.run import RunSettings
from energyscope.stages.benchmark import chosen_precisions
from energyscope.stages.context import Context
from energyscope.stages.sampling_budget import IDLING_S, PREHEAT_S, TimeEstimate

_SLOWEST = {"cpu": 4.0, "cuda": 2.0}  # another precision's pass, in passes of the run's (FP16 on a CPU)
_JUDGED = 0.3, 1.2  # a change, in passes over the data: it begins at its layer, and ends where its rank is clear
_LOAD_S = 0.2, 2.0  # a precision's model


@torch.no_grad()
def _pass_s(context: Context, inputs: Mapping[str, Any]) -> float:
    """Return the seconds of a forward pass."""
    model, device = context.loaded.model, context.loaded.device
    begin = 0.0
    for _ in range(2):
        synchronize(device)
        begin = time.monotonic()
        model(**inputs)
        synchronize(device)
    return time.monotonic() - begin


def _over_data_s(context: Context) -> float:
    """Return the seconds of a pass over the evaluation data; 0 where there are none."""
    batches = context.evaluation.batches if context.evaluation else ()
    return len(batches) * _pass_s(context, batches[len(batches) // 2]) if batches else 0.0


def count_changes(loaded: LoadedModel, settings: RunSettings) -> int:
    """Return how many changes of a model a run ablates; its weights need not be loaded."""
    tree = component_tree(loaded.model, loaded.adapter, settings.granularity)
    more = further_interventions(
        loaded.model, tree, loaded.adapter, settings.methods, joint=settings.joint, per_head=settings.heads
    )
    return len(singles(tree, settings.methods)) + len(more)


def ablation_time(context: Context) -> TimeEstimate:
    """Return how long changing every component takes on the run's data."""
    changes = count_changes(context.loaded, context.settings)
    seconds = _over_data_s(context)
    least, most = _JUDGED
    return TimeEstimate(changes * least * seconds, (1 + changes * most) * seconds, changes)


def benchmark_time(context: Context) -> TimeEstimate:
    """Return how long trials of all precisions take, and judging each on the run's data."""
    settings, workload = context.settings.benchmark, context.workload
    precisions, _ = chosen_precisions(settings.precisions, context.loaded.device)
    latency_s, judged_s = _pass_s(context, workload.inputs), _over_data_s(context)
    slowest = _SLOWEST[context.loaded.device.type]
    tokens = workload.batch_size * (workload.sequence_length or 1)
    shapes = [
        max(1.0, batch * length / tokens)  # smaller ones are paced by the host
        for batch in settings.batch_sizes or (workload.batch_size,)
        for length in settings.sequence_lengths or (workload.sequence_length or 1,)
    ]
    before_s = 0.0 if context.meters["benchmark"].modelled else PREHEAT_S + 2 * IDLING_S

    def seconds(slower: float, load_s: float) -> float:
        limit_s = settings.trial_seconds or float("inf")
        one = [latency_s * shape * slower for shape in shapes]
        trials = sum(
            min(settings.num_iters * pass_s, limit_s) + min(settings.warmup_steps * pass_s, limit_s)
            for pass_s in one
        )
        return len(precisions) * (settings.trials * trials + slower * judged_s + load_s)

    least, most = (seconds(slower, load_s) for slower, load_s in zip((1.0, slowest), _LOAD_S, strict=True))
    return TimeEstimate(before_s + least, before_s + most)

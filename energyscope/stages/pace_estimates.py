"""How long the stages take that go at the pace of the model, or of this machine's processor.

Trials, and changes judged on the evaluation data, go at the model's: passes of the run's input and of a middle
batch of the data are timed, each after one that warms up. Relating tables and drawing the page go at the
processor's: a correlation with its interval is timed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from energyscope.benchmarking.loop import synchronize
from energyscope.components import component_tree
from energyscope.correlation.association import rank_agreement
from energyscope.correlation.resampling import axis
from energyscope.impact.plan import further_interventions, singles
from energyscope.loading import LoadedModel
from energyscope.settings.run import RunSettings
from energyscope.stages.benchmark import chosen_precisions
from energyscope.stages.sampling_budget import IDLING_S, PREHEAT_S, TimeEstimate

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation, Workload

PASSES, PASSES_S = 5, 0.5  # timed at most, and until they took so long
_SLOWEST = {"cpu": 4.0, "cuda": 2.0}  # another precision's pass, in passes of the run's (FP16 on a CPU)
_JUDGED = 0.3, 1.2  # a change, in passes over the data: it begins at its layer, and ends where its rank is clear
_LOAD_S = 0.2, 2.0  # a precision's model
# Correlations of a few points and of all components that take as long as a stage, at least and at most. Of 12 runs
# with 24 to 404 components (4 made so large by repeating layers), all took 0.75 x the least to 0.85 x the most,
# which leaves room for what else begins on the machine meanwhile.
_FEW, _KINDS, _TIMED_S = 25, 5, 0.3
_RELATED = (80.0, 20.0), (110.0, 130.0)
_DRAWN = (190.0, 8.0), (400.0, 16.0)


@dataclass(frozen=True)
class Subject:
    """A run whose model is loaded, as far as its pace goes; ``modelled`` are its joules."""

    settings: RunSettings
    loaded: LoadedModel
    evaluation: Evaluation | None
    workload: Workload
    modelled: bool

    @cached_property
    def pass_s(self) -> float:
        """The seconds of a pass of the run's input."""
        return _pass_s(self, self.workload.inputs)


@torch.no_grad()
def _pass_s(subject: Subject, inputs: Mapping[str, Any]) -> float:
    """Return the seconds of a forward pass: the shortest of a few short ones, since others may use the machine."""
    model, device = subject.loaded.model, subject.loaded.device
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) < PASSES and sum(seconds) < PASSES_S):
        synchronize(device)
        begin = time.monotonic()
        model(**inputs)
        synchronize(device)
        seconds.append(time.monotonic() - begin)
    return min(seconds[1:])


def _over_data_s(subject: Subject) -> float:
    """Return the seconds of a pass over the evaluation data; 0 where there are none."""
    batches = subject.evaluation.batches if subject.evaluation else ()
    return len(batches) * _pass_s(subject, batches[len(batches) // 2]) if batches else 0.0


def count_changes(loaded: LoadedModel, settings: RunSettings) -> int:
    """Return how many changes of a model a run ablates; its weights need not be loaded."""
    tree = component_tree(loaded.model, loaded.adapter, settings.granularity)
    more = further_interventions(
        loaded.model, tree, loaded.adapter, settings.methods, joint=settings.joint, per_head=settings.heads
    )
    return len(singles(tree, settings.methods)) + len(more)


def ablation_time(subject: Subject) -> TimeEstimate:
    """Return how long changing every component takes on the run's data."""
    changes = count_changes(subject.loaded, subject.settings)
    seconds = _over_data_s(subject)
    least, most = _JUDGED
    return TimeEstimate(changes * least * seconds, (1 + changes * most) * seconds, changes)


def benchmark_time(subject: Subject) -> TimeEstimate:
    """Return how long trials of all precisions take, and judging each on the run's data."""
    settings, workload = subject.settings.benchmark, subject.workload
    precisions, _ = chosen_precisions(settings.precisions, subject.loaded.device)
    latency_s, judged_s = subject.pass_s, _over_data_s(subject)
    slowest = _SLOWEST[subject.loaded.device.type]
    tokens = workload.batch_size * (workload.sequence_length or 1)
    shapes = [
        max(1.0, batch * length / tokens)  # smaller ones are paced by the host
        for batch in settings.batch_sizes or (workload.batch_size,)
        for length in settings.sequence_lengths or (workload.sequence_length or 1,)
    ]
    before_s = 0.0 if subject.modelled else PREHEAT_S + 2 * IDLING_S

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


def table_times(components: int) -> dict[str, TimeEstimate]:
    """Return how long `correlate` and `report` take, whatever the model, where it has so many components."""
    few_s = _correlation_s(_FEW)
    all_s = _correlation_s(components) if components > _FEW else few_s

    def time_of(limits: tuple[tuple[float, float], ...]) -> TimeEstimate:
        least, most = (few * few_s + of_all * all_s for few, of_all in limits)
        return TimeEstimate(least, most)

    return {"correlate": time_of(_RELATED), "report": time_of(_DRAWN)}


def _correlation_s(points: int) -> float:
    """Return the mean seconds of a correlation with its interval, among whatever else the machine does."""
    x, y = map(axis, np.random.default_rng(0).random((2, points)))
    kinds = [str(number % _KINDS) for number in range(points)]
    rank_agreement(x, y, kinds=kinds)  # the first one takes longer
    times, begin = 0, time.monotonic()
    while not times or time.monotonic() - begin < _TIMED_S:
        rank_agreement(x, y, kinds=kinds)
        times += 1
    return (time.monotonic() - begin) / times

"""Ablate: what every component is worth to the predictions, by changing its output and nothing else.

One pass over the data notes the original's predictions, one gathers every component's mean output; then one
pass for each component and method. What comes out is *criticality*, the effect of removal; it does not say
how a component bears quantization.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from energyscope.adapters import Task
from energyscope.components import Component, ComponentTree
from energyscope.errors import DeviceError, ModelError, UsageError
from energyscope.impact import metrics
from energyscope.impact.ablations import METHODS, Change, ablated, change_for
from energyscope.impact.means import Mean, MeanGatherer
from energyscope.impact.metrics import Estimate, Outcomes
from energyscope.impact.outputs import Effect
from energyscope.impact.predictions import Reference, attention_mask, checksum
from energyscope.runs.schema import ImpactRow

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

Progress = Callable[[str, int, int], None]
OnRow = Callable[[list[ImpactRow]], None]
Metric = Callable[[Outcomes, int], Estimate]

_QUALITY: dict[Task, dict[str, Metric]] = {
    "classification": {"accuracy_difference": metrics.accuracy_difference},
    "next-token": {"perplexity_difference": metrics.perplexity_difference},
}
NO_INTERVAL = "no interval: one ratio over all data"


@dataclass
class AblationResult:
    """The finished rows, the original's quality, and what a reader should know of the stage itself.

    ``baseline`` holds ``accuracy`` or ``perplexity``, the number of ``examples``, and of ``tokens`` predicted
    where the task is the next token.
    """

    rows: list[ImpactRow]
    baseline: dict[str, float]
    notes: list[str] = field(default_factory=list)


def ablate(  # noqa: PLR0913  each is a choice of the caller's, named at the call
    model: nn.Module,
    tree: ComponentTree,
    evaluation: Evaluation,
    *,
    methods: Sequence[str] = METHODS,
    seed: int = 0,
    on_row: OnRow | None = None,
    progress: Progress | None = None,
    done: Collection[tuple[str, str]] = (),
) -> AblationResult:
    """Change every component of the tree but the root, one at a time, and compare the model's predictions.

    ``on_row`` gets the four rows of a (component, method) as soon as they are finished; ``progress`` gets
    (what comes next, how many are finished, how many there are); pairs in ``done`` are left out. Intervals are
    bootstrapped over examples, with the same resamples for every component. The model is put in eval mode.

    Raises:
        UsageError: there is no such method.
        DataError: the data leave nothing to predict, or do not fit the model.
        ModelError: the unchanged outputs are not finite, or the model did not come back as it was.
        DeviceError: the device has too little memory.

    """
    _check(methods)
    model.eval()
    report = progress or _silent
    pairs = [(part, method) for part in tree if part is not tree.root for method in methods]
    pairs = [(part, method) for part, method in pairs if (part.name, method) not in done]
    try:
        report("the original's predictions", 0, len(pairs))
        reference = Reference(model, evaluation)
        report("mean outputs", 0, len(pairs))
        means = gather_means(reference, {part.name: part for part, _ in pairs})
        result = AblationResult([], reference.baseline())
        for number, (part, method) in enumerate(pairs):
            report(f"{part.name} ({method})", number, len(pairs))
            rows = _rows(_measure(part, method, means[part.name], reference), reference, seed)
            result.rows.extend(rows)
            if on_row:
                on_row(rows)
        report("the original's predictions, again", len(pairs), len(pairs))
        result.notes.extend(check_restored(reference))
    except torch.OutOfMemoryError as error:
        raise DeviceError("out of memory while ablating: lower --batch-size or --sequence-length") from error
    return result


def gather_means(reference: Reference, parts: dict[str, Component]) -> dict[str, Mean]:
    """Return every component's mean output over the data, gathered in one pass."""
    gatherer = MeanGatherer({name: part.module for name, part in parts.items()})
    for index, batch in enumerate(reference.evaluation.batches):
        with gatherer.listening(attention_mask(batch)):
            reference.run(index)
    return gatherer.means


def check_restored(reference: Reference) -> list[str]:
    """Run the original once more and compare its outputs bit by bit with those before the stage.

    Returns a note if they differ but do so between any two passes, as nondeterministic kernels make them.

    Raises:
        ModelError: they differ although the model repeats itself: something of an ablation has stayed.

    """
    again = [checksum(reference.run(index)) for index in range(len(reference))]
    if again == reference.checksums:
        return []
    if again == [checksum(reference.run(index)) for index in range(len(reference))]:
        raise ModelError(
            "the model's outputs are not what they were before the ablations: its rows cannot be used"
        )
    return ["the model's outputs differ in their bits from pass to pass, also without any ablation"]


@dataclass(frozen=True)
class _Measurement:
    part: Component
    method: str
    effect: Effect
    outcomes: Outcomes | None


def _measure(part: Component, method: str, mean: Mean, reference: Reference) -> _Measurement:
    change = change_for(method, mean)
    if isinstance(change, str):
        return _Measurement(part, method, Effect(problem=change), None)
    effect = Effect()
    batches = range(len(reference))
    outcomes = Outcomes.concatenate([_compare(part, change, index, effect, reference) for index in batches])
    return _Measurement(part, method, effect, outcomes)


def _compare(part: Component, change: Change, index: int, effect: Effect, reference: Reference) -> Outcomes:
    original = reference.logits(index)  # before the hook: it may have to be computed again
    with ablated(part.module, change, attention_mask(reference.evaluation.batches[index]), effect):
        changed = reference.run(index)
    return reference.compare(index, original, changed)


def _rows(measured: _Measurement, reference: Reference, seed: int) -> list[ImpactRow]:
    reason = _why_invalid(measured)
    estimates = _estimates(measured.outcomes, reference.evaluation.task, reason, seed)
    change = measured.effect.relative_change
    estimates["output_change"] = Estimate(change, reason=reason or (NO_INTERVAL if change is not None else ""))
    return [
        ImpactRow(
            component=measured.part.name,
            kind=measured.part.kind,
            layer=measured.part.layer,
            method=measured.method,
            metric=metric,
            value=estimate.value,
            ci_low=estimate.ci_low,
            ci_high=estimate.ci_high,
            examples=len(reference.outcomes),
            valid=reason is None and estimate.value is not None,
            reasons=estimate.reason,
        )
        for metric, estimate in estimates.items()
    ]


def _why_invalid(measured: _Measurement) -> str | None:
    reason = measured.effect.why_invalid()
    outcomes = measured.outcomes
    if reason is None and outcomes is not None and (bad := outcomes.non_finite()):
        return f"the changed model's outputs were not finite for {bad} of {len(outcomes)} examples"
    return reason


def _estimates(outcomes: Outcomes | None, task: Task, reason: str | None, seed: int) -> dict[str, Estimate]:
    """Return the estimate of every metric; without values where the ablation is invalid, lest they be ranked."""
    functions: dict[str, Metric] = {
        "kl": metrics.mean_kl,
        **_QUALITY[task],
        "top1_agreement": metrics.top1_agreement,
    }
    if reason is not None or outcomes is None:
        return {metric: Estimate(None, reason=reason or "") for metric in functions}
    return {metric: function(outcomes, seed) for metric, function in functions.items()}


def _check(methods: Sequence[str]) -> None:
    unknown = [method for method in methods if method not in METHODS]
    if unknown or not methods:
        asked = ", ".join(map(repr, unknown)) or "none at all"
        raise UsageError(f"no such ablation method: {asked} (known: {', '.join(METHODS)})")


def _silent(_what: str, _finished: int, _of: int) -> None:
    """Tell nobody."""

"""From a measured change to rows of the impact table."""

from __future__ import annotations

from energyscope.adapters import Task
from energyscope.impact.changing import Measurement
from energyscope.impact.metrics import MetricEstimate, Outcomes, estimate
from energyscope.impact.predictions import Reference
from energyscope.reasons import Reason, join, reason
from energyscope.runs.schema import ImpactRow

METRICS: dict[Task, tuple[str, ...]] = {
    "classification": (
        "kl", "js", "loss_difference", "accuracy_difference", "top1_agreement", "logit_difference",
    ),
    "next-token": ("kl", "js", "loss_difference", "perplexity_difference", "top1_agreement", "logit_difference"),
}  # fmt: skip


def impact_rows(measured: Measurement, reference: Reference, seed: int) -> list[ImpactRow]:
    """Return a row for each metric; without values where the change is invalid, lest they be ranked."""
    problem = measured.problem()
    outcomes = measured.outcomes(reference.sizes())
    estimates = _estimates(outcomes, reference.evaluation.task, problem, seed)
    estimates["output_change"] = _own_change(measured, problem)
    one = measured.intervention
    return [
        ImpactRow(
            component=one.component,
            kind=one.kind,
            layer=one.layer,
            method=one.method,
            metric=metric,
            value=estimate.value,
            ci_low=estimate.ci_low,
            ci_high=estimate.ci_high,
            examples=len(reference.outcomes) if outcomes is None else int(outcomes.seen().sum()),
            valid=problem is None and estimate.value is not None,
            reasons=join(filter(None, (estimate.reason, *measured.notes))),
        )
        for metric, estimate in estimates.items()
    ]


def _estimates(
    outcomes: Outcomes | None, task: Task, problem: Reason | None, seed: int
) -> dict[str, MetricEstimate]:
    if problem is not None or outcomes is None:
        return {metric: MetricEstimate(None, reason=problem or "") for metric in METRICS[task]}
    return {metric: estimate(metric, outcomes, seed) for metric in METRICS[task]}


def _own_change(measured: Measurement, problem: Reason | None) -> MetricEstimate:
    """Return how far the component's own output changed, relative to itself."""
    if len(measured.effects) > 1:
        return MetricEstimate(None, reason=problem or reason("changed-together"))
    ran = bool(measured.effects) and measured.refused is None
    change = measured.effects[0].relative_change if ran else None
    return MetricEstimate(change, reason=problem or ("" if change is None else reason("one-ratio")))

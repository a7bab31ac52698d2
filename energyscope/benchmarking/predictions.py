"""The effect of a precision on the predictions: accuracy or perplexity, and the difference from the baseline's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from energyscope.errors import ModelError
from energyscope.impact.metrics import (
    MetricEstimate,
    Outcomes,
    estimate,
    perplexity_estimate,
    proportion,
)
from energyscope.impact.predictions import Reference, compared_outputs
from energyscope.intervals import interval, serialize

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation


class PredictionComparison:
    """Compares models on held-out data with the first model that it judges, the baseline.

    With ``beside`` the baseline stays on the device and its logits are compared; else only likelihoods and right
    answers are.
    """

    def __init__(self, evaluation: Evaluation, *, beside: bool = True, seed: int = 0) -> None:
        self.evaluation = evaluation
        self.metric = evaluation.rules.metric
        self.beside = beside
        self.seed = seed
        self._reference: Reference | None = None
        self._baseline: Outcomes | None = None
        self._against: str | None = None

    def judge(self, precision: str, model: nn.Module) -> dict[str, Any]:
        """Return a precision's entry of ``predictions`` in benchmark.json.

        Raises:
            ModelError: the model's outputs are not finite, or embeddings have no first model beside them.
            DataError: the data hold nothing to predict.

        """
        if self._baseline is None:
            reference = Reference(model, self.evaluation, budget_bytes=None if self.beside else 0)
            self._baseline = reference.outcomes
            self._reference = reference if self.beside else None
            self._against = precision
            return self._entry(precision, self._baseline, is_baseline=True)
        if self._reference is not None:
            return self._entry(precision, self._compared(self._reference, model))
        if self.evaluation.rules.similarity:
            raise ModelError("embeddings are compared with the first model's, and both do not fit at once")
        outcomes = Reference(model, self.evaluation, budget_bytes=0).outcomes
        base = self._baseline
        paired = replace(outcomes, reference_nll=base.reference_nll, reference_correct=base.reference_correct)
        return self._entry(precision, paired)

    def _compared(self, reference: Reference, model: nn.Module) -> Outcomes:
        parts = []
        for index, positions in enumerate(reference.positions):
            with torch.no_grad():
                changed = compared_outputs(model, self.evaluation, index, positions)
            parts.append(reference.compare(index, reference.logits(index), changed))
        outcomes = Outcomes.concatenate(parts)
        if bad := outcomes.non_finite():
            raise ModelError(f"its outputs are not finite for {bad} of {len(outcomes)} examples")
        return outcomes

    def _entry(self, precision: str, outcomes: Outcomes, *, is_baseline: bool = False) -> dict[str, Any]:
        metrics = {"difference": f"{self.metric}_difference"}
        if self.beside:
            metrics |= {"kl": "kl", "agreement": "top1_agreement"}
        compared: dict[str, Any] = {"difference": None, "kl": None, "agreement": None}
        if not is_baseline:
            compared |= {k: _serialized(estimate(metric, outcomes, self.seed)) for k, metric in metrics.items()}
        known = is_baseline and self.evaluation.rules.similarity  # each original is nearest to itself
        counted = self.metric == "accuracy" and outcomes.labelled() and not known
        return {
            "precision": precision,
            "metric": self.metric,
            "value": None if known else _serialized(self._value(outcomes)),
            "examples": len(outcomes),
            "correct": int(outcomes.correct.sum()) if counted else None,
            "against": None if is_baseline else self._against,
            **compared,
        }

    def _value(self, outcomes: Outcomes) -> MetricEstimate:
        if not outcomes.labelled():
            return MetricEstimate(None)
        if self.metric == "perplexity":
            return perplexity_estimate(outcomes.nll, outcomes.predictions, self.seed)
        return proportion(float(outcomes.correct.sum()), len(outcomes))


def _serialized(metric: MetricEstimate) -> dict[str, float | None] | None:
    return serialize(interval(metric.value, metric.ci_low, metric.ci_high))

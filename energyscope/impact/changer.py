"""Make each change, record what it does to the predictions, batch by batch, and return impact rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import nn

from energyscope.failures import device_failed, first_line, out_of_memory
from energyscope.impact.methods import QUANTIZATIONS
from energyscope.impact.metrics import MetricEstimate, Outcomes, estimate
from energyscope.impact.outputs import Effect, Masks
from energyscope.impact.plan import ChangedPart, Intervention
from energyscope.impact.predictions import Reference
from energyscope.impact.quantizing import Quantization, quantization
from energyscope.impact.quantizing.matrices import shared_weights
from energyscope.impact.removal import BY_INPUT, Mean, removal
from energyscope.impact.reuse import LayerStarts
from energyscope.impact.upstream_check import UpstreamCheck
from energyscope.reasons import Reason, join, reason
from energyscope.runs.schema import ImpactRow
from energyscope.tasks import batch_rows, padding_masks

UNREACHED = reason("model-output-unchanged")
UNCHANGED = {  # why a method leaves a component's own output as it is
    "zero": "output-zero-already",
    "mean": "output-constant",
    "resample": "output-same-for-all",
    "skip": "input-passed-on",
    **dict.fromkeys(QUANTIZATIONS, "weights-exact"),
}


class Alteration(Protocol):
    """A change of one module, in effect as long as its context lasts; the module comes back as it was."""

    def applied(self, masks: Masks, effect: Effect) -> AbstractContextManager[None]:
        """Change the module for a batch with this padding, and note how far its output changed."""
        ...


@dataclass(eq=False)
class Measurement:
    """One change: how far it changed each target's own output, and what it did to the predictions."""

    intervention: Intervention
    alterations: Sequence[Alteration] = ()
    effects: Sequence[Effect] = ()
    refused: Reason | None = None
    notes: tuple[Reason, ...] = ()
    altered_before: list[str] = field(default_factory=list)
    reached: bool = False  # whether any bit of the model's output differs
    by_batch: dict[int, Outcomes] = field(default_factory=dict)

    def outcomes(self, sizes: Sequence[int]) -> Outcomes | None:
        """Return the numbers by example, in the order of the data; None where nothing was run.

        ``sizes`` is how many examples each batch has: those that were not run keep their places.
        """
        if not self.by_batch:
            return None
        batches = [self.by_batch.get(index) or Outcomes.unseen(size) for index, size in enumerate(sizes)]
        return Outcomes.concatenate(batches)

    def problem(self) -> Reason | None:
        """Return why the change is invalid, None where it is valid."""
        if self.refused is not None:
            return self.refused
        if self.altered_before:
            return reason("earlier-output-changed", component=self.altered_before[0])
        for target, effect in zip(self.intervention.targets, self.effects, strict=True):
            why = effect.why_invalid()
            if why is not None:
                why = reason(UNCHANGED[self.intervention.method]) if why == "output-unchanged" else why
                alone = len(self.effects) == 1
                return why if alone else reason("of-component", component=target.part.name, why=why)
        if self.by_batch and not self.reached:
            return UNREACHED
        bad = sum(outcomes.non_finite() for outcomes in self.by_batch.values())
        if bad:
            return reason("changed-model-not-finite", bad=bad, of=sum(map(len, self.by_batch.values())))
        return None


class Changer:
    """Makes the changes of one model on one set of data."""

    def __init__(
        self,
        model: nn.Module,
        reference: Reference,
        starts: LayerStarts,
        means: Mapping[str, Sequence[Mean]],
        witness: UpstreamCheck,
        proof_batch: int = 0,
    ) -> None:
        self.model = model
        self.reference = reference
        self.starts = starts
        self.means = means
        self.witness = witness
        self.proof_batch = proof_batch  # the batch of which the witness has noted the unchanged outputs
        self._shared = shared_weights(model)

    def begin(self, intervention: Intervention) -> Measurement:
        """Return the measurement of a change before its first batch, or one that says why it cannot be made."""
        alterations: list[Alteration] = []
        notes: list[Reason] = []
        for target in intervention.targets:
            alteration = self._alteration(target, intervention.method)
            if isinstance(alteration, Reason):
                return Measurement(intervention, refused=alteration)
            alterations.append(alteration)
            notes += getattr(alteration, "notes", ())
        effects = [Effect() for _ in alterations]
        return Measurement(intervention, alterations, effects, notes=tuple(notes))

    def go_on(self, measurement: Measurement, batches: Sequence[int]) -> None:
        """Run a change on more batches; if the model fails with it, the measurement holds the reason."""
        if measurement.refused is not None:
            return
        try:
            for index in batches:
                self._compare(measurement, index)
        except (RuntimeError, ValueError, IndexError) as error:
            if out_of_memory(error) or device_failed(error):
                raise
            measurement.refused = reason("change-fails", error=f"{type(error).__name__}: {first_line(error)}")
            measurement.by_batch.clear()
        finally:
            for alteration in measurement.alterations:
                if isinstance(alteration, Quantization):
                    alteration.release()  # the next change needs the memory

    def _compare(self, measurement: Measurement, index: int) -> None:
        targets = measurement.intervention.targets
        start = min(self.starts.of(target.part.name, target.part.layer) for target in targets)
        with self.starts.beginning(index, len(self.starts.layers)):
            original = self.reference.logits(index)  # before the change: it may have to be computed again
        with (
            self.starts.beginning(index, start),
            self._changed(measurement, index),
            self._proof(measurement, index),
        ):
            changed = self.reference.run(index)
        measurement.reached = measurement.reached or not torch.equal(original, changed)
        measurement.by_batch[index] = self.reference.compare(index, original, changed)

    def _alteration(self, target: ChangedPart, method: str) -> Alteration | Reason:
        if method in QUANTIZATIONS:
            return quantization(target.part.module, method, shared=self._shared)
        if method == "resample" and any(batch_rows(batch) < 2 for batch in self.reference.evaluation.batches):
            return reason("one-example-batch")
        part = target.part
        by_input = part.kind in BY_INPUT
        return removal(part.module, method, self.means[part.name], target.features, by_input=by_input)

    @contextmanager
    def _changed(self, measurement: Measurement, index: int) -> Iterator[None]:
        masks = padding_masks(self.reference.evaluation.batches[index])
        with ExitStack() as stack:
            for alteration, effect in zip(measurement.alterations, measurement.effects, strict=True):
                stack.enter_context(alteration.applied(masks, effect))
            yield

    @contextmanager
    def _proof(self, measurement: Measurement, index: int) -> Iterator[None]:
        if index != self.proof_batch:
            yield
            return
        targets = measurement.intervention.targets
        names, layers = {target.part.name for target in targets}, {target.part.layer for target in targets}
        with self.witness.watching(names, layers, measurement.altered_before):
            yield


def impact_rows(measured: Measurement, reference: Reference, seed: int) -> list[ImpactRow]:
    """Return a row for each metric; without values where the change is invalid, so that they are not ranked."""
    problem = measured.problem()
    outcomes = measured.outcomes(reference.sizes())
    estimates = {
        metric: MetricEstimate(None, reason=problem or "")
        if problem is not None or outcomes is None
        else estimate(metric, outcomes, seed)
        for metric in _metrics(reference)
    }
    estimates["output_change"] = _output_change(measured, problem)
    intervention = measured.intervention
    return [
        ImpactRow(
            component=intervention.component,
            kind=intervention.kind,
            layer=intervention.layer,
            method=intervention.method,
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


def _metrics(reference: Reference) -> tuple[str, ...]:
    quality = f"{reference.evaluation.rules.metric}_difference"
    return ("kl", "js", "loss_difference", quality, "top1_agreement", "logit_difference")


def _output_change(measured: Measurement, problem: Reason | None) -> MetricEstimate:
    """Return how far the component's own output changed, relative to itself."""
    if len(measured.effects) > 1:
        return MetricEstimate(None, reason=problem or reason("changed-together"))
    ran = bool(measured.effects) and measured.refused is None
    change = measured.effects[0].relative_change if ran else None
    return MetricEstimate(change, reason=problem or ("" if change is None else reason("one-ratio")))

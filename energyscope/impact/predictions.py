"""The original model's predictions on the evaluation data, which every change is compared with.

The original's logits are kept between components as far as they fit in a stated budget, else computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from energyscope.errors import DataError, ModelError
from energyscope.impact.metrics import Outcomes, perplexity
from energyscope.impact.outputs import checksum
from energyscope.impact.scores import ReferenceScores, per_example, score
from energyscope.tasks import padding_masks, similarity_logits

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

HOST_BUDGET_BYTES = 2**30
DEVICE_SHARE = 0.25  # of the device memory that is free when the stage begins


Watching = Callable[[int], AbstractContextManager[None]]


@dataclass(frozen=True)
class Positions:
    """Which outputs of a batch are compared: ``mask`` (B, P), and their ``targets`` (N,), N = mask.sum()."""

    mask: Tensor
    targets: Tensor | None


def positions_in(evaluation: Evaluation, index: int) -> Positions:
    """Return the predictions of one batch of the data that count.

    Of tasks with one for each example, P = 1. Next token: positions that are no padding and whose next
    position is none either, P = S - 1; of these, the ones whose next token is ``counted``, (B, S). Other tasks per
    token: the counted ones, P = S, or T of a decoder.
    """
    batch, rules = evaluation.batches[index], evaluation.rules
    mask = padding_masks(batch)[-1]
    labels = None if evaluation.labels is None else evaluation.labels[index]
    if not rules.per_token:
        return Positions(torch.ones_like(mask[:, :1]), labels)
    counted = None if evaluation.counted is None else evaluation.counted[index]
    if not rules.shifted:
        valid = mask if counted is None else counted
        return Positions(valid, None if labels is None else labels[valid])
    valid = mask[:, :-1] & mask[:, 1:]
    if counted is not None:
        valid &= counted[:, 1:]
    return Positions(valid, batch["input_ids"][:, 1:][valid])


def compared_outputs(model: nn.Module, evaluation: Evaluation, index: int, positions: Positions) -> Tensor:
    """Run the model on a batch; return the logits of the compared predictions, (N, V), in the model's dtype.

    Of embeddings these themselves, (N, D).
    """
    rules = evaluation.rules
    outputs = rules.outputs(model, evaluation.batches[index])
    if not rules.per_token:
        return outputs
    return (outputs[:, :-1] if rules.shifted else outputs)[positions.mask.to(outputs.device)]


def as_logits(outputs: Tensor, originals: Tensor, evaluation: Evaluation) -> Tensor:
    """Return compared outputs as logits: embeddings (N, D) by how near the N originals are, (N, N)."""
    rules = evaluation.rules
    return similarity_logits(outputs, originals, rules) if rules.similarity else outputs


def targets_of(positions: Positions, outputs: Tensor, evaluation: Evaluation) -> Tensor | None:
    """Return what is right, (N,): of an embedding, its own original."""
    if evaluation.rules.similarity:
        return torch.arange(len(outputs), device=outputs.device)
    return positions.targets


class Reference:
    """The original model's predictions on the evaluation data, which every change is compared with."""

    def __init__(
        self,
        model: nn.Module,
        evaluation: Evaluation,
        budget_bytes: int | None = None,
        watching: Watching | None = None,
    ) -> None:
        """Run the unchanged model once over the data, each batch inside the context that ``watching`` returns.

        Raises:
            DataError: there is nothing to predict, or labels lie outside the model's classes.
            ModelError: the unchanged outputs are not finite.

        """
        if not evaluation.batches:
            raise DataError(f"{evaluation.source} holds no examples: choose other data with --data")
        self.model = model
        self.evaluation = evaluation
        self.positions = [positions_in(evaluation, index) for index in range(len(evaluation.batches))]
        self._watching = watching or (lambda _index: nullcontext())
        self._kept: dict[int, Tensor] = {}
        self._scores: list[ReferenceScores] = []
        self._budget = memory_share(evaluation) if budget_bytes is None else budget_bytes
        self.checksums: list[tuple[int, int]] = []
        self.outcomes = Outcomes.concatenate([self._first_pass(index) for index in range(len(self.positions))])
        self._check()

    def __len__(self) -> int:
        return len(self.positions)

    def logits(self, index: int) -> Tensor:
        """Return the original's outputs of a batch, (N, V), kept or computed again. Call it without hooks."""
        return self._kept[index] if index in self._kept else self.run(index)

    def run(self, index: int) -> Tensor:
        """Run the model as it is now on a batch, without gradients; return the compared logits, (N, V)."""
        with torch.no_grad():
            return compared_outputs(self.model, self.evaluation, index, self.positions[index])

    def run_other_inputs(self, index: int) -> None:
        """Run the model on a batch's inputs in reverse: what it stores between passes is then another pass's."""
        batch = {
            name: item if "mask" in name else item.flip(-1)
            for name, item in self.evaluation.batches[index].items()
        }
        with torch.no_grad():
            self.evaluation.rules.outputs(self.model, batch)

    def sums(self) -> list[tuple[int, int]]:
        """Run the model as it is now over all batches; return the checksums of its logits."""
        return [checksum(self.run(index)) for index in range(len(self))]

    def compare(self, index: int, reference: Tensor, changed: Tensor) -> Outcomes:
        """Reduce a batch's original and changed outputs to numbers per example."""
        positions = self.positions[index]
        targets = targets_of(positions, reference, self.evaluation)
        original, other = (as_logits(outputs, reference, self.evaluation) for outputs in (reference, changed))
        return per_example(score(original, other, targets, self._scores[index]), positions.mask)

    def sizes(self) -> list[int]:
        """Return how many examples of each batch have a prediction that counts."""
        return [int((positions.mask.sum(1) > 0).sum()) for positions in self.positions]

    def baseline(self) -> dict[str, float]:
        """Return the original's accuracy or perplexity, and the number of examples.

        Embeddings have neither: each original is nearest to itself.
        """
        outcomes = self.outcomes
        result: dict[str, float] = {"examples": len(outcomes)}
        if self.evaluation.rules.per_token:
            result["tokens"] = float(outcomes.predictions.sum())
        if not self.evaluation.labelled or self.evaluation.rules.similarity:
            return result
        if self.evaluation.rules.metric == "perplexity":
            result["perplexity"] = perplexity(outcomes.reference_nll, outcomes.predictions)
        else:
            result["accuracy"] = float(outcomes.reference_correct.mean())
        return result

    def _first_pass(self, index: int) -> Outcomes:
        with self._watching(index):
            outputs = self.run(index)
        if self.evaluation.rules.similarity and len(outputs) < 2:
            raise DataError(
                f"{self.evaluation.source}: an embedding is judged beside others, and a batch holds one alone: "
                "give more examples"
            )
        logits = as_logits(outputs, outputs, self.evaluation)
        targets = targets_of(self.positions[index], outputs, self.evaluation)
        check_targets(targets, logits.shape[-1])
        self.checksums.append(checksum(outputs))
        self._scores.append(ReferenceScores.of(logits, targets))
        size = outputs.numel() * outputs.element_size()
        if size <= self._budget:
            self._budget -= size
            self._kept[index] = outputs
        return self.compare(index, outputs, outputs)

    def _check(self) -> None:
        if not len(self.outcomes):
            raise DataError(f"{self.evaluation.source} leaves nothing to predict: its examples are too short")
        likelihoods = self.outcomes.reference_nll if self.evaluation.labelled else self.outcomes.kl
        bad = int((~np.isfinite(likelihoods) | ~np.isfinite(self.outcomes.kl)).sum())
        if bad:
            raise ModelError(
                f"the unchanged model's outputs are not finite for {bad} of {len(self.outcomes)} examples: "
                "impact cannot be measured at this precision; try bf16 or fp32"
            )


def check_targets(targets: Tensor | None, classes: int) -> None:
    """Refuse labels outside the model's classes.

    Raises:
        DataError: there is one.

    """
    if targets is None or not targets.numel():
        return
    low, high = int(targets.min()), int(targets.max())
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise DataError(f"the label {wrong} lies outside the model's {classes} classes (0 to {classes - 1})")


def memory_share(evaluation: Evaluation) -> int:
    """Return how many bytes of what a stage keeps may lie on the data's device."""
    device = next(iter(evaluation.batches[0].values())).device
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * DEVICE_SHARE)
    return HOST_BUDGET_BYTES

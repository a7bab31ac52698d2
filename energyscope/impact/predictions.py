"""The original model's predictions on the evaluation data, which every change is compared with.

The original's logits are kept between components as far as they fit in a stated budget, else computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from energyscope.adapters import Task
from energyscope.errors import DataError, ModelError
from energyscope.impact.metrics import Outcomes, perplexity
from energyscope.impact.scores import PIECE, per_example, score

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

HOST_BUDGET_BYTES = 2**30
DEVICE_SHARE = 0.25  # of the device memory that is free when the stage begins


@dataclass(frozen=True)
class Positions:
    """Which outputs of a batch are compared: ``mask`` (B, P), and their ``targets`` (N,), N = mask.sum()."""

    mask: Tensor
    targets: Tensor | None


def attention_mask(batch: Mapping[str, Tensor]) -> Tensor:
    """Return which positions of a batch are not padding, bool (B, S)."""
    mask = batch.get("attention_mask")
    return torch.ones_like(batch["input_ids"], dtype=torch.bool) if mask is None else mask.bool()


def compared_positions(batch: Mapping[str, Tensor], labels: Tensor | None, task: Task) -> Positions:
    """Return the predictions of a batch that count.

    Classification: one for each example, P = 1. Next token: positions that are no padding and whose next
    position is none either, P = S - 1.
    """
    mask = attention_mask(batch)
    if task == "classification":
        return Positions(torch.ones_like(mask[:, :1]), labels)
    valid = mask[:, :-1] & mask[:, 1:]
    return Positions(valid, batch["input_ids"][:, 1:][valid])


def compared_logits(model: nn.Module, batch: Mapping[str, Tensor], positions: Positions, task: Task) -> Tensor:
    """Run the model on a batch; return the logits of the compared predictions, (N, V), in the model's dtype."""
    if task == "classification":
        logits: Tensor = model(**batch).logits
        return logits
    logits = model(**batch, use_cache=False).logits
    return logits[:, :-1][positions.mask.to(logits.device)]


def checksum(tensor: Tensor) -> tuple[int, int]:
    """Return two sums over a tensor's bits, computed on its device: equal bits give equal sums.

    The second weights each element by its place, so that exchanged values are noticed too.
    """
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    flat = tensor.detach().contiguous().view(integers).flatten()
    plain, weighted = 0, 0
    for number, piece in enumerate(torch.split(flat, PIECE)):
        place = torch.arange(1, len(piece) + 1, device=piece.device)
        plain += int(piece.sum())
        weighted += (number + 1) * int((piece.long() * place).sum())
    return plain, weighted


class Reference:
    """The original model's predictions on the evaluation data, which every change is compared with."""

    def __init__(self, model: nn.Module, evaluation: Evaluation, budget_bytes: int | None = None) -> None:
        """Run the unchanged model once over the data.

        Raises:
            DataError: there is nothing to predict, or labels lie outside the model's classes.
            ModelError: the unchanged outputs are not finite.

        """
        if not evaluation.batches:
            raise DataError(f"{evaluation.source} holds no examples: choose other data with --data")
        self.model = model
        self.evaluation = evaluation
        self.positions = [self._positions(index) for index in range(len(evaluation.batches))]
        self._kept: dict[int, Tensor] = {}
        self._budget = _budget(evaluation) if budget_bytes is None else budget_bytes
        self.checksums: list[tuple[int, int]] = []
        self.outcomes = Outcomes.concatenate([self._first_pass(index) for index in range(len(self.positions))])
        self._check()

    def __len__(self) -> int:
        return len(self.positions)

    def logits(self, index: int) -> Tensor:
        """Return the original's logits of a batch, (N, V): kept ones, or computed again. Call it without hooks."""
        return self._kept[index] if index in self._kept else self.run(index)

    def run(self, index: int) -> Tensor:
        """Run the model as it is now on a batch, without gradients; return the compared logits, (N, V)."""
        batch = self.evaluation.batches[index]
        with torch.no_grad():
            return compared_logits(self.model, batch, self.positions[index], self.evaluation.task)

    def compare(self, index: int, reference: Tensor, changed: Tensor) -> Outcomes:
        """Reduce a batch's original and changed logits to numbers per example."""
        positions = self.positions[index]
        return per_example(score(reference, changed, positions.targets), positions.mask)

    def baseline(self) -> dict[str, float]:
        """Return the original's accuracy or perplexity, and the number of examples."""
        found = self.outcomes
        result: dict[str, float] = {"examples": len(found)}
        if self.evaluation.task == "next-token":
            result["perplexity"] = perplexity(found.reference_nll, found.predictions)
            result["tokens"] = float(found.predictions.sum())
        elif not np.isnan(found.reference_nll).any():
            result["accuracy"] = float(found.reference_correct.mean())
        return result

    def _positions(self, index: int) -> Positions:
        labels = self.evaluation.labels
        target = None if labels is None else labels[index]
        return compared_positions(self.evaluation.batches[index], target, self.evaluation.task)

    def _first_pass(self, index: int) -> Outcomes:
        logits = self.run(index)
        targets = self.positions[index].targets
        if targets is not None and targets.numel():
            _check_targets(targets, logits.shape[-1])
        self.checksums.append(checksum(logits))
        size = logits.numel() * logits.element_size()
        if size <= self._budget:
            self._budget -= size
            self._kept[index] = logits
        return self.compare(index, logits, logits)

    def _check(self) -> None:
        if not len(self.outcomes):
            raise DataError(
                f"{self.evaluation.source} leaves nothing to predict: it needs texts of two tokens or more"
            )
        unlabelled = self.evaluation.task == "classification" and self.evaluation.labels is None
        likelihoods = self.outcomes.kl if unlabelled else self.outcomes.reference_nll
        bad = int((~np.isfinite(likelihoods) | ~np.isfinite(self.outcomes.kl)).sum())
        if bad:
            raise ModelError(
                f"the unchanged model's outputs are not finite for {bad} of {len(self.outcomes)} examples: "
                "impact cannot be measured at this precision; try bf16 or fp32"
            )


def _check_targets(targets: Tensor, classes: int) -> None:
    low, high = int(targets.min()), int(targets.max())
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise DataError(f"the label {wrong} lies outside the model's {classes} classes (0 to {classes - 1})")


def _budget(evaluation: Evaluation) -> int:
    device = evaluation.batches[0]["input_ids"].device
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * DEVICE_SHARE)
    return HOST_BUDGET_BYTES

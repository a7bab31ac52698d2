"""From a model's outputs to a few numbers per example, computed where the outputs are.

Logits of large vocabularies are never collected: each batch is reduced on its device, in pieces. The
original's logits are kept between components as far as they fit in a stated budget, else computed again.
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
from energyscope.impact.metrics import Floats, Outcomes, perplexity

if TYPE_CHECKING:
    from energyscope.workloads import Evaluation

PIECE = 2**24  # elements that are widened to float64 at once: 128 MiB for each temporary
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


@dataclass(frozen=True)
class Scores:
    """One number for each compared prediction, float64 (N,): ``kl`` and ``nll`` in nats, the others 0 or 1."""

    kl: Tensor
    nll: Tensor
    reference_nll: Tensor
    correct: Tensor
    reference_correct: Tensor
    agreement: Tensor


def score(reference: Tensor, changed: Tensor, targets: Tensor | None) -> Scores:
    """Compare logits (N, V) of the original and the changed model; without targets their scores are NaN.

    In float64: the divergence of a component that hardly matters is a small difference of nearly equal
    numbers, and is exactly 0 where the logits are the same.
    """
    rows = max(1, PIECE // max(1, reference.shape[-1]))
    pieces = [
        _score_piece(
            reference[start : start + rows],
            changed[start : start + rows].to(reference.device),
            None if targets is None else targets[start : start + rows].to(reference.device),
        )
        for start in range(0, len(reference), rows)
    ]
    empty = torch.zeros(0, dtype=torch.float64)
    return Scores(*(torch.cat(column) for column in zip(*pieces, strict=True))) if pieces else Scores(*[empty] * 6)


def _score_piece(reference: Tensor, changed: Tensor, targets: Tensor | None) -> tuple[Tensor, ...]:
    log_p, log_q = (logits.double().log_softmax(-1) for logits in (reference, changed))
    p = log_p.exp()
    # an answer that the original rules out (-inf) adds nothing, whatever the changed model says of it
    kl = torch.where(p == 0, 0.0, p * (log_p - log_q)).sum(-1)
    kl = kl.clamp_min(0.0)  # rounding can fall below, the divergence cannot
    best_p, best_q = log_p.argmax(-1), log_q.argmax(-1)
    agreement = (best_p == best_q).double()
    if targets is None:
        unknown = torch.full_like(kl, torch.nan)
        return kl, unknown, unknown, unknown, unknown, agreement
    index = targets.unsqueeze(-1)
    nll_p, nll_q = (-log.gather(-1, index).squeeze(-1) for log in (log_p, log_q))
    return kl, nll_q, nll_p, (best_q == targets).double(), (best_p == targets).double(), agreement


def per_example(scores: Scores, mask: Tensor) -> Outcomes:
    """Sum or average scores (N,) over each example's predictions; ``mask`` is (B, P).

    Examples without a prediction (a text of one token) are left out.
    """
    mask = mask.to(scores.kl.device)
    counts = mask.sum(1)
    kept = counts > 0

    def summed(values: Tensor) -> Floats:
        # a dense sum, because scatter-add on a GPU adds in any order and would not repeat exactly
        dense = torch.zeros(mask.shape, dtype=torch.float64, device=mask.device)
        dense[mask] = values
        array: Floats = dense.sum(1)[kept].cpu().numpy()
        return array

    number = counts[kept].double().cpu().numpy()
    return Outcomes(
        kl=summed(scores.kl) / number,
        nll=summed(scores.nll),
        reference_nll=summed(scores.reference_nll),
        predictions=number,
        correct=summed(scores.correct),
        reference_correct=summed(scores.reference_correct),
        agreement=summed(scores.agreement) / number,
    )


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

"""From logits to a few numbers per example, computed where the logits are.

Logits of large vocabularies are never collected: each batch is reduced on its device, in pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from energyscope.impact.metrics import Floats, Outcomes

PIECE = 2**24  # elements that are widened to float64 at once: 128 MiB for each temporary


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

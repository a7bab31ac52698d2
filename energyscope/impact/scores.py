"""From logits to a few numbers per example, computed on the logits' device.

Logits of large vocabularies are never collected: each batch is reduced on its device, in pieces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from energyscope.impact.metrics import Outcomes
from energyscope.impact.outputs import pieces

HOST_PIECE = 2**16  # elements that a CPU widens at once: a piece and its six temporaries fit in the cache


@dataclass(frozen=True)
class ReferenceScores:
    """What comparisons need to know of the original's logits, float64 (N,): computed once per batch.

    ``normalizer`` is the log of the sum of the exponentials and ``negentropy`` the sum of p log p, in nats;
    ``best`` is the most likely class; ``anchor`` the class whose margin is taken: the target, or without
    targets the most likely class; ``margin`` is the anchor's logit minus the largest other logit. ``nll``
    (nats) and ``correct`` are NaN without targets.
    """

    normalizer: Tensor
    negentropy: Tensor
    best: Tensor
    anchor: Tensor
    margin: Tensor
    nll: Tensor
    correct: Tensor

    @classmethod
    def of(cls, logits: Tensor, targets: Tensor | None) -> ReferenceScores:
        """Reduce the original's logits (N, V); ``targets`` are class indices (N,), None where there are none."""
        parts = [
            _reference_scores(logits[rows], None if targets is None else targets[rows].to(logits.device))
            for rows in pieces(logits, HOST_PIECE)
        ]
        return cls(*(torch.cat(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True)
class Scores:
    """One number for each compared prediction, float64 (N,).

    ``kl``, ``js``, ``nll`` and ``reference_nll`` in nats; ``correct``, ``reference_correct`` and ``agreement``
    0 or 1; ``margin`` and ``reference_margin`` in units of the logits.
    """

    kl: Tensor
    js: Tensor
    nll: Tensor
    reference_nll: Tensor
    correct: Tensor
    reference_correct: Tensor
    agreement: Tensor
    margin: Tensor
    reference_margin: Tensor


def score(
    reference: Tensor, changed: Tensor, targets: Tensor | None, original: ReferenceScores | None = None
) -> Scores:
    """Compare logits (N, V) of the original and the changed model; without targets their scores are NaN.

    ``original`` is ``ReferenceScores.of(reference, targets)``: pass it where one reference is compared often.
    In float64: the divergence of a component that hardly matters is a small difference of nearly equal
    numbers, and is exactly 0 where the logits are the same. An answer that the original rules out (-inf) adds
    nothing to ``kl``; one that only the changed model rules out makes it infinite. Among equally likely answers
    the first is taken.
    """
    original = ReferenceScores.of(reference, targets) if original is None else original
    parts = [
        _comparison(
            reference[rows],
            changed[rows].to(reference.device),
            original.normalizer[rows],
            original.negentropy[rows],
            original.anchor[rows],
        )
        for rows in pieces(reference, HOST_PIECE)
    ]
    kl, js, normalizer, best, logit, margin = (torch.cat(column) for column in zip(*parts, strict=True))
    unknown = torch.full_like(kl, torch.nan)
    return Scores(
        kl=kl,
        js=js,
        nll=unknown if targets is None else normalizer - logit,
        reference_nll=original.nll,
        correct=unknown if targets is None else (best == original.anchor).double(),
        reference_correct=original.correct,
        agreement=(best == original.best).double(),
        margin=margin,
        reference_margin=original.margin,
    )


def _reference_scores(logits: Tensor, targets: Tensor | None) -> tuple[Tensor, ...]:
    wide = _widened(logits)
    first = wide.argmax(-1) if targets is None else targets
    best, logit, margin, top = _leaders(wide, first)
    _, _, normalizer, negentropy = _exponentials(wide, top)
    unknown = torch.full_like(normalizer, torch.nan)
    nll = unknown if targets is None else normalizer - logit
    correct = unknown if targets is None else (best == first).double()
    return normalizer, negentropy, best, first, margin, nll, correct


def _comparison(
    reference: Tensor, changed: Tensor, normalizer: Tensor, negentropy: Tensor, anchor: Tensor
) -> tuple[Tensor, ...]:
    """Return kl, js, the changed normalizer, its best class, and the anchor's logit and margin, each (rows,).

    KL(p || q) = sum p (a - b) + log Z_q - log Z_p for logits a and b. The Jensen-Shannon divergence is the
    entropy of the middle of p and q minus the mean of their entropies (Lin 1991).
    """
    a, b = _widened(reference), _widened(changed)
    best, logit, margin, top = _leaders(b, anchor)
    p = (a - normalizer.unsqueeze(-1)).exp_()
    kl = torch.linalg.vecdot(p, a.sub_(b))
    weights, total, normalizer_q, negentropy_q = _exponentials(b, top)
    kl += normalizer_q - normalizer
    both = p.addcmul_(weights, total.reciprocal().unsqueeze(-1))
    js = (negentropy + negentropy_q - torch.linalg.vecdot(both, both.log())) / 2 + math.log(2)
    if not bool((kl.isfinite() & js.isfinite()).all()):
        kl, js = _divergences_at_limits(reference.double(), changed.double(), normalizer, normalizer_q)
    kl = kl.clamp_min(0.0)  # rounding can fall below, the divergence cannot
    # where KL is exactly 0, a JS above 0 is rounding
    js = torch.where(kl == 0, 0.0, js.clamp(0.0, math.log(2)))
    return kl, js, normalizer_q, best, logit, margin


def _widened(logits: Tensor) -> Tensor:
    """Return a float64 copy, laid out alike whatever the original's layout: equal logits give equal sums."""
    return logits.to(torch.float64, copy=True, memory_format=torch.contiguous_format)


def _leaders(logits: Tensor, anchor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the most likely class, the anchor's logit, its margin, and the largest logit, each (rows,).

    One search for the largest gives all: the anchor is hidden for as long.
    """
    index = anchor.unsqueeze(-1)
    own = logits.gather(-1, index)
    logits.scatter_(-1, index, -torch.inf)
    other, runner_up = logits.max(-1)
    logits.scatter_(-1, index, own)
    own = own.squeeze(-1)
    first = torch.where(own == other, torch.minimum(anchor, runner_up), runner_up)
    best = torch.where(own > other, anchor, first)
    return best, own, own - other, torch.maximum(own, other)


def _exponentials(logits: Tensor, top: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return exp(logits - top) (rows, V); its sum, the log of the sum of exponentials, and the sum of p log p.

    ``logits`` are overwritten.
    """
    shifted = logits.sub_(top.unsqueeze(-1))
    weights = shifted.exp()
    total = weights.sum(-1)
    return weights, total, top + total.log(), torch.linalg.vecdot(weights, shifted) / total - total.log()


def _divergences_at_limits(
    a: Tensor, b: Tensor, normalizer_p: Tensor, normalizer_q: Tensor
) -> tuple[Tensor, Tensor]:
    """Return kl and js of logits of which some are infinite, or so small that their probability is 0."""
    log_p, log_q = a - normalizer_p.unsqueeze(-1), b - normalizer_q.unsqueeze(-1)
    p, q = log_p.exp(), log_q.exp()
    log_middle = ((p + q) / 2).log()
    kl, from_p, from_q = (
        torch.where(weight == 0, 0.0, weight * (log - base)).sum(-1)
        for weight, log, base in ((p, log_p, log_q), (p, log_p, log_middle), (q, log_q, log_middle))
    )
    return kl, (from_p + from_q) / 2


def per_example(scores: Scores, mask: Tensor) -> Outcomes:
    """Sum or average scores (N,) over each example's predictions; ``mask`` is (B, P), N = mask.sum().

    Examples without a prediction (a text of one token) are left out.
    """
    columns = {field.name: getattr(scores, field.name) for field in fields(scores)}
    mask = mask.to(scores.kl.device)
    # a dense sum, because scatter-add on a GPU adds in any order and would not repeat exactly
    dense = torch.zeros((len(columns), *mask.shape), dtype=torch.float64, device=mask.device)
    dense[:, mask] = torch.stack(list(columns.values()))
    counts = mask.sum(1).double()
    table = torch.cat([counts.unsqueeze(0), dense.sum(2)]).cpu().numpy()  # one transfer for all
    table = table[:, table[0] > 0]
    number, sums = table[0], dict(zip(columns, table[1:], strict=True))
    means = {name: sums[name] / number for name in ("kl", "js", "agreement", "margin", "reference_margin")}
    return Outcomes(**{**sums, **means}, predictions=number)

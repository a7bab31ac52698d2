"""What a generated token takes with prompt lookup, from texts that were generated with it. Pure functions.

A step that verifies k proposed tokens has k + 1 rows; one without a proposal is an ordinary step:

    a token takes (steps with a proposal x their energy + other steps x theirs) / tokens, over all texts
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from energyscope.intervals import Interval, total
from energyscope.metering.interval import student_t
from energyscope.metering.ticks import Array

LOOKUP = "prompt_lookup"  # among the alternatives


@dataclass(frozen=True)
class Acceptance:
    """Of each text: ``tokens`` generated, ``steps`` taken for them, and how many of those were ``proposed`` for.

    ``prompt_tokens`` come before each. ``same`` texts are those of generating without prompt lookup; where others
    begin to differ, two tokens are at most ``largest_gap`` (nats) apart (None: all are the same).
    """

    tokens: Sequence[int]
    steps: Sequence[int]
    proposed: Sequence[int]
    prompt_tokens: int
    same: int
    largest_gap: float | None = None

    @property
    def texts(self) -> int:
        """How many texts were generated."""
        return len(self.tokens)

    @property
    def tokens_per_step(self) -> Interval:
        """The tokens that a step makes: 1 and those that it accepts."""
        return _ratio_of_sums(np.array(self.tokens, float), np.array(self.steps, float))

    @property
    def proposed_share(self) -> float:
        """The share of steps that verify a proposal."""
        return sum(self.proposed) / sum(self.steps)

    def per_token(self, verifying: Interval, plain: Interval) -> Interval:
        """Return what a token takes, where a step takes so much with a proposal, and so much without one.

        The interval holds the scatter between texts and that of both measurements.
        """
        proposed, steps, tokens = (np.array(each, float) for each in (self.proposed, self.steps, self.tokens))
        costs = proposed * verifying.value + (steps - proposed) * plain.value
        weights = proposed.sum() / tokens.sum(), (steps - proposed).sum() / tokens.sum()
        measured = [
            Interval(0.0, -weight * step.below, weight * step.above)
            for weight, step in zip(weights, (verifying, plain), strict=True)
            if weight
        ]
        return total([_ratio_of_sums(costs, tokens), *measured])


def _ratio_of_sums(numerator: Array, denominator: Array) -> Interval:
    """Return a ratio of sums over texts with its interval: Student's, of the residuals of each text.

    Texts are few, and a percentile bootstrap over so few is too narrow.
    """
    count, value = len(numerator), float(numerator.sum() / denominator.sum())
    if count < 2:
        return Interval(value)
    residuals = numerator - value * denominator
    error = math.sqrt(count / (count - 1) * float(residuals @ residuals)) / float(denominator.sum())
    half = student_t(count - 1) * error
    return Interval(value, value - half, value + half)

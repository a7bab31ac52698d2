"""From per-example numbers to impact metrics with intervals. Pure functions over numpy arrays.

The model's outputs were reduced to a few numbers per example (``Outcomes``, made in predictions.py), so
that intervals can be bootstrapped over examples: the data are a sample of examples, and the tokens of one
text depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]

RESAMPLES = 2000


@dataclass(frozen=True)
class Outcomes:
    """What a changed model predicted for each example, beside the original. All arrays have shape (examples,).

    ``kl`` is KL(original || changed) in nats, the mean over the example's predictions; ``nll`` and
    ``reference_nll`` are negative log likelihoods in nats, summed over its predictions (NaN without
    targets); ``predictions`` counts them (tokens for next-token models, 1 for classification);
    ``correct`` and ``reference_correct`` count the right ones; ``agreement`` is the share whose most
    likely answer stayed the same.
    """

    kl: Floats
    nll: Floats
    reference_nll: Floats
    predictions: Floats
    correct: Floats
    reference_correct: Floats
    agreement: Floats

    def __len__(self) -> int:
        return len(self.kl)

    @classmethod
    def concatenate(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Join the outcomes of several batches, in order."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def non_finite(self) -> int:
        """Return for how many examples the changed outputs cannot be compared (NaN or infinite)."""
        bad = ~np.isfinite(self.kl)
        bad |= ~np.isfinite(self.nll) & np.isfinite(self.reference_nll)
        return int(bad.sum())


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval, or None with the reason."""

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str = ""


@lru_cache(maxsize=4)
def bootstrap_weights(count: int, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Return how often each of ``count`` items occurs in each resample, shape (resamples, count).

    The same seed gives the same resamples, so that two components measured on the same examples are
    resampled together (paired).
    """
    rng = np.random.default_rng([seed, count])
    weights = rng.multinomial(count, np.full(count, 1 / count), size=resamples).astype(np.float64)
    weights.setflags(write=False)  # shared by all who ask for it
    return weights


def percentile_interval(draws: Floats, level: float = 0.95) -> tuple[float, float]:
    """Return the central interval of bootstrap draws (Efron's percentile interval)."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bootstrap(statistic: Statistic, count: int, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """Estimate a statistic with its percentile interval over ``count`` examples.

    ``statistic`` maps weights of shape (rows, count) to one value for each row, shape (rows,). With every
    weight 1 it gives the value itself. Where no example differs from another the interval has no width: it
    says nothing about examples that were not seen. One example has no interval.
    """
    value = float(statistic(np.ones((1, count)))[0])
    if not np.isfinite(value):
        return Estimate(None, reason="not finite")
    if count < 2:
        return Estimate(value, reason="no interval: one example")
    draws = statistic(bootstrap_weights(count, resamples, seed))
    draws = draws[np.isfinite(draws)]
    if len(draws) < resamples:
        return Estimate(value, reason=f"no interval: {resamples - len(draws)} of {resamples} resamples not finite")
    return Estimate(value, *percentile_interval(draws))


def mean_kl(outcomes: Outcomes, seed: int = 0) -> Estimate:
    """KL(original || changed) in nats, the mean over examples."""
    return bootstrap(_mean_of(outcomes.kl), len(outcomes), seed)


def top1_agreement(outcomes: Outcomes, seed: int = 0) -> Estimate:
    """Share of predictions whose most likely answer stayed the same, the mean over examples."""
    return bootstrap(_mean_of(outcomes.agreement), len(outcomes), seed)


def accuracy_difference(outcomes: Outcomes, seed: int = 0) -> Estimate:
    """Accuracy of the changed model minus the original's, paired by example."""
    if np.isnan(outcomes.reference_nll).any():
        return Estimate(None, reason="the data have no labels")
    difference = (outcomes.correct - outcomes.reference_correct) / outcomes.predictions
    return bootstrap(_mean_of(difference), len(outcomes), seed)


def perplexity_difference(outcomes: Outcomes, seed: int = 0) -> Estimate:
    """Perplexity of the changed model minus the original's, exp(nll per token), paired by example."""

    def difference(weights: Floats) -> Floats:
        changed = _perplexities(weights, outcomes.nll, outcomes.predictions)
        return changed - _perplexities(weights, outcomes.reference_nll, outcomes.predictions)

    return bootstrap(difference, len(outcomes), seed)


def perplexity(nll: Floats, tokens: Floats) -> float:
    """Return exp(mean nll per token) of a data set; ``nll`` in nats summed over each example's tokens."""
    return float(_perplexities(np.ones((1, len(nll))), nll, tokens)[0])


def _perplexities(weights: Floats, nll: Floats, tokens: Floats) -> Floats:
    with np.errstate(over="ignore"):  # exp(>709) is infinite: seen and said by bootstrap()
        result: Floats = np.exp((weights @ nll) / (weights @ tokens))
    return result


def _mean_of(values: Floats) -> Statistic:
    def mean(weights: Floats) -> Floats:
        result: Floats = (weights @ values) / len(values)
        return result

    return mean

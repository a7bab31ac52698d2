"""From per-example numbers to impact metrics with intervals. Pure functions over numpy arrays.

`scores` reduces the model's outputs to a few numbers per example (`Outcomes`), so that intervals can be
bootstrapped over examples: the data are a sample of examples, and the tokens of one text depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from energyscope.errors import UsageError
from energyscope.reasons import reason

Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]

RESAMPLES = 2000
NEEDS_LABELS = frozenset({"accuracy_difference", "loss_difference", "perplexity_difference"})
COUNTS = frozenset({"accuracy_difference", "top1_agreement"})
# With fewer than 10, percentile intervals covered 53 to 91 % on the bundled classifier, not 95 %, and studentized
# ones (Efron and Tibshirani 1993) 70 to 98 %, at up to ten times the width. With 10 to 15 it was 87 to 96 %, but
# 70 % where a sample only seems to have so many, since it misses the few that carry the whole.
FEWEST_CARRIERS = 15


@dataclass(frozen=True)
class Outcomes:
    """What a changed model predicted for each example, beside the original. All arrays have shape (examples,).

    ``kl`` is KL(original || changed) in nats, the mean over the example's predictions; ``nll`` and
    ``reference_nll`` are negative log likelihoods in nats, summed over its predictions (NaN without
    targets); ``predictions`` counts them (tokens for next-token models, 1 for classification);
    ``correct`` and ``reference_correct`` count the right ones; ``agreement`` is the share whose most
    likely answer stayed the same. ``js`` is the Jensen-Shannon divergence in nats (0 to ln 2), ``margin`` and
    ``reference_margin`` the target's logit minus the largest other logit (without targets: the logit of the
    original's most likely class), each the mean over the example's predictions.
    """

    kl: Floats
    nll: Floats
    reference_nll: Floats
    predictions: Floats
    correct: Floats
    reference_correct: Floats
    agreement: Floats
    js: Floats
    margin: Floats
    reference_margin: Floats

    def __len__(self) -> int:
        return len(self.kl)

    @classmethod
    def concatenate(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Join the outcomes of several batches, in order."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    @classmethod
    def unseen(cls, count: int) -> Outcomes:
        """Return ``count`` examples that were not run, all NaN: they keep the others in their places."""
        return cls(*[np.full(count, np.nan)] * len(fields(cls)))

    def seen(self) -> npt.NDArray[np.bool_]:
        """Return which examples were run, (examples,)."""
        return np.isfinite(self.predictions)

    def subset(self, chosen: npt.NDArray[np.bool_]) -> Outcomes:
        """Return the chosen examples, in order."""
        return self if chosen.all() else Outcomes(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def labelled(self) -> bool:
        """Return whether every prediction had a target."""
        return not bool(np.isnan(self.reference_nll[self.seen()]).any())

    def non_finite(self) -> int:
        """Return for how many examples the changed outputs cannot be compared (NaN or infinite)."""
        bad = ~np.isfinite(self.kl)
        bad |= ~np.isfinite(self.nll) & np.isfinite(self.reference_nll)
        return int((bad & self.seen()).sum())


_BY_EXAMPLE: dict[str, Callable[[Outcomes], Floats]] = {
    "kl": lambda outcomes: outcomes.kl,
    "js": lambda outcomes: outcomes.js,
    "loss_difference": lambda outcomes: (outcomes.nll - outcomes.reference_nll) / outcomes.predictions,
    "logit_difference": lambda outcomes: outcomes.margin - outcomes.reference_margin,
    "accuracy_difference": lambda outcomes: (outcomes.correct - outcomes.reference_correct) / outcomes.predictions,
    "top1_agreement": lambda outcomes: outcomes.agreement,
}
METRICS = (*_BY_EXAMPLE, "perplexity_difference")
"""Changed minus original, or a distance of both; means over examples of the mean over their predictions.

``kl``                     KL(original || changed), nats
``js``                     Jensen-Shannon divergence, nats, 0 to ln 2 (Lin 1991)
``loss_difference``        of the negative log likelihood per prediction, nats, over all predictions
``logit_difference``       of the logit margin, the target's logit minus the largest other one; without targets, of
                           the class that the original held most likely. Negative: less certain
``accuracy_difference``    paired by example
``top1_agreement``         share of predictions whose most likely answer stayed the same
``perplexity_difference``  of exp(nll per token), over all predictions
"""


@dataclass(frozen=True)
class MetricEstimate:
    """A value with its 95 % interval, or None with the reason; a value may lack its interval, with the reason."""

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str = ""


@lru_cache(maxsize=4)
def bootstrap_weights(count: int, seed: int = 0) -> Floats:
    """Return how often each of ``count`` items occurs in each resample, shape (RESAMPLES, count).

    The same seed gives the same resamples, so that two components measured on the same examples are
    resampled together (paired).
    """
    rng = np.random.default_rng([seed, count])
    weights = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(np.float64)
    weights.setflags(write=False)  # shared by all who ask for it
    return weights


def percentile_interval(draws: Floats, level: float = 0.95) -> tuple[float, float]:
    """Return the central interval of bootstrap draws (Efron's percentile interval)."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bootstrap(statistic: Statistic, count: int, seed: int = 0) -> MetricEstimate:
    """Estimate a statistic with its percentile interval over ``count`` examples.

    ``statistic`` maps weights of shape (rows, count) to one value for each row, shape (rows,). With every
    weight 1 it gives the value itself. Where all examples are alike the interval has no width: it says nothing
    about other examples. One example has no interval.
    """
    value = float(statistic(np.ones((1, count)))[0])
    if not np.isfinite(value):
        return MetricEstimate(None, reason=reason("value-not-finite"))
    if count < 2:
        return MetricEstimate(value, reason=reason("one-example"))
    draws = statistic(bootstrap_weights(count, seed))
    bad = int((~np.isfinite(draws)).sum())
    if bad:
        return MetricEstimate(value, reason=reason("resamples-not-finite", bad=bad, of=RESAMPLES))
    return MetricEstimate(value, *percentile_interval(draws))


def estimate(metric: str, outcomes: Outcomes, seed: int = 0) -> MetricEstimate:
    """Return a metric's value over the examples that were run, with its interval.

    There is no interval where fewer than ``FEWEST_CARRIERS`` examples carry the value (see `carriers`).

    Raises:
        UsageError: there is no such metric.

    """
    outcomes = outcomes.subset(outcomes.seen())
    values = by_example(metric, outcomes)
    if metric in NEEDS_LABELS and not outcomes.labelled():
        return MetricEstimate(None, reason=reason("no-labels"))
    result = bootstrap(_statistic(metric, outcomes, values), len(outcomes), seed)
    if metric in COUNTS:
        return _rule_of_three(metric, result, len(outcomes))
    return _carried_by_few(result, values)


def _statistic(metric: str, outcomes: Outcomes, values: Floats) -> Statistic:
    """Return how a metric is computed from weights of the examples; ``values`` are those of `by_example`."""
    nll, reference_nll, predictions = outcomes.nll, outcomes.reference_nll, outcomes.predictions
    if metric == "perplexity_difference":
        return lambda weights: (
            _perplexities(weights, nll, predictions) - _perplexities(weights, reference_nll, predictions)
        )
    if metric == "loss_difference":
        return lambda weights: (weights @ (nll - reference_nll)) / (weights @ predictions)
    return lambda weights: (weights @ values) / len(values)


def _rule_of_three(metric: str, result: MetricEstimate, count: int) -> MetricEstimate:
    """Widen the interval of answers none of which changed: rare changes may be missing from the sample.

    The rule of three: 0 of n leaves up to 3 / n possible, at 95 % (Hanley and Lippman-Hand 1983).
    """
    if result.value is None or result.ci_low is None or result.ci_low != result.ci_high:
        return result
    rare = min(1.0, 3 / count)
    low, high = (-rare, rare) if metric == "accuracy_difference" else (max(0.0, result.value - rare), result.value)
    return MetricEstimate(result.value, low, high, reason("no-answer-changed", examples=count))


def _carried_by_few(result: MetricEstimate, values: Floats) -> MetricEstimate:
    """Drop the interval where a few examples carry a mean: another sample may miss them."""
    if result.ci_low is None or not values.any():
        return result
    effective = carriers(values)
    if effective >= FEWEST_CARRIERS:
        return result
    return MetricEstimate(result.value, reason=reason("few-carriers", effective=effective, of=len(values)))


def carriers(values: Floats) -> float:
    """Return how many examples carry a mean: n where they are alike, 1 where one is all of it, 0 of zeros.

    The effective number (sum |x|)^2 / sum x^2 (Kish 1965), of values scaled so that no square vanishes.
    """
    sizes = np.abs(values)
    if not sizes.any():
        return 0.0
    sizes = sizes / sizes.max()
    return float(sizes.sum() ** 2 / (sizes @ sizes))


def by_example(metric: str, outcomes: Outcomes) -> Floats:
    """Return a metric of each example by itself, (examples,).

    For the perplexity, which is defined only over all examples, it is the loss difference.

    Raises:
        UsageError: there is no such metric.

    """
    if metric not in METRICS:
        raise UsageError(f"no such impact metric: {metric!r} (known: {', '.join(METRICS)})")
    return _BY_EXAMPLE["loss_difference" if metric == "perplexity_difference" else metric](outcomes)


def perplexity(nll: Floats, tokens: Floats) -> float:
    """Return exp(mean nll per token) of a data set; ``nll`` in nats summed over each example's tokens."""
    return float(_perplexities(np.ones((1, len(nll))), nll, tokens)[0])


def _perplexities(weights: Floats, nll: Floats, tokens: Floats) -> Floats:
    with np.errstate(over="ignore"):  # exp(>709) is infinite, which bootstrap() reports
        result: Floats = np.exp((weights @ nll) / (weights @ tokens))
    return result


def perplexity_estimate(nll: Floats, tokens: Floats, seed: int = 0) -> MetricEstimate:
    """Return exp(mean nll per token) with its interval over examples; see `perplexity`."""
    return bootstrap(lambda weights: _perplexities(weights, nll, tokens), len(nll), seed)


def proportion(successes: float, count: int) -> MetricEstimate:
    """Return a share of ``count`` answers with Wilson's score interval (E. B. Wilson, JASA 22, 1927).

    It has a width even where all answers are right, unlike a bootstrap interval.
    """
    if count < 1:
        return MetricEstimate(None, reason=reason("no-answers"))
    share, z = successes / count, 1.959964
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * float(np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)))
    return MetricEstimate(share, min(max(0.0, centre - half), share), max(min(1.0, centre + half), share))

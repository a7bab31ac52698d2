"""Multiple choice under a budget: a precision for each group that costs the least and does not too much harm.

Harms of groups add up, example by example (to first order: `corrected` allows for what is measured to be more),
so that the harm of a choice is bootstrapped over examples with the same resamples for all. The costs of the
efficient choices fall along a front, one for each price of harm: every group takes the option that costs least
with its harm priced in (the Lagrangian relaxation of the multiple-choice knapsack; Sinha and Zoltners, Operations
Research 27, 1979). Pure functions over arrays.

Choosing by noisy harms favours options that look better than they are. How much so is found by cross-validation:
at each price, choices are made without a fold of the examples and their harm is taken on that fold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from energyscope.impact.metrics import Floats, bootstrap_weights

Choice = npt.NDArray[np.intp]

AT_MOST = 0.95  # of resamples, whose harm is within what is stated
ELSEWHERE = 2**0.5  # harm on other data of the same size differs by the errors of both
FOLDS = 5
STARTS = 8  # choices of the front from which further exchanges are tried
_CHUNK = 64  # choices whose resamples are held at once


@dataclass(frozen=True)
class ChoiceProblem:
    """What each group costs at each precision, and what harm that does.

    ``costs`` has shape (groups, precisions), in any unit that adds up, NaN where a precision is not possible;
    ``harms`` (groups, precisions, examples) and ``weights`` (examples,) are those of `Harm`. The first precision
    is the model's own, which does no harm. ``factor`` scales all harms (`corrected`).
    """

    costs: Floats
    harms: Floats
    weights: Floats
    factor: float = 1.0
    seed: int = 0

    @property
    def own(self) -> Choice:
        """The choice that changes nothing."""
        return np.zeros(len(self.costs), dtype=np.intp)

    def cost(self, choice: Choice) -> float:
        return float(self.costs[np.arange(len(choice)), choice].sum())

    def harm(self, choice: Choice) -> float:
        """Return the expected harm of a choice; a group that seems to gain is taken for harmless."""
        return float(self.means[np.arange(len(choice)), choice].sum())

    def bound(self, choice: Choice) -> float:
        """Return what the harm of a choice is below on other data of this size, with 95 % confidence."""
        return float(self.bounds(choice[None])[0])

    def bounds(self, choices: Choice) -> Floats:
        """Return the bounds of choices (n, groups), (n,).

        Two errors count, that of the examples the harms were measured on and that of those it is to hold on.
        """
        groups = np.arange(choices.shape[1])
        chunks = (choices[start : start + _CHUNK] for start in range(0, len(choices), _CHUNK))
        return np.concatenate(
            [
                self._upper(self.harms[groups, chunk].sum(axis=1), self.means[groups, chunk].sum(axis=1))
                for chunk in chunks
            ]
        )

    def _upper(self, by_example: Floats, least: Floats) -> Floats:
        """Return the bounds of harms (n, examples) whose means are at ``least`` (n,)."""
        resampled = bootstrap_weights(len(self.weights), self.seed)
        seen = self.factor * by_example.sum(axis=1) / self.weights.sum()
        draws = self.factor * (resampled @ by_example.T) / (resampled @ self.weights)[:, None]
        spread = np.maximum(np.quantile(draws, AT_MOST, axis=0) - seen, 0.0)
        result: Floats = np.maximum(least, seen) + ELSEWHERE * spread
        return result

    def allows(self, choice: Choice) -> bool:
        """Tell whether each group may have what a choice gives it."""
        return not np.isnan(self.costs[np.arange(len(choice)), choice]).any()

    def possible(self, precision: int) -> Choice:
        """Return the choice of one precision wherever it is possible."""
        return np.where(np.isnan(self.costs[:, precision]), 0, precision)

    def corrected(self, choices: Sequence[Choice], measured: Sequence[float]) -> Self:
        """Return the problem with harms scaled to what whole choices were measured to do.

        The factor is that of a line through the origin, by least squares: the choices of much harm decide it.
        Never below 1, since parts that help each other on these examples need not do so on others.
        """
        expected = np.array([self.harm(choice) / self.factor for choice in choices])
        together = float(expected @ expected)
        factor = float(expected @ np.array(measured)) / together if together else 1.0
        return replace(self, factor=max(factor, 1.0))

    def raw_mean(self, group: int, option: int) -> float:
        """Return the harm of an option by itself as it was measured, which may be below 0."""
        return float(self.harms[group, option].sum() / self.weights.sum())

    @cached_property
    def means(self) -> Floats:
        """The expected harms (groups, precisions), none below 0."""
        return self._means_of(slice(None))

    def _means_of(self, examples: Any) -> Floats:
        means = self.factor * self.harms[..., examples].sum(axis=2) / self.weights[examples].sum()
        means[:, 0] = 0.0
        result: Floats = np.maximum(means, 0.0)
        return result

    def at_prices(self, prices: Floats, means: Floats) -> Choice:
        """Return the choices (prices, groups) that cost least with harm at each price (cost a unit of harm)."""
        known = np.where(np.isnan(self.costs), np.inf, self.costs)
        chunks = (prices[start : start + _CHUNK, None, None] for start in range(0, len(prices), _CHUNK))
        result: Choice = np.concatenate([(known + chunk * means).argmin(axis=2) for chunk in chunks])
        return result

    def validated_bounds(self, prices: Floats) -> Floats:
        """Return the bounds (prices,) of choosing at each price, by cross-validation over the examples."""
        groups, count = np.arange(len(self.costs)), len(self.weights)
        order = np.random.default_rng([self.seed, count]).permutation(count)
        by_example = np.empty((len(prices), count))
        for fold in np.array_split(order, min(FOLDS, count)):
            others = np.setdiff1d(order, fold)
            choices = self.at_prices(prices, self._means_of(others))
            for number, choice in enumerate(choices):
                by_example[number, fold] = self.harms[groups, choice][:, fold].sum(axis=0)
        return self._upper(by_example, np.zeros(len(prices)))


def front(problem: ChoiceProblem) -> tuple[Choice, Floats]:
    """Return the efficient choices (n, groups), from the least harm to the least cost, and their prices (n,).

    A price is what a unit of harm costs, at which a choice is the best.
    """
    slopes = np.unique([slope for group in range(len(problem.costs)) for slope in _slopes(problem, group)])[::-1]
    if not len(slopes):
        return problem.at_prices(np.ones(1), problem.means), np.ones(1)
    prices = np.concatenate([2 * slopes[:1], np.sqrt(slopes[:-1] * slopes[1:]), slopes[-1:] / 2])
    return problem.at_prices(prices, problem.means), prices


def choose(problem: ChoiceProblem, limit: float) -> Choice:
    """Return the cheapest choice found whose harm stays within a limit with 95 % confidence.

    The last one of the front that does, or none, and then every further exchange that fits, the largest saving
    first: the front leaves up to one group's step unused, and its first choice holds all that seems harmless.
    """
    choices, prices = front(problem)
    validated = problem.validated_bounds(prices)
    within = np.flatnonzero(validated <= limit)
    if not len(within):
        return _filled(problem, problem.own, limit)
    last = int(within[-1])
    optimism = max(float(validated[last]) - problem.bound(choices[last]), 0.0)  # of having chosen by noise
    starts = choices[max(0, last - STARTS) : last + 1]
    filled = [_filled(problem, choice, limit - optimism) for choice in starts]
    return min(filled, key=problem.cost)


def _filled(problem: ChoiceProblem, choice: Choice, limit: float) -> Choice:
    """Exchange single options for cheaper ones while the harm stays within the limit."""
    means = problem.means
    now = problem.costs[np.arange(len(choice)), choice]
    savings = np.nan_to_num(now[:, None] - problem.costs, nan=-np.inf)
    ranked = np.argsort(-savings, axis=None)[: int((savings > 0).sum())]
    room = limit - problem.harm(choice)
    for group, option in zip(*np.unravel_index(ranked, savings.shape), strict=True):
        more = means[group, option] - means[group, choice[group]]
        if problem.costs[group, option] >= problem.costs[group, choice[group]] or more > room:
            continue
        changed = choice.copy()
        changed[group] = option
        if problem.bound(changed) <= limit:
            choice, room = changed, limit - problem.harm(changed)
    return choice


def _slopes(problem: ChoiceProblem, group: int) -> Iterator[float]:
    """Yield the prices of harm at which a group's best option changes: those of its lower convex hull."""
    costs, means = problem.costs[group], problem.means[group]
    hull: list[int] = []
    possible = np.flatnonzero(~np.isnan(costs)).tolist()
    for option in sorted(possible, key=lambda each: (means[each], costs[each])):
        if hull and costs[option] >= costs[hull[-1]]:
            continue  # more harm for no less cost
        while len(hull) > 1 and _price(costs, means, hull[-1], option) >= _price(costs, means, *hull[-2:]):
            hull.pop()
        hull.append(option)
    yield from (_price(costs, means, *pair) for pair in itertools.pairwise(hull))


def _price(costs: Floats, means: Floats, first: int, second: int) -> float:
    """Return the cost saved for a unit of harm from one option to another, which does more."""
    return float((costs[first] - costs[second]) / (means[second] - means[first]))

"""The optimiser finds what an exact solver finds, and keeps its budget on other data."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from energyscope.planning.choice import ChoiceProblem, choose, front


def problem(groups=12, precisions=4, examples=200, *, noise=0.0, seed=0, factor=1.0):
    """Make a problem in which cheaper precisions do more harm, each group another one."""
    rng = np.random.default_rng(seed)
    costs = np.sort(rng.uniform(0.3, 1.0, (groups, precisions)), axis=1)[:, ::-1] * rng.uniform(1, 20, (groups, 1))
    means = np.sort(rng.exponential(1.0, (groups, precisions)), axis=1) * rng.uniform(0.1, 3, (groups, 1)) * 1e-3
    means[:, 0] = 0.0
    harms = means[..., None] + noise * rng.standard_normal((groups, precisions, examples)) * means[..., None]
    return ChoiceProblem(costs, harms, np.ones(examples), factor)


def exact(given: ChoiceProblem, limit: float) -> float:
    """Return the least cost with a mean harm within the limit, by branch and bound."""
    groups, precisions = given.costs.shape
    means = given.harms.mean(axis=2).ravel()
    one_each = np.kron(np.eye(groups), np.ones(precisions))
    solution = milp(
        given.costs.ravel(),
        integrality=np.ones(groups * precisions),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(one_each, 1, 1), LinearConstraint(means[None], -np.inf, limit)],
    )
    return float(solution.fun)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
def test_a_choice_is_near_the_exact_one(seed, share):
    """GIVEN examples that all agree, THEN at least 96 % of the exact saving within the limit."""
    given = problem(groups=32, seed=seed)
    limit = share * given.harm(given.possible(3))
    choice = choose(given, limit)
    assert given.harm(choice) <= limit * (1 + 1e-9)
    most = given.cost(given.own) - exact(given, limit)
    assert given.cost(given.own) - given.cost(choice) >= 0.96 * most


def test_a_front_leads_from_no_harm_to_the_least_cost():
    """GIVEN a problem, THEN cost falls and harm rises along the front, in ever worse exchange."""
    given = problem(seed=3)
    choices, prices = front(given)
    assert (np.diff(prices) < 0).all()
    costs = np.array([given.cost(choice) for choice in choices])
    harms = np.array([given.harm(choice) for choice in choices])
    assert harms[0] == 0.0
    assert costs[-1] == pytest.approx(given.costs.min(axis=1).sum())
    assert (np.diff(costs) < 0).all()
    slopes = np.diff(costs) / np.diff(harms)
    assert (np.diff(slopes) >= -1e-6 * np.abs(slopes[:-1])).all()


def test_a_precision_that_is_not_possible_is_not_chosen():
    """GIVEN no kernel for the cheapest precision in some groups, THEN these get another one."""
    given = problem()
    given.costs[::2, 3] = np.nan
    choice = choose(given, limit=1.0)
    assert (choice[::2] == 2).all()
    assert (choice[1::2] == 3).all()
    assert (given.possible(3)[::2] == 0).all()


def test_a_budget_of_nothing_changes_nothing():
    """GIVEN a limit of 0 and only harmful options, THEN every group keeps its own precision."""
    given = problem(noise=1.0)
    assert (choose(given, 0.0) == given.own).all()


def test_a_cheaper_precision_that_does_no_harm_is_always_taken():
    """GIVEN an option that seems to improve predictions and one dearer, THEN the cheap one."""
    harms = np.zeros((1, 3, 50))
    harms[0, 1], harms[0, 2] = 0.1, -0.01
    given = ChoiceProblem(np.array([[1.0, 2.0, 0.5]]), harms, np.ones(50))
    assert choose(given, 0.05).tolist() == [2]
    assert given.harm(np.array([2])) == 0.0


def test_a_budget_holds_on_other_examples():
    """GIVEN noisy examples, THEN a fresh sample's harm is within in 9 of 10 trials."""
    held = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        true = problem(seed=seed)
        means = true.harms[..., 0]
        noisy = means[..., None] * (1 + 8.0 * rng.standard_normal((*means.shape, 150)))
        given = ChoiceProblem(true.costs, noisy, np.ones(150))
        limit = 0.5 * true.harm(true.possible(3))
        choice = choose(given, limit)
        fresh = means[..., None] * (1 + 8.0 * rng.standard_normal((*means.shape, 150)))
        held += fresh[np.arange(12), choice].sum(axis=0).mean() <= limit
    assert held >= 54  # a nominal 57; with bounds that ignore that noise was chosen by: 39


def test_harms_that_grow_together_are_allowed_for():
    """GIVEN whole choices measured at 1.5 times the sum of their parts, THEN so is every harm."""
    given = problem()
    choices = [given.possible(option) for option in (1, 2, 3)]
    more = given.corrected(choices, [1.5 * given.harm(choice) for choice in choices])
    assert more.factor == pytest.approx(1.5)
    assert more.harm(choices[2]) == pytest.approx(1.5 * given.harm(choices[2]))
    assert given.corrected(choices, [0.5 * given.harm(choice) for choice in choices]).factor == 1.0


def test_a_large_model_takes_seconds():
    """GIVEN 80 layers of 4 groups at 6 precisions, THEN below 10 s (bar of the project; here a few)."""
    given = problem(320, 6, 256, noise=1.0)
    begin = time.monotonic()
    choice = choose(given, 0.3 * given.harm(given.possible(5)))
    assert given.cost(choice) < given.cost(given.own)
    assert time.monotonic() - begin < 60

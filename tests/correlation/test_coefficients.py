from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyscope.correlation.coefficients import METHODS, Method, average_ranks, coefficient, statistic

numbers = st.lists(st.integers(-1000, 1000), min_size=4, max_size=12)
tied = st.integers(2, 14).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, 4), min_size=n, max_size=n) for _ in range(3)))
)


def tau_b(x: list[int], y: list[int], strata: list[int]) -> float:
    """Kendall's tau-b by its definition: concordant minus discordant over the root of untied pairs."""
    difference = in_x = in_y = 0
    for i, j in combinations(range(len(x)), 2):
        if strata[i] == strata[j]:
            a, b = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
            difference, in_x, in_y = difference + a * b, in_x + (a != 0), in_y + (b != 0)
    return float(difference / (in_x * in_y) ** 0.5) if in_x * in_y else float("nan")


def row(values: list[int]) -> np.ndarray:
    return np.array([values], dtype=float)


@given(tied)
def test_kendall_is_that_of_all_pairs(table: tuple[list[int], list[int], list[int]]) -> None:
    """GIVEN many ties, THEN tau-b by sorting is tau-b by its definition, also within strata."""
    x, y, strata = table
    together = coefficient(row(x), row(y), "kendall")[0]
    np.testing.assert_allclose(together, tau_b(x, y, [0] * len(x)), atol=1e-12)
    apart = coefficient(row(x), row(y), "kendall", np.array(strata))[0]
    np.testing.assert_allclose(apart, tau_b(x, y, strata), atol=1e-12)


def test_known_coefficients() -> None:
    """GIVEN a small table worked out by hand, THEN Pearson is 0.8, Spearman with a tie 0.9747, tau-b 0.6."""
    x = row([1, 2, 3, 4, 5])
    y = row([1, 3, 2, 5, 4])  # sum of products of deviations 8, of squares 10 and 10; two pairs of ten disagree
    assert coefficient(x, y, "pearson")[0] == pytest.approx(0.8)
    assert coefficient(x, y, "kendall")[0] == pytest.approx(0.6)
    tie = row([10, 20, 20, 30, 40])  # ranks 1, 2.5, 2.5, 4, 5: products 9.5, squares 10 and 9.5
    assert coefficient(x, tie, "spearman")[0] == pytest.approx(9.5 / (10 * 9.5) ** 0.5)


def test_ties_share_their_mean_rank() -> None:
    """GIVEN ties, THEN they share the mean of their ranks."""
    assert average_ranks(row([5, 1, 5, 5, 0]))[0].tolist() == [4.0, 2.0, 4.0, 4.0, 1.0]
    assert average_ranks(row([30, 10, 20]))[0].tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize("method", METHODS)
def test_strata_hide_what_lies_between_them(method: Method) -> None:
    """GIVEN two groups that rise together and fall within, THEN the stratified coefficient is -1."""
    x, y = row([1, 2, 3, 11, 12, 13]), row([3, 2, 1, 13, 12, 11])
    assert coefficient(x, y, method)[0] > 0
    assert coefficient(x, y, method, np.array([0, 0, 0, 1, 1, 1]))[0] == pytest.approx(-1)


@pytest.mark.parametrize("method", METHODS)
def test_constant_rows_have_none(method: Method) -> None:
    """GIVEN a constant row among others, THEN it alone is NaN."""
    x = np.array([[0.1, 0.1, 0.1, 0.1], [1, 2, 3, 4.0]])
    coefficients = coefficient(x, np.array([[1.0, 2, 3, 4]] * 2), method)
    assert np.isnan(coefficients[0])
    assert coefficients[1] == pytest.approx(1)


@pytest.mark.parametrize("method", METHODS)
def test_statistic_orders_permutations_as_the_coefficient_does(method: Method) -> None:
    """GIVEN permutations of one axis, THEN the numerator is proportional to the coefficient, with ties too."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, 9).astype(float)
    y = rng.lognormal(size=9).round()
    orders = rng.permuted(np.tile(np.arange(9), (50, 1)), axis=1)
    coefficients, numerators = coefficient(np.tile(x, (50, 1)), y[orders], method), statistic(x, y, orders, method)
    largest = np.abs(coefficients).argmax()
    np.testing.assert_allclose(numerators, numerators[largest] / coefficients[largest] * coefficients, atol=1e-9)


@given(numbers, st.integers(0, 9), st.sampled_from(METHODS))
def test_symmetric_and_blind_to_scale(values: list[int], turn: int, method: Method) -> None:
    """The coefficient lies within -1..1, is symmetric, and does not change with unit or offset."""
    x = row(values)
    y = np.roll(x**3, turn)
    coefficients = coefficient(x, y, method)
    assert np.isnan(coefficients[0]) or -1 <= coefficients[0] <= 1
    np.testing.assert_allclose(coefficient(y, x, method), coefficients, atol=1e-9)
    np.testing.assert_allclose(coefficient(x * 1e-3 + 5, y, method), coefficients, atol=1e-6)
    np.testing.assert_allclose(coefficient(x * 1e-200, y, method), coefficients, atol=1e-9)

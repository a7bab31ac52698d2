from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyscope.reasons import reason
from energyscope.scaling.least_squares import at_zero, non_negative, weighted

ONES = np.ones(6)
X = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


def test_exact_values_give_their_coefficients() -> None:
    """GIVEN values without noise THEN the coefficients are found and the intervals have no width."""
    fit = weighted(np.column_stack([ONES, 1e12 * X]), 5 + 2 * X, 0.02 * (5 + 2 * X))
    assert fit is not None
    assert fit.coefficients == pytest.approx((5, 2e-12))
    assert fit.interval((1, 3e12)).low == pytest.approx(11)


def test_the_interval_is_that_of_textbooks() -> None:
    """GIVEN equal weights THEN the slope's deviation is s / sqrt(sum (x - mean)^2)."""
    values = 5 + 2 * X + np.array([0.3, -0.2, 0.1, 0.4, -0.5, 0.2])
    fit = weighted(np.column_stack([ONES, X]), values, ONES)
    slope, offset = np.polyfit(X, values, 1)
    s = np.sqrt(np.sum((values - offset - slope * X) ** 2) / 4)
    half = 2.776 * s / np.sqrt(np.sum((X - X.mean()) ** 2))
    assert fit is not None
    assert fit.coefficient(1).value == pytest.approx(slope)
    assert fit.coefficient(1).high == pytest.approx(slope + half)


@given(st.floats(1e-6, 1e6))
def test_only_the_ratio_of_deviations_counts(scale: float) -> None:
    """GIVEN all deviations times a number THEN coefficients and intervals stay."""
    values, design = 5 + 2 * X + np.sin(X), np.column_stack([ONES, X])
    first, other = weighted(design, values, 0.1 * values), weighted(design, values, scale * 0.1 * values)
    assert first is not None
    assert other is not None
    assert other.coefficient(1).high == pytest.approx(first.coefficient(1).high)


def test_columns_that_are_the_same_are_no_fit() -> None:
    """GIVEN two proportional columns THEN nothing is fitted, rather than something arbitrary."""
    assert weighted(np.column_stack([X, 3 * X]), X, ONES) is None
    assert weighted(np.column_stack([ONES, X])[:1], X[:1], ONES[:1]) is None


@given(st.integers(0, 10_000))
def test_non_negative_solutions_meet_their_conditions(seed: int) -> None:
    """GIVEN any problem THEN no coefficient is negative, and no allowed change of one lowers the loss (KKT)."""
    random = np.random.default_rng(seed)
    design, values = random.uniform(0, 1, (8, 3)), random.standard_normal(8)
    fit = non_negative(design, values, np.ones(8))
    solution = np.zeros(3) if fit is None else np.array(fit.coefficients)
    slope = design.T @ (design @ solution - values)
    assert np.all(solution >= 0)
    assert slope[solution > 0] == pytest.approx(0, abs=1e-8)
    assert np.all(slope[solution == 0] >= -1e-8)


def test_a_bound_that_is_active_is_told() -> None:
    """GIVEN values that fall with a column THEN its coefficient is 0, not fitted, and remarked on."""
    design = np.column_stack([ONES, X, np.zeros(6)])
    fit = non_negative(design, 100 - X, ONES)
    assert fit is not None
    assert (fit.coefficients[1], fit.active) == (0, (True, False, False))
    assert at_zero(fit, ("a", "b", "c"), design) == [reason("term-held-at-zero", term="b")]


@pytest.mark.parametrize("order", [(0.5, 2.0), (2.0, 0.5)])
def test_what_cannot_be_told_apart_falls_to_the_later_column(order: tuple[float, float]) -> None:
    """GIVEN a first column that is a sum of others THEN it is dropped, said so, and the fit stays exact."""
    others = np.column_stack([ONES, X])
    design = np.column_stack([others @ order, others])
    fit = non_negative(design, others @ [3.0, 7.0], ONES)
    assert fit is not None
    assert fit.coefficients == pytest.approx((0, 3, 7))
    assert at_zero(fit, ("a", "b", "c"), design) == [reason("term-not-separable", term="a")]

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyscope.impact.association import METHODS, Method, associate, coefficients, permutation_p, ranks

X = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
numbers = st.lists(st.integers(-1000, 1000), min_size=4, max_size=12)


def test_known_coefficients() -> None:
    """GIVEN a small table worked out by hand, THEN Pearson is 0.8 and Spearman with a tie 0.9 / sqrt(0.95)."""
    y = np.array([1.0, 3.0, 2.0, 5.0, 4.0])  # sum of products of deviations 8, of squares 10 and 10
    assert associate(X, y, "pearson").value == pytest.approx(0.8)
    tied = np.array([10.0, 20.0, 20.0, 30.0, 40.0])  # ranks 1, 2.5, 2.5, 4, 5: products 9.5, squares 10 and 9.5
    assert associate(X, tied, "spearman").value == pytest.approx(9.5 / (10 * 9.5) ** 0.5)


def test_ties_share_their_mean_rank() -> None:
    """GIVEN ties, THEN they share the mean of their ranks."""
    assert ranks(np.array([5.0, 1.0, 5.0, 5.0, 0.0])).tolist() == [4.0, 2.0, 4.0, 4.0, 1.0]


def test_ranks_of_a_resample_are_those_of_the_sample_drawn() -> None:
    """GIVEN a resample written as weights, THEN its coefficient is that of the points really repeated."""
    y = np.array([2.0, 2.0, 1.0, 7.0, 3.0])
    drawn = [0, 0, 2, 3, 3]
    weights = np.bincount(drawn, minlength=5)[None, :].astype(float)
    for method in METHODS:
        repeated = coefficients(X[drawn], y[drawn], method, np.ones((1, 5)))
        assert coefficients(X, y, method, weights) == pytest.approx(repeated)


@pytest.mark.parametrize("method", METHODS)
def test_too_few_points_are_unknown(method: Method) -> None:
    """GIVEN three points, THEN nothing is computed and the reason says how many are needed."""
    found = associate(X[:3], X[:3], method)
    assert (found.value, found.ci_low, found.p_value) == (None, None, None)
    assert "4" in str(found.reason)


@pytest.mark.parametrize("method", METHODS)
def test_constant_values_are_unknown(method: Method) -> None:
    """GIVEN a constant axis, THEN the correlation is None and the reason names the axis."""
    found = associate(X, np.full(5, 0.1), method)
    assert found.value is None
    assert "same impact" in str(found.reason)


def test_p_value_is_small_for_a_line_and_never_zero() -> None:
    """GIVEN twelve points on a line, THEN no permutation does as well and p is 1 / (1 + m)."""
    x = np.arange(12.0)
    assert permutation_p(x, 2 * x + 1, "pearson", permutations=999) == pytest.approx(1 / 1000)


def test_p_value_of_four_points_on_a_line() -> None:
    """GIVEN four points on a line, THEN 2 of the 24 pairings are as extreme and p is near 1/12."""
    assert permutation_p(X[:4], X[:4], "spearman") == pytest.approx(1 / 12, abs=0.015)


def test_p_values_are_uniform_where_nothing_is_related() -> None:
    """GIVEN unrelated data, THEN p falls below 0.1 in about a tenth of the trials."""
    rng = np.random.default_rng(0)
    trials = [permutation_p(*rng.normal(size=(2, 10)), "pearson", permutations=199) for _ in range(400)]
    assert 0.06 <= np.mean(np.array(trials) <= 0.1) <= 0.14


def test_interval_covers_the_population_correlation() -> None:
    """GIVEN samples of 40 from a normal population with r = 0.5, THEN intervals cover it in nine of ten trials."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        x, noise = rng.normal(size=(2, 40))
        found = associate(x, 0.5 * x + 0.75**0.5 * noise, "pearson")
        assert found.ci_low is not None
        assert found.ci_high is not None
        covered += found.ci_low <= 0.5 <= found.ci_high
    assert covered / 200 >= 0.88


@given(numbers, st.integers(0, 9), st.sampled_from(METHODS))
def test_symmetric_and_blind_to_scale(values: list[int], turn: int, method: Method) -> None:
    """The coefficient lies within -1..1, is symmetric, and does not change with unit or offset."""
    x = np.array(values, dtype=float)
    y = np.roll(x**3, turn)
    ones = np.ones((1, len(x)))
    found = coefficients(x, y, method, ones)
    assert np.isnan(found[0]) or -1 <= found[0] <= 1
    np.testing.assert_allclose(coefficients(y, x, method, ones), found, atol=1e-9)
    np.testing.assert_allclose(coefficients(x * 1e-3 + 5, y, method, ones), found, atol=1e-6)

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from energyscope.correlation.association import (
    METHODS,
    Method,
    associate,
    correlation_matrix,
    permutation_p,
    rank_agreement,
)
from energyscope.correlation.coefficients import coefficient
from energyscope.correlation.resampling import UncertainValues, axis
from energyscope.reasons import reason

X = np.arange(1.0, 9.0)


def noisy(values: np.ndarray, error: float, rng: np.random.Generator) -> UncertainValues:
    """What a measurement with this standard error says of the values, with its interval."""
    measured = values + error * rng.normal(size=len(values))
    return axis(measured, measured - 1.96 * error, measured + 1.96 * error)


@pytest.mark.parametrize("method", METHODS)
def test_too_few_points_are_unknown(method: Method) -> None:
    """GIVEN seven points, THEN nothing is computed and the reason says how many are needed; eight are enough."""
    result = associate(X[:7], X[:7], method)
    assert (result.value, result.ci_low, result.p_value) == (None, None, None)
    assert result.reason == reason("too-few-points", points=7, needed=8)
    assert associate(X, X, method).value == 1


@pytest.mark.parametrize("method", METHODS)
def test_constant_values_are_unknown(method: Method) -> None:
    """GIVEN a constant axis, also if only within each stratum, THEN it is None and the reason names the axis."""
    result = associate(X, np.full(8, 0.1), method)
    assert (result.value, result.reason) == (None, reason("axis-constant", axis="impact", points=8))
    strata = np.repeat([0, 1], 4)
    within = associate(strata + 1.0, X, method, strata=strata)
    assert (within.value, within.reason) == (None, reason("axis-constant-within-kinds", axis="energy", points=8))


@pytest.mark.parametrize("method", METHODS)
def test_p_value_is_that_of_all_permutations(method: Method) -> None:
    """GIVEN six points, THEN the p-value is near the share of the 720 pairings that are as extreme."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=6), rng.lognormal(size=6)
    every = np.array([y[list(order)] for order in permutations(range(6))])
    result = np.abs(coefficient(np.tile(x, (720, 1)), every, method))
    exact = np.mean(result >= abs(coefficient(x[None], y[None], method)[0]) - 1e-9)
    assert permutation_p(x, y, method) == pytest.approx(exact, abs=0.025)


def test_p_value_is_small_for_a_line_and_never_zero() -> None:
    """GIVEN twelve points on a line, THEN no permutation does as well and p is 1 / (1 + m)."""
    x = np.arange(12.0)
    assert permutation_p(x, 2 * x + 1, "pearson", permutations=999) == pytest.approx(1 / 1000)


def test_points_are_exchanged_within_strata_only() -> None:
    """GIVEN two strata of two points on a line, THEN 1 of the 4 pairings within strata is as good, 1 as bad."""
    x, strata = np.array([1.0, 2, 11, 12]), np.array([0, 0, 1, 1])
    assert permutation_p(x, x, "pearson", strata=strata) == pytest.approx(0.5, abs=0.03)


def test_order_of_strata_does_not_matter() -> None:
    """GIVEN the same points in another order, THEN the coefficient within strata is the same."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 9))
    strata, order = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]), rng.permutation(9)
    first = associate(x, y, "kendall", strata=strata)
    assert first.value == pytest.approx(associate(x[order], y[order], "kendall", strata=strata[order]).value)


@pytest.mark.parametrize("method", METHODS)
def test_p_values_are_uniform_where_nothing_is_related(method: Method) -> None:
    """GIVEN unrelated data, THEN p falls below 0.1 in about a tenth of the trials."""
    rng = np.random.default_rng(0)
    trials = [permutation_p(*rng.lognormal(size=(2, 10)), method, permutations=199) for _ in range(400)]
    assert 0.06 <= np.mean(np.array(trials) <= 0.1) <= 0.14


def test_wider_errors_widen_the_interval() -> None:
    """GIVEN the same points with and without error bars, THEN the interval that carries them is wider."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 30))
    y += x
    exact = associate(x, y, "pearson", permutations=0)
    wide = associate(axis(x, x - 1, x + 1), axis(y, y - 1, y + 1), "pearson", permutations=0)
    assert exact.value == wide.value
    widths = [float(estimate.ci_high or 0) - float(estimate.ci_low or 0) for estimate in (exact, wide)]
    assert widths[1] > 1.1 * widths[0]


def test_agreement_has_no_p_value() -> None:
    """GIVEN two axes, THEN their rank agreement has an interval and no p-value."""
    result = rank_agreement(axis(X), axis(X[::-1]))
    assert (result.value, result.p_value) == (-1.0, None)
    assert result.ci_high == pytest.approx(-1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "truth"),
    [("pearson", 0.5), ("spearman", 6 / np.pi * np.arcsin(0.25)), ("kendall", 2 / np.pi * np.arcsin(0.5))],
)
@pytest.mark.parametrize("error", [0.1, 0.33])
def test_intervals_cover_the_coefficient_without_errors(method: Method, truth: float, error: float) -> None:
    """GIVEN samples of 40 from a normal population with r = 0.5, measured with error, THEN intervals cover the
    coefficient of the unmeasured truth in 90 to 99 of 100 trials (they count the errors twice: wide, not narrow).
    """
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        x, rest = rng.normal(size=(2, 40))
        measured = (noisy(values, error, rng) for values in (x, 0.5 * x + 0.75**0.5 * rest))
        result = associate(*measured, method, permutations=0)
        assert result.ci_low is not None
        assert result.ci_high is not None
        covered += result.ci_low <= truth <= result.ci_high
    assert 0.90 <= covered / 200 <= 0.995


def kind_effects(rng: np.random.Generator, kinds: int, layers: int) -> np.ndarray:
    """Values that are mostly their kind's, of layers that differ a little."""
    return np.repeat(rng.lognormal(size=kinds), layers) * rng.lognormal(sigma=0.2, size=kinds * layers)


def test_kinds_that_differ_by_chance_are_no_correlation() -> None:
    """GIVEN six kinds of twelve layers, unrelated, THEN the interval holds 0 in 9 of 10 trials or more; points
    taken as independent would not.
    """
    rng = np.random.default_rng(0)
    kinds = [f"kind{number}" for number in np.repeat(np.arange(6), 12)]
    holds, naive = 0, 0
    for seed in range(60):
        x, y = kind_effects(rng, 6, 12), kind_effects(rng, 6, 12)
        for clustered in (True, False):
            result = rank_agreement(axis(x), axis(y), seed, kinds if clustered else None)
            assert result.ci_low is not None
            assert result.ci_high is not None
            inside = result.ci_low <= 0 <= result.ci_high
            holds, naive = holds + (inside and clustered), naive + (inside and not clustered)
    assert holds >= 52
    assert naive <= 40


def test_pooled_kinds_have_no_p_value() -> None:
    """GIVEN kinds of several points, THEN p is None with the reason; of one kind, or of a kind each, not so."""
    x, y = np.random.default_rng(0).normal(size=(2, 8))
    pooled = associate(x, y, "pearson", kinds=["mlp"] * 4 + ["norm"] * 4)
    assert pooled.p_value is None
    assert pooled.ci_low is not None
    assert pooled.reason == "kinds-not-independent"
    plain = associate(x, y, "pearson")
    for kinds in (["mlp"] * 8, list("abcdefgh")):
        assert associate(x, y, "pearson", kinds=kinds) == plain
    assert plain.p_value is not None


NAN = np.full(12, np.nan)


def test_every_pair_has_a_coefficient_or_a_reason() -> None:
    """GIVEN columns with gaps, THEN each pair is that of the points both know; constants and gaps say why not."""
    rng = np.random.default_rng(0)
    energy, impact = rng.normal(size=(2, 12))
    gaps = np.where(np.arange(12) < 9, np.nan, impact)
    columns = {"energy_mj": energy, "flops": NAN, "power_w": np.ones(12), "zero:kl": impact, "int8:kl": gaps}
    result = correlation_matrix(columns, dict.fromkeys(columns, np.full(3, np.nan)), 3)
    names = result["columns"]
    assert names == ["energy_mj", "power_w", "zero:kl", "int8:kl"]
    assert result["energy_columns"] == ["energy_mj", "power_w"]
    assert result["left_out"] == {"flops": "no-value"}
    value, n = np.array(result["value"], float), np.array(result["n"])
    assert value[0, 2] == pytest.approx(associate(energy, impact, "spearman", permutations=0).value, abs=1e-4)
    assert (n[0, 2], n[0, 3]) == (12, 3)
    np.testing.assert_array_equal(value, value.T)
    assert result["reasons"]["power_w|energy_mj"] == reason("axis-constant", axis="power_w", points=12)
    assert result["reasons"]["int8:kl|energy_mj"] == reason("too-few-points", points=3, needed=8)
    unknown = {(i, j) for i in range(4) for j in range(i + 1) if np.isnan(value[i, j])}
    assert {f"{names[i]}|{names[j]}" for i, j in unknown} == set(result["reasons"])


def test_what_only_layers_have_is_compared_over_layers() -> None:
    """GIVEN skipping, which no leaf has, THEN its pairs are the layers', and the others the leaves'."""
    leaf = {"energy_mj": np.arange(12.0), "zero:kl": np.arange(12.0), "skip:kl": NAN}
    layers = {"energy_mj": np.arange(9.0), "zero:kl": np.arange(9.0), "skip:kl": -np.arange(9.0)}
    result = correlation_matrix(leaf, layers, 1)
    assert result["n"] == [[12, 12, 9], [12, 12, 9], [9, 9, 9]]
    assert result["value"][2][0] == -1.0

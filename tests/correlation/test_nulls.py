from __future__ import annotations

import math

import numpy as np
import pytest

from energyscope.correlation.predictors import null_models
from energyscope.correlation.resampling import axis
from energyscope.reasons import reason

RNG = np.random.default_rng(0)
SIZE = RNG.lognormal(size=40)


def exact(values: np.ndarray) -> object:
    return axis(values, values * 0.99, values * 1.01)


def test_a_count_that_makes_both_predicts_better() -> None:
    """GIVEN impact made of the parameters and energy that is noise, THEN parameters are named as better."""
    energy = exact(RNG.lognormal(size=40))
    impact, reverse = null_models({"parameters": SIZE}, energy, exact(SIZE**2))
    assert impact["target"] == "impact"
    assert impact["value"] == pytest.approx(1)
    assert impact["better"] == "parameters"
    assert impact["difference_ci_low"] is not None
    assert impact["difference_ci_low"] > 0
    assert reverse["target"] == "energy"


def test_energy_that_makes_impact_predicts_better() -> None:
    """GIVEN impact that falls as energy rises and a count that is noise, THEN energy is named all the same."""
    energy, impact = RNG.lognormal(size=(2, 40))
    (comparison, _) = null_models({"flops": SIZE}, exact(energy), exact(1 / energy))
    assert comparison["measured"] == pytest.approx(-1)
    assert comparison["better"] == "energy"
    assert impact.size == 40


def test_as_good_as_each_other_names_none() -> None:
    """GIVEN energy that is the count, THEN neither is shown to be better, and the difference is about 0."""
    impact = exact(SIZE + RNG.lognormal(size=40))
    (comparison, _) = null_models({"bytes": SIZE}, exact(SIZE), impact)
    assert comparison["better"] is None
    assert comparison["difference"] == pytest.approx(0, abs=1e-12)


def test_unknown_counts_are_left_out() -> None:
    """GIVEN a column that is empty and one known for nine points, THEN one says why not, the other has nine."""
    some = np.full(40, math.nan)
    few = some.copy()
    few[:9] = SIZE[:9]
    comparisons = null_models({"flops": some, "bytes": few}, exact(SIZE), exact(SIZE[::-1].copy()))
    assert (comparisons[0]["value"], comparisons[0]["reason"]) == (
        None,
        reason("too-few-points", points=0, needed=8),
    )
    assert comparisons[2]["n"] == 9
    assert comparisons[2]["value"] is not None


def test_kinds_that_differ_by_chance_give_no_verdict() -> None:
    """GIVEN five kinds of eight layers whose energy, impact and parameters are unrelated, THEN the better one is
    seldom named; where points are taken as independent it often is.
    """
    rng = np.random.default_rng(0)
    kinds = [f"kind{number}" for number in np.repeat(np.arange(5), 8)]
    named, naive = 0, 0
    for seed in range(20):
        parameters, heat, effect = (
            np.repeat(rng.lognormal(size=5), 8) * rng.lognormal(sigma=0.1, size=40) for _ in range(3)
        )
        values = {"parameters": parameters}, axis(heat), axis(effect), seed
        named += null_models(*values, kinds)[0]["better"] is not None
        naive += null_models(*values)[0]["better"] is not None
    assert named <= 3
    assert naive > named

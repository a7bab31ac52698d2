from __future__ import annotations

import math

import numpy as np
import pytest

from energyscope.correlation.association import associate
from energyscope.correlation.resampling import UncertainValues, axis
from energyscope.correlation.within import (
    adjusted,
    adjusted_ranks,
    chi_squared_tail,
    differences,
    holm,
    within_kinds,
)
from energyscope.reasons import reason


def measured(values: list[float] | np.ndarray, half_width: float) -> UncertainValues:
    centre = np.asarray(values, float)
    return axis(centre, centre - half_width, centre + half_width)


def simpson() -> tuple[list[str], UncertainValues, UncertainValues]:
    """Three kinds of eight layers each: impact rises from kind to kind and falls with energy within each."""
    kinds, energy, impact = [], [], []
    for place, kind in enumerate(("norm", "attention", "mlp")):
        for layer in range(8):
            kinds.append(kind)
            energy.append(10.0 * place + layer)
            impact.append(10.0 * place - layer)
    return kinds, measured(energy, 0.2), measured(impact, 0.2)


def test_simpsons_paradox_is_seen() -> None:
    """GIVEN kinds that rise together and fall within, THEN pooled and within-kind signs differ."""
    kinds, energy, impact = simpson()
    pooled = associate(energy, impact, "spearman").value
    inside = adjusted(kinds, energy, impact, "spearman")
    assert pooled is not None
    assert pooled > 0.7
    assert inside.value is not None
    assert inside.value < -0.9
    assert inside.ci_high is not None
    assert inside.ci_high < 0
    assert inside.p_value is not None
    assert inside.p_value < 0.01
    for entry in within_kinds(kinds, energy, impact):
        (spearman,) = [correlation for correlation in entry["correlations"] if correlation["method"] == "spearman"]
        assert spearman["value"] < 0, entry["kind"]
    assert adjusted_ranks(kinds, energy, impact, ("energy", "impact")) == (pytest.approx(inside.value), None)


def test_layers_that_differ_only_by_noise_are_not_tested() -> None:
    """GIVEN energies within their errors, THEN the kind is not tested and the reason names Q and its p."""
    rng = np.random.default_rng(0)
    energy = measured(10 + 0.1 * rng.normal(size=8), 0.2)
    impact = measured(np.arange(8.0), 0.1)
    (entry,) = within_kinds(["mlp"] * 8, energy, impact)
    assert not entry["tested"]
    assert entry["correlations"] == []
    assert entry["reason"].code == "differences-within-error"
    assert entry["reason"].values["axis"] == "energy"
    assert entry["reason"].values["p_value"] == pytest.approx(entry["energy"]["p_value"], rel=1e-5)
    assert entry["energy"]["variance_ratio"] < 3
    assert entry["impact"]["differ"]


def test_noise_is_mistaken_for_difference_once_in_twenty() -> None:
    """GIVEN layers that are all alike, THEN Cochran's Q finds them different in about 5 % of the trials."""
    rng = np.random.default_rng(0)
    result = [differences(measured(rng.normal(size=6), 1.96)).differ for _ in range(1500)]
    assert 0.03 <= np.mean(result) <= 0.07


@pytest.mark.parametrize(
    ("value", "df", "tail"),
    [(3.841459, 1, 0.05), (5.991465, 2, 0.05), (7.814728, 3, 0.05), (16.81189, 6, 0.01), (24.32189, 11, 0.01144)],
)
def test_tail_of_chi_squared(value: float, df: int, tail: float) -> None:
    """GIVEN quantiles from a table, THEN the tail is the table's."""
    assert chi_squared_tail(value, df) == pytest.approx(tail, rel=2e-3)


def test_tail_of_chi_squared_at_the_ends() -> None:
    """GIVEN nothing, THEN the tail is 1; far out it vanishes without overflow."""
    assert chi_squared_tail(0.0, 4) == 1.0
    assert 0 <= chi_squared_tail(1e5, 299) < 1e-300


def test_holm_by_hand() -> None:
    """GIVEN four p-values, THEN each is multiplied by those left, never below one before it, and at most 1."""
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.6, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_counts_the_kinds_tested_only() -> None:
    """GIVEN one kind tested and one that is noise, THEN the p-value of the one is not multiplied."""
    energy = measured([*np.arange(8.0), *np.full(8, 5.0)], 0.1)
    impact = measured([*np.arange(8.0), *np.arange(8.0)], 0.1)
    tested, noise = within_kinds(["mlp"] * 8 + ["norm"] * 8, energy, impact)
    assert [correlation["p_holm"] for correlation in tested["correlations"]] == [
        correlation["p_value"] for correlation in tested["correlations"]
    ]
    assert not noise["tested"]


def test_few_layers_are_not_tested() -> None:
    """GIVEN seven layers, THEN their kind is not tested, however much they differ; eight are."""
    for layers, tested in ((7, False), (8, True)):
        values = measured(np.arange(float(layers)), 0.1)
        (entry,) = within_kinds(["mlp"] * layers, values, values)
        assert entry["tested"] is tested
        assert entry["reason"] == (None if tested else reason("too-few-points", points=7, needed=8))


def test_unknown_intervals_are_no_differences() -> None:
    """GIVEN a layer without an interval, THEN whether layers differ is not known, and it is not tested."""
    values = axis([1.0, 2, 3, 4], [0.9, 1.9, math.nan, 3.9], [1.1, 2.1, 3.1, 4.1])
    result = differences(values)
    assert (result.q, result.p_value, result.differ) == (None, None, False)
    assert result.reason == "intervals-incomplete"


def test_kinds_of_one_component_have_no_part() -> None:
    """GIVEN kinds with one component each, THEN nothing lies within a kind."""
    result = adjusted(["a", "b", "c", "d"], measured([1, 2, 3, 4], 0.1), measured([1, 2, 3, 4], 0.1), "pearson")
    assert (result.value, result.n) == (None, 0)
    assert adjusted([], axis([]), axis([]), "pearson").value is None

from __future__ import annotations

import numpy as np
import pytest

from energyscope.correlation.association import associate
from energyscope.correlation.matrix import correlation_matrix
from energyscope.reasons import reason

NAN = np.full(12, np.nan)


def test_every_pair_has_a_coefficient_or_a_reason() -> None:
    """GIVEN columns with gaps, THEN each pair is that of the points both know; constants and gaps say why not."""
    rng = np.random.default_rng(0)
    energy, impact = rng.normal(size=(2, 12))
    gaps = np.where(np.arange(12) < 9, np.nan, impact)
    columns = {"energy_mj": energy, "flops": NAN, "power_w": np.ones(12), "zero:kl": impact, "int8:kl": gaps}
    found = correlation_matrix(columns, dict.fromkeys(columns, np.full(3, np.nan)), 3)
    names = found["columns"]
    assert names == ["energy_mj", "power_w", "zero:kl", "int8:kl"]
    assert found["energy_columns"] == ["energy_mj", "power_w"]
    assert found["left_out"] == {"flops": "no-value"}
    value, n = np.array(found["value"], float), np.array(found["n"])
    assert value[0, 2] == pytest.approx(associate(energy, impact, "spearman", permutations=0).value, abs=1e-4)
    assert (n[0, 2], n[0, 3]) == (12, 3)
    np.testing.assert_array_equal(value, value.T)
    assert found["reasons"]["power_w|energy_mj"] == reason("axis-constant", axis="power_w", points=12)
    assert found["reasons"]["int8:kl|energy_mj"] == reason("too-few-points", points=3, needed=8)
    unknown = {(one, other) for one in range(4) for other in range(one + 1) if np.isnan(value[one, other])}
    assert {f"{names[one]}|{names[other]}" for one, other in unknown} == set(found["reasons"])


def test_what_only_layers_have_is_compared_over_layers() -> None:
    """GIVEN skipping, which no leaf has, THEN its pairs are the layers', and the others the leaves'."""
    leaf = {"energy_mj": np.arange(12.0), "zero:kl": np.arange(12.0), "skip:kl": NAN}
    layers = {"energy_mj": np.arange(9.0), "zero:kl": np.arange(9.0), "skip:kl": -np.arange(9.0)}
    found = correlation_matrix(leaf, layers, 1)
    assert found["n"] == [[12, 12, 9], [12, 12, 9], [9, 9, 9]]
    assert found["value"][2][0] == -1.0

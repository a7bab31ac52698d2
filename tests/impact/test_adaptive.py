"""Ranks: which components can be told apart, and which cannot yet."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from energyscope.impact.adaptive import FEWEST_EXAMPLES, ranks, separated
from energyscope.impact.metrics import Floats


def impacts(means: list[float], examples: int = 128, seed: int = 0, *, noise: float = 1.0) -> Floats:
    """Components of these means on examples that differ in how hard they are, for all components alike."""
    rng = np.random.default_rng(seed)
    hardness = rng.exponential(1.0, (1, examples))
    return np.array(means)[:, None] * hardness + noise * 0.1 * rng.normal(size=(len(means), examples))


def test_rank_one_is_the_largest_mean() -> None:
    """GIVEN components far apart, THEN the ranks follow their means."""
    assert ranks(impacts([1.0, 5.0, 3.0])).tolist() == [3.0, 1.0, 2.0]


def test_ties_share_the_mean_of_their_ranks() -> None:
    """GIVEN components without any effect, THEN they tie."""
    values = np.vstack([np.zeros((3, 40)), np.ones((1, 40))])
    assert ranks(values).tolist() == [3.0, 3.0, 3.0, 1.0]


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 8), st.integers(2, 40), st.integers(0, 100))
def test_ranks_are_ranks(components: int, examples: int, seed: int) -> None:
    """Whatever the data, ranks are 1, 2, ..., and follow the components when these are shuffled."""
    values = np.random.default_rng(seed).exponential(1.0, (components, examples))
    rank = ranks(values)
    assert sorted(rank) == list(range(1, components + 1))
    shuffled = np.random.default_rng(seed).permutation(components)
    np.testing.assert_array_equal(ranks(values[shuffled]), rank[shuffled])


def test_missing_examples_are_left_out_of_both() -> None:
    """GIVEN a component that was only tried on hard examples, THEN it does not outrank others for that."""
    rng = np.random.default_rng(0)
    hardness = np.sort(rng.exponential(1.0, 100))
    values = np.vstack([2.0 * hardness, 1.0 * hardness, 3.0 * hardness])
    values[1, :80] = np.nan  # what is left of it has a larger mean than the first one's whole
    assert np.nanmean(values[1]) > np.nanmean(values[0])
    assert ranks(values).tolist() == [2.0, 3.0, 1.0]


def test_component_without_examples_has_no_place() -> None:
    """GIVEN an invalid component, THEN it counts in nobody else's rank, and is never settled."""
    values = impacts([3.0, 0.0, 1.0])
    values[1] = np.nan
    assert ranks(values)[[0, 2]].tolist() == [1.0, 2.0]
    assert separated(values).tolist() == [True, False, True]


def test_clear_components_are_separated_from_their_neighbours() -> None:
    """GIVEN one component far above two that are alike, THEN it alone is placed."""
    assert separated(impacts([9.0, 2.0, 2.0])).tolist() == [True, False, False]


def test_neighbours_are_compared_in_pairs() -> None:
    """GIVEN examples that differ far more than the components do, THEN pairing still tells these apart."""
    values = impacts([1.0, 1.1, 1.2], noise=0.1)
    spread = values.std(1).max() / np.sqrt(values.shape[1])
    assert np.ptp(values.mean(1)) < 4 * spread
    assert separated(values).all()


def test_few_examples_place_nobody() -> None:
    """GIVEN fewer than 30 examples that two components share, THEN nothing is settled, however clear it seems."""
    assert not separated(impacts([9.0, 1.0], FEWEST_EXAMPLES - 1)).any()
    values = impacts([9.0, 1.0], 2 * FEWEST_EXAMPLES - 2)
    values[0, : FEWEST_EXAMPLES - 1] = np.nan
    assert not separated(values).any()
    assert separated(impacts([9.0, 1.0], FEWEST_EXAMPLES)).all()


def test_looking_often_asks_for_more() -> None:
    """GIVEN a difference that one look just settles, THEN the same data do not settle it for one of many looks."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=200)
    noise -= noise.mean()
    values = np.vstack([np.zeros(200), noise + 2.2 * noise.std() / np.sqrt(200)])
    assert separated(values).all()
    assert not separated(values, looks=20).any()


def test_three_looks_at_equal_components_rarely_settle() -> None:
    """GIVEN two truly equal components, THEN three looks settle them in about 5 % of cases."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        values = rng.exponential(1.0, (1, 256)) + rng.normal(size=(2, 256))
        wrong += any(separated(values[:, :count], looks=3).any() for count in (64, 128, 256))
    assert wrong / 200 <= 0.10


def test_one_component_needs_no_comparison() -> None:
    """GIVEN one component, or none, THEN there is nobody to be told from."""
    assert separated(impacts([1.0])).tolist() == [True]
    assert separated(np.zeros((0, 50))).tolist() == []


def test_same_seed_gives_the_same_answer() -> None:
    """The seed decides the resamples."""
    values = impacts([1.0, 1.02, 1.04, 1.06], 60)
    np.testing.assert_array_equal(separated(values, 5), separated(values, 5))

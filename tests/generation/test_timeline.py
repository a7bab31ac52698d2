"""Marks of generations, and how tick intervals overlap with their phases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyscope.generation.timeline import (
    FIRST_NODE,
    PREFILL,
    REST,
    GenerationTimes,
    decode_bins,
    node_weights,
    overlaps,
)

FIRST = GenerationTimes(1.0, (1.5, 1.75, 2.0), 2.25)
SECOND = GenerationTimes(3.0, (3.5, 3.75, 4.0), 4.25)


def test_phases_and_steps_fill_a_generation():
    """Prefill to the first token, steps to the end: what follows the last token belongs to the last step."""
    assert (FIRST.prefill_s, FIRST.decode_s, FIRST.token_s) == (0.5, 0.75, 0.25)
    assert list(FIRST.steps_s) == [0.25, 0.5]
    alone = GenerationTimes(0.0, (1.0,), 1.5)
    assert (alone.prefill_s, alone.decode_s, alone.token_s, list(alone.steps_s)) == (1.0, 0.0, None, [])


def test_overlaps_of_a_known_case():
    """Each interval's seconds go to the column of what ran then."""
    seconds = overlaps(np.array([0.0, 1.25, 2.0, 3.25, 5.0]), [FIRST, SECOND], np.eye(2))
    assert seconds.tolist() == [
        [1.0, 0.25, 0.0, 0.0],
        [0.0, 0.25, 0.25, 0.25],
        [0.75, 0.25, 0.0, 0.25],
        [0.75, 0.25, 0.25, 0.5],
    ]


@given(st.lists(st.floats(0, 6), min_size=2, max_size=20, unique=True), st.integers(1, 2))
def test_overlaps_add_up(times, nodes):
    """Whatever the ticks, each interval's columns add up to its length, and none is negative."""
    grid = np.sort(times)
    shares = (0.0, 1.0)[:nodes]
    seconds = overlaps(grid, [FIRST, SECOND], node_weights(2, shares))
    assert seconds.sum(axis=1) == pytest.approx(np.diff(grid))
    assert seconds.min() > -1e-9


def test_the_whole_time_is_shared_out():
    """Over all of the trace, the columns hold the seconds of the phases."""
    seconds = overlaps(np.linspace(0, 6, 61), [FIRST, SECOND], node_weights(2, (0.5,))).sum(axis=0)
    assert seconds[PREFILL] == pytest.approx(1.0)
    assert seconds[FIRST_NODE] == pytest.approx(1.5)
    assert seconds[REST] == pytest.approx(3.5)


@given(st.integers(0, 300), st.integers(1, 16))
def test_bins_hold_each_step_once(steps, most):
    """Bins follow one another from the first step to the last, and differ by one step in size at most."""
    bins = decode_bins(steps, most)
    assert [step for first, last in bins for step in range(first, last + 1)] == list(range(1, steps + 1))
    assert len(bins) == min(steps, most)
    sizes = {last - first + 1 for first, last in bins}
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_a_step_is_a_mix_of_the_nodes_beside_it():
    """Weights of a step add up to one; the first and the last step are the outer nodes' own."""
    weights = node_weights(9, (0.0, 0.5, 1.0))
    assert weights.sum(axis=1) == pytest.approx(np.ones(9))
    assert weights[0].tolist() == [1, 0, 0]
    assert weights[2].tolist() == [0.5, 0.5, 0]
    assert weights[-1].tolist() == [0, 0, 1]

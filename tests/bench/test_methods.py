"""The benchmark's claims on a real GPU, as ratios. Run with `pytest -m bench tests/bench`; takes some minutes."""

from __future__ import annotations

import methods
import polling
import pytest
from bench_tables import CLEAR, OURS

pytestmark = [pytest.mark.bench, pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(1200)]

COMPONENT = "llama-3.2-1b:128:mlp:cuda-graph"


def nothing(line):
    """Say nothing."""


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """The comparison on one component, by all methods that are installed."""
    out = str(tmp_path_factory.mktemp("methods"))
    return methods.compare(methods.arguments(["--out", out, "--components", COMPONENT, "--full", "1"]), nothing)


@pytest.fixture
def by_method(document):
    return {row["method"]: row for row in document["rows"]}


def test_ours_spreads_by_less_than_one_percent_and_less_than_clear(by_method):
    """Ten values of ours spread by at most 1 %, and CLEAR's trials by more than three times as much."""
    assert by_method[OURS]["cv"] <= 0.01
    assert by_method[CLEAR]["cv"] > 3 * by_method[OURS]["cv"]


def test_ours_agrees_with_the_long_window(by_method):
    """The mean of ours is within 1 % of the reference of 20 s."""
    assert abs(by_method[OURS]["distance"]) <= 0.01


def test_ours_is_many_times_faster(document):
    """CLEAR's protocol takes at least fifteen times as long as a window, three times as one with its interval.

    It takes as long as its calls do, so on larger components the ratios are larger.
    """
    assert document["speed_ups"][0]["clear_over_window"] >= 15
    assert document["speed_ups"][0]["clear_over_interval"] >= 3


def test_clears_spread_falls_with_n(document):
    """In CLEAR's own experiment, 10,000 calls spread less than 100."""
    by_calls = {row["calls"]: row["cv"] for row in document["sensitivity"]}
    assert by_calls[10_000] < by_calls[100]


def test_the_sampler_slows_kernels_by_at_most_one_percent(tmp_path):
    """With the meter on, calls take at most 1 % longer, in a CUDA graph and eager."""
    document = polling.measure(polling.arguments(["--out", str(tmp_path)]), nothing)
    assert [row for row in document["rows"] if row["low"] > 0.01 or row["change"] > 0.01] == []

"""Strided windows: each token is predicted once, from enough context."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from energyscope.workloads.evaluation import Example
from energyscope.workloads.tokenized import strided


def counted(example: Example) -> list[int]:
    """Return the tokens that the example predicts."""
    return list(example.tokens[max(1, example.counted_from) :])


def test_windows_overlap_by_half() -> None:
    """GIVEN ten tokens in windows of 4, 2 apart, THEN the first counts in full, the others their new half."""
    found = strided(range(10), 4, 2)
    assert [list(example.tokens) for example in found] == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]]
    assert [counted(example) for example in found] == [[1, 2, 3], [4, 5], [6, 7], [8, 9]]


def test_rest_is_a_shorter_window() -> None:
    """GIVEN tokens beyond the last full window, THEN they are predicted too, from a shorter one."""
    assert [counted(example) for example in strided(range(9), 4, 2)] == [[1, 2, 3], [4, 5], [6, 7], [8]]
    assert [counted(example) for example in strided(range(3), 4, 2)] == [[1, 2]]


@given(st.integers(0, 60), st.integers(1, 12), st.data())
def test_every_token_is_predicted_once(tokens: int, length: int, data: st.DataObject) -> None:
    """Each token but the first is predicted once, in order, from enough tokens before it."""
    stride = data.draw(st.integers(1, length))
    found = strided(range(tokens), length, stride)
    predicted = [token for example in found for token in counted(example)]
    without_context = set(range(0, tokens, stride)) if stride == length else {0}
    assert predicted == [token for token in range(tokens) if token not in without_context]
    assert sum(example.predictions for example in found) == len(predicted)
    for example in found:
        assert len(example.tokens) <= length
        first = counted(example)[0]
        assert first - example.tokens[0] >= min(first, length - stride)

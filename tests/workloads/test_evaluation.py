"""Evaluation: batches and digests of examples, and the strided windows that running text is cut into."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from energyscope.workloads import Evaluation
from energyscope.workloads.batches import batched, counted_targets, padded, source_order
from energyscope.workloads.evaluation import Example, halves, thinned
from energyscope.workloads.tokenized import strided_windows


def evaluation(examples: Sequence[Example], size: int, *, padding: int = 0, labelled: bool = True) -> Evaluation:
    groups = batched(examples, size)
    batches = tuple(padded([example.tokens for example in group], padding) for group in groups)
    counted = tuple(counted_targets(group, batch) for group, batch in zip(groups, batches, strict=True))
    labels = tuple(torch.tensor([example.label for example in group]) for group in groups) if labelled else None
    task = "classification" if labelled else "next-token"
    return Evaluation("test", task, batches, labels, len(examples), counted)


EXAMPLES = [Example([5, 6, 7], 0), Example([8], 1), Example([9, 10], 0), Example([5, 6, 7], 1, counted_from=1)]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 12))
def test_batches_hold_every_example_once(lengths: list[int], size: int) -> None:
    """Every example is in one batch, by length; none but by request or for lack of others is alone."""
    examples = [Example([index] * length) for index, length in enumerate(lengths)]
    groups = batched(examples, size)
    flat = [example for group in groups for example in group]
    assert sorted(example.tokens for example in flat) == sorted(example.tokens for example in examples)
    assert [len(example.tokens) for example in flat] == sorted(lengths)
    assert all(len(group) <= size + 1 for group in groups)
    assert size == 1 or len(examples) == 1 or all(len(group) > 1 for group in groups)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_digest_is_of_the_content(size: int) -> None:
    """GIVEN the same examples in other batches, padded otherwise, THEN the digest is the same."""
    assert evaluation(EXAMPLES, size, padding=99).digest == evaluation(EXAMPLES, 4).digest


@pytest.mark.parametrize(
    "other",
    [
        [Example([5, 6, 8], 0), *EXAMPLES[1:]],
        [Example([5, 6, 7], 1), *EXAMPLES[1:]],
        [Example([5, 6, 7], 0, counted_from=1), *EXAMPLES[1:]],
        [Example([8, 9], 1), Example([10], 0), EXAMPLES[0], EXAMPLES[3]],  # the same tokens, divided otherwise
        EXAMPLES[1:],
    ],
)
def test_digest_sees_every_change(other: list[Example]) -> None:
    """GIVEN another token, label, length or count, THEN the digest is another."""
    assert evaluation(other, 4).digest != evaluation(EXAMPLES, 4).digest
    assert evaluation(EXAMPLES, 4, labelled=False).digest != evaluation(EXAMPLES, 4).digest


def test_all_targets_count_unless_said() -> None:
    """GIVEN no mask of counted tokens, THEN the digest is that of a mask which counts all of them."""
    plain = [Example([5, 6, 7], 0), Example([8], 1)]
    full = evaluation(plain, 2)
    unsaid = Evaluation("other", "classification", full.batches, full.labels, 2, notes=("of no matter",))
    assert unsaid.digest == full.digest


def test_padding_and_context_do_not_count() -> None:
    """GIVEN a window of which two tokens are context, beside a shorter one, THEN only the rest counts."""
    group = [Example([1, 2, 3, 4], counted_from=2), Example([5, 6])]
    mask = counted_targets(group, padded([example.tokens for example in group], 0))
    assert mask.tolist() == [[False, False, True, True], [True, True, False, False]]


def test_order_names_each_example_of_the_batches() -> None:
    """GIVEN examples that know their index, THEN the order has it by length; a window's is its number."""
    examples = [Example([0] * length, index=index) for index, length in ((10, 3), (11, 1), (12, 2), (14, 1))]
    assert source_order(batched(examples, 2)) == (11, 14, 12, 10)
    assert source_order(batched([*examples, Example([0])], 2)) is None
    assert [window.index for window in strided_windows(range(10), 4, 3)] == [0, 1, 2]


# windows of running text


def counted(example: Example) -> list[int]:
    """Return the tokens that the example predicts."""
    return list(example.tokens[max(1, example.counted_from) :])


@pytest.mark.parametrize(
    ("sizes", "expected"), [((4, 4), (4, 4)), ((1, 1, 1), (2, 1)), ((3, 5), (4, 4)), ((1,), (1, 0))]
)
def test_halves_hold_every_example_once(sizes: tuple[int, ...], expected: tuple[int, int]) -> None:
    """GIVEN batches of even and odd sizes THEN each row is in one half, with its label."""
    ids = iter(range(100))
    batches = tuple({"input_ids": torch.tensor([[next(ids)] * 3 for _ in range(size)])} for size in sizes)
    labels = tuple(batch["input_ids"][:, 0] for batch in batches)
    whole = Evaluation("made up", "classification", batches, labels, sum(sizes), counted=labels)
    parts = halves(whole)
    assert tuple(part.examples for part in parts) == expected
    rows = [row for part in parts for batch in part.batches for row in batch["input_ids"][:, 0].tolist()]
    assert sorted(rows) == list(range(sum(sizes)))
    for part in parts:
        for batch, label, counted in zip(part.batches, part.labels or (), part.counted or (), strict=True):
            assert torch.equal(batch["input_ids"][:, 0], label)
            assert torch.equal(label, counted)


@pytest.mark.parametrize(("sizes", "most"), [((4, 4, 3), 5), ((1, 9), 3), ((2, 2), 9)])
def test_thinned_data_are_evenly_spaced(sizes: tuple[int, ...], most: int) -> None:
    """GIVEN more examples than asked for THEN that many, the first and the last among them, else all of them."""
    ids = iter(range(100))
    batches = tuple({"input_ids": torch.tensor([[next(ids)] * 3 for _ in range(size)])} for size in sizes)
    labels = tuple(batch["input_ids"][:, 0] for batch in batches)
    part = thinned(Evaluation("made up", "classification", batches, labels, sum(sizes)), most)
    rows = [row for batch in part.batches for row in batch["input_ids"][:, 0].tolist()]
    assert part.examples == len(rows) == min(most, sum(sizes))
    assert (rows[0], rows[-1]) == (0, sum(sizes) - 1)
    gaps = {after - before for before, after in itertools.pairwise(rows)}
    assert max(gaps) - min(gaps) <= 1
    assert [int(label) for labels in part.labels or () for label in labels] == rows


def test_windows_overlap_by_half() -> None:
    """GIVEN ten tokens in windows of 4, 2 apart, THEN the first counts in full, the others their new half."""
    windows = strided_windows(range(10), 4, 2)
    assert [list(example.tokens) for example in windows] == [
        [0, 1, 2, 3],
        [2, 3, 4, 5],
        [4, 5, 6, 7],
        [6, 7, 8, 9],
    ]
    assert [counted(example) for example in windows] == [[1, 2, 3], [4, 5], [6, 7], [8, 9]]


def test_rest_is_a_shorter_window() -> None:
    """GIVEN tokens beyond the last full window, THEN they are predicted too, from a shorter one."""
    assert [counted(example) for example in strided_windows(range(9), 4, 2)] == [[1, 2, 3], [4, 5], [6, 7], [8]]
    assert [counted(example) for example in strided_windows(range(3), 4, 2)] == [[1, 2]]


@given(st.integers(0, 60), st.integers(1, 12), st.data())
def test_every_token_is_predicted_once(tokens: int, length: int, data: st.DataObject) -> None:
    """Each token but the first is predicted once, in order, from enough tokens before it."""
    stride = data.draw(st.integers(1, length))
    windows = strided_windows(range(tokens), length, stride)
    predicted = [token for example in windows for token in counted(example)]
    without_context = set(range(0, tokens, stride)) if stride == length else {0}
    assert predicted == [token for token in range(tokens) if token not in without_context]
    assert sum(example.predictions for example in windows) == len(predicted)
    for example in windows:
        assert len(example.tokens) <= length
        first = counted(example)[0]
        assert first - example.tokens[0] >= min(first, length - stride)

"""Batches to be timed: different tokens, one shape, the first as it is profiled."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from energyscope.errors import UsageError
from energyscope.loading import LoadedModel
from energyscope.workloads import Evaluation, Workload, benchmark_inputs, load_evaluation, profile_inputs

WORDS = "the cat dog sees likes not good bad very and is was old new red blue house tree".split()  # noqa: SIM905


def rows(workloads: tuple[Workload, ...]) -> list[list[int]]:
    return [workload.inputs["input_ids"].flatten().tolist() for workload in workloads]


def stream_of(evaluation: Evaluation) -> list[int]:
    masks = evaluation.counted or [batch["attention_mask"].bool() for batch in evaluation.batches]
    pairs = zip(evaluation.batches, masks, strict=True)
    return [int(token) for batch, mask in pairs for token in batch["input_ids"][mask]]


@pytest.fixture(scope="module")
def evaluation(decoder: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    path: Path = tmp_path_factory.mktemp("data") / "book.txt"
    path.write_text("\n".join(" ".join(WORDS[start:] + WORDS[:start]) for start in range(10)))
    return load_evaluation(decoder, data=str(path), sequence_length=16)


@given(size=st.integers(1, 9), length=st.integers(1, 32), count=st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_batches_follow_each_other_in_the_data(
    decoder: LoadedModel, evaluation: Evaluation, size: int, length: int, count: int
) -> None:
    """Each batch has the next tokens of the data; there are as many as asked for and as the data fill."""
    workloads = benchmark_inputs(
        decoder, batch_size=size, sequence_length=length, evaluation=evaluation, count=count
    )
    stream, tokens = stream_of(evaluation), [token for row in rows(workloads) for token in row]
    whole = len(stream) // (size * length)
    assert len(workloads) == max(1, min(count, whole))
    assert tokens == (stream * 3)[: len(workloads) * size * length]
    assert {(each.batch_size, each.sequence_length, each.tokens) for each in workloads} == {(size, length, "data")}


@pytest.mark.parametrize("with_data", [True, False])
@pytest.mark.parametrize(("size", "length"), [(1, None), (3, 7), (16, 32)])
def test_the_first_batch_is_the_profiled_one(
    decoder: LoadedModel, evaluation: Evaluation, with_data: bool, size: int, length: int | None
) -> None:
    """What is benchmarked and what is profiled begins with the same tokens."""
    data = evaluation if with_data else None
    first, *_ = benchmark_inputs(decoder, batch_size=size, sequence_length=length, evaluation=data, seed=3)
    profiled = profile_inputs(decoder, batch_size=size, sequence_length=length, evaluation=data, seed=3)
    assert first.tokens == profiled.tokens
    assert all(torch.equal(first.inputs[key], profiled.inputs[key]) for key in profiled.inputs)


def test_random_batches_differ_and_can_be_repeated(decoder: LoadedModel) -> None:
    """WITHOUT data THEN as many batches as asked for, all different, the same for the same seed."""
    first, again, other = (
        rows(benchmark_inputs(decoder, batch_size=2, sequence_length=16, seed=seed)) for seed in (0, 0, 1)
    )
    assert first == again
    assert len(first) == len({tuple(row) for row in first}) == 8
    assert first[0] != other[0]


def test_the_model_takes_every_batch(decoder: LoadedModel) -> None:
    """The inputs go into the model as they are: no position is masked, and all lie on its device."""
    for workload in benchmark_inputs(decoder, batch_size=2, sequence_length=5, count=3):
        assert all(tensor.device == decoder.device for tensor in workload.inputs.values())
        assert bool((workload.inputs["attention_mask"] == 1).all())
        with torch.inference_mode():
            assert decoder.model(**workload.inputs).logits.shape[:2] == (2, 5)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"batch_size": 0}, "batch size of 0"),
        ({"batch_size": 1, "sequence_length": 33}, "32 positions at most"),
        ({"batch_size": 1, "count": 0}, "0 batches are too few"),
    ],
)
def test_what_cannot_be_is_refused(decoder: LoadedModel, options: dict[str, int], complaint: str) -> None:
    """WHEN a size is beyond the model or not positive THEN it is bad usage."""
    with pytest.raises(UsageError, match=complaint):
        benchmark_inputs(decoder, **options)

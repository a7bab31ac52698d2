"""Batches of tasks beyond the next token: masked tokens, a decoder's targets, and what is timed of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from task_models import TASKS, task_model
from tiny_models import SPECIAL, save_tokenizer

from energyscope.adapters import Task
from energyscope.errors import DataError, UsageError
from energyscope.tasks import padding_masks
from energyscope.workloads import load_evaluation, profile_inputs
from energyscope.workloads.batches import MASKED_SHARE
from energyscope.workloads.inputs import synthetic_evaluation

TEXTS = [
    "the cat sees a dog .",
    "good",
    "the old dog was very bad .",
    "the cat likes the red house and the tree .",
]
ANSWERS = ["a dog sees the cat .", "bad dog", "good", "the red house and the tree likes a cat ."]
MASK, START = SPECIAL.index("[UNK]"), 0


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder, wrapped=True)
    words = AutoTokenizer.from_pretrained(folder)
    words.mask_token = SPECIAL[MASK]
    return words


def pairs(path: Path, answers: list[Any]) -> str:
    lines = [json.dumps({"text": text, "label": label}) for text, label in zip(TEXTS, answers, strict=True)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_masked_tokens_are_the_targets(tokenizer: Any, tmp_path: Path) -> None:
    """GIVEN texts, THEN a share of each one's words is masked, these count, and what was there is their target."""
    evaluation = load_evaluation(task_model("masked-token", tokenizer), data=pairs(tmp_path / "a.jsonl", ANSWERS))
    assert evaluation.labels is not None
    assert evaluation.counted is not None
    (batch,), (targets,), (counted,) = evaluation.batches, evaluation.labels, evaluation.counted
    assert torch.equal(batch["input_ids"] != targets, counted)
    assert (batch["input_ids"][counted] == MASK).all()
    words = (targets >= len(SPECIAL)).sum(1)
    assert counted.sum(1).tolist() == [max(1, round(MASKED_SHARE * int(count))) for count in words]
    assert not counted[~batch["attention_mask"].bool()].any()


@pytest.mark.parametrize("size", [2, 3])
def test_the_same_tokens_are_masked_in_any_batch(tokenizer: Any, tmp_path: Path, size: int) -> None:
    """GIVEN other batches, THEN the digest stays: an example's masks depend on its own tokens alone."""
    loaded, data = task_model("masked-token", tokenizer), pairs(tmp_path / "a.jsonl", ANSWERS)
    assert load_evaluation(loaded, data=data, batch_size=size).digest == load_evaluation(loaded, data=data).digest


def test_a_decoder_reads_its_targets_one_place_later(tokenizer: Any, tmp_path: Path) -> None:
    """GIVEN texts and answers, THEN the decoder reads a start and the answer, and is to write the answer."""
    loaded = task_model("sequence-to-sequence", tokenizer)
    evaluation = load_evaluation(loaded, data=pairs(tmp_path / "a.jsonl", ANSWERS))
    assert evaluation.labels is not None
    assert evaluation.counted is not None
    (batch,), (targets,), (counted,) = evaluation.batches, evaluation.labels, evaluation.counted
    assert batch["decoder_input_ids"][:, 0].tolist() == [START] * 4
    assert torch.equal(batch["decoder_input_ids"][:, 1:], targets[:, :-1])
    written = [row[mask].tolist() for row, mask in zip(targets, counted, strict=True)]
    assert sorted(written) == sorted(tokenizer(ANSWERS)["input_ids"])


def test_encoder_and_decoder_have_lengths_of_their_own(tokenizer: Any, tmp_path: Path) -> None:
    """GIVEN answers as long as the texts, THEN lengths still differ: a tensor's shape tells its padding."""
    loaded = task_model("sequence-to-sequence", tokenizer)
    (batch,) = load_evaluation(loaded, data=pairs(tmp_path / "a.jsonl", TEXTS)).batches
    first, second = padding_masks(batch)
    assert first.shape[1] != second.shape[1]
    assert torch.equal(first.sum(1), second.sum(1))


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [([*ANSWERS[:3], 1], "row 4, has no target text in column 'label'"), ([*ANSWERS[:3], " "], "no target text")],
)
def test_a_missing_answer_is_named(tokenizer: Any, tmp_path: Path, answers: list[Any], complaint: str) -> None:
    """GIVEN a row without an answer in words, THEN the message says which."""
    with pytest.raises(DataError, match=complaint.replace("row", "line")):
        load_evaluation(task_model("sequence-to-sequence", tokenizer), data=pairs(tmp_path / "a.jsonl", answers))


def test_a_missing_column_of_answers_is_named(tokenizer: Any, tmp_path: Path) -> None:
    """GIVEN no such column, THEN the message names those that there are."""
    with pytest.raises(UsageError, match=r"no column 'answer'.*--label-column"):
        load_evaluation(
            task_model("sequence-to-sequence", tokenizer),
            data=pairs(tmp_path / "a.jsonl", ANSWERS),
            label_column="answer",
        )


def test_an_image_model_takes_no_texts(tokenizer: Any, tmp_path: Path) -> None:
    """GIVEN texts for a model that sees, THEN it says so."""
    with pytest.raises(DataError, match="reads no text"):
        load_evaluation(task_model("image-classification", tokenizer), data=pairs(tmp_path / "a.jsonl", ANSWERS))


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_inputs_without_data(task: Task) -> None:
    """GIVEN random weights and no data, THEN there are inputs that the model takes, the same for one seed."""
    loaded = task_model(task)
    first, again, other = (profile_inputs(loaded, batch_size=2, seed=seed).inputs for seed in (0, 0, 1))
    with torch.no_grad():
        assert loaded.model(**first) is not None
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert synthetic_evaluation(loaded, examples=4).examples == 4


def test_what_is_timed_of_data_is_the_data(tokenizer: Any, tmp_path: Path) -> None:
    """GIVEN pairs of texts, THEN encoder and decoder are timed on their tokens."""
    loaded = task_model("sequence-to-sequence", tokenizer)
    evaluation = load_evaluation(loaded, data=pairs(tmp_path / "a.jsonl", ANSWERS))
    inputs = profile_inputs(loaded, batch_size=1, sequence_length=3, evaluation=evaluation).inputs
    (batch,) = evaluation.batches
    assert inputs["input_ids"][0].tolist() == batch["input_ids"][0][:3].tolist()
    assert inputs["decoder_input_ids"][0].tolist() == batch["decoder_input_ids"][0][:3].tolist()

"""Given tensors as data: what is fed is what the file holds, and what does not fit is refused in a line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from task_models import task_model
from tiny_models import VOCABULARY

from energyscope.adapters import Task
from energyscope.errors import EnergyscopeError, UsageError
from energyscope.impact.predictions import Reference
from energyscope.loading import LoadedModel
from energyscope.workloads import load_evaluation, profile_inputs

IDS = torch.arange(12).reshape(3, 4) % VOCABULARY


def written(folder: Path, **tensors: torch.Tensor) -> str:
    path = folder / "given.safetensors"
    save_file({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, path)
    return str(path)


def trained(task: Task) -> LoadedModel:
    return replace(task_model(task), weights="pretrained")


def test_the_model_is_fed_the_file(tmp_path: Path) -> None:
    """GIVEN images with classes, THEN these are judged and timed, and a digest tells other ones apart."""
    loaded, images = trained("image-classification"), torch.randn(3, 3, 16, 16)
    labels = torch.tensor([0, 2, 1])
    evaluation = load_evaluation(loaded, data=written(tmp_path, pixel_values=images, labels=labels), batch_size=2)
    assert [len(batch["pixel_values"]) for batch in evaluation.batches] == [3]  # none is left alone
    assert Reference(loaded.model, evaluation).baseline()["examples"] == 3
    timed = profile_inputs(loaded, batch_size=2, evaluation=evaluation)
    assert torch.equal(timed.inputs["pixel_values"], images[:2])
    other = load_evaluation(loaded, data=written(tmp_path, pixel_values=images + 1, labels=labels), batch_size=2)
    assert other.digest != evaluation.digest
    again = load_evaluation(loaded, data=written(tmp_path, pixel_values=images, labels=labels), batch_size=3)
    assert again.digest == evaluation.digest


def test_ignored_targets_do_not_count(tmp_path: Path) -> None:
    """GIVEN labels of -100 at some tokens, THEN only the others are predicted."""
    labels = IDS.clone()
    labels[:, 1:] = -100
    evaluation = load_evaluation(trained("masked-token"), data=written(tmp_path, input_ids=IDS, labels=labels))
    outcomes = Reference(trained("masked-token").model, evaluation).outcomes
    assert outcomes.predictions.tolist() == [1, 1, 1]


def test_random_weights_are_fed_but_not_judged(tmp_path: Path) -> None:
    """GIVEN random weights, THEN labels mean nothing, and outputs are compared only."""
    data = written(tmp_path, pixel_values=torch.randn(2, 3, 16, 16), labels=torch.tensor([0, 1]))
    assert load_evaluation(task_model("image-classification"), data=data).labels is None


@pytest.mark.parametrize(
    ("task", "tensors", "words"),
    [
        ("masked-token", {"ids": IDS}, "has no tensor 'input_ids'"),
        ("masked-token", {"input_ids": IDS, "pixels": IDS}, "does not take"),
        (
            "masked-token",
            {"input_ids": IDS, "labels": IDS[:, :2]},
            r"labels must be whole numbers \(3, 4\)",
        ),
        ("masked-token", {"input_ids": IDS, "labels": IDS * 0.5}, "labels must be whole numbers"),
        ("masked-token", {"input_ids": IDS, "labels": IDS[:2]}, r"as many examples.*labels \(2, 4\)"),
        ("masked-token", {"input_ids": IDS + VOCABULARY}, "holds ids outside"),
        ("masked-token", {"input_ids": torch.zeros(1, 99, dtype=torch.long)}, "99 tokens"),
        ("masked-token", {"input_ids": torch.zeros(3, dtype=torch.long)}, r"must be whole numbers \(N, S\)"),
        (
            "image-classification",
            {"pixel_values": torch.randn(2, 3, 16, 16), "labels": IDS[:2]},
            r"numbers \(2,\)",
        ),
        (
            "sequence-to-sequence",
            {"input_ids": IDS, "decoder_input_ids": IDS.clone(), "attention_mask": (IDS > 1).long()},
            "make one of them longer",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, task: Task, tensors: dict[str, Any], words: str) -> None:
    """GIVEN tensors of wrong names, shapes, types or values, THEN one line says which."""
    with pytest.raises(EnergyscopeError, match=words):
        load_evaluation(trained(task), data=written(tmp_path, **tensors))


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    """GIVEN a file that holds no tensors, THEN it is named."""
    path = tmp_path / "broken.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(EnergyscopeError, match=r"broken.safetensors cannot be read"):
        load_evaluation(trained("masked-token"), data=str(path))


def test_options_of_texts_are_refused(tmp_path: Path) -> None:
    """GIVEN tensors, THEN a column, a stride or another length is no option for them."""
    loaded, data = trained("masked-token"), written(tmp_path, input_ids=IDS)
    with pytest.raises(UsageError, match="leave out --stride"):
        load_evaluation(loaded, data=data, stride=2)
    with pytest.raises(UsageError, match="--sequence-length 3 is not what"):
        profile_inputs(loaded, sequence_length=3, evaluation=load_evaluation(loaded, data=data))

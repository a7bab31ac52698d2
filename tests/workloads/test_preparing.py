"""Preparing: a model's data tokenized without its weights, in one of three sizes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import dataset_fixtures as made
import pytest
import torch
from tiny_models import WORDS, save_model

from energyscope.errors import DataError, UsageError
from energyscope.loading import load_model
from energyscope.loading.model import load_skeleton
from energyscope.reasons import reason
from energyscope.workloads import load_evaluation
from energyscope.workloads.preparing import prepare


@pytest.mark.parametrize(("size", "most"), [("small", 50), ("standard", 500), ("large", None)])
def test_sizes_are_as_the_examples_of_the_data(tmp_path: Path, size: str, most: int | None) -> None:
    """GIVEN a bundled model THEN a set holds 50, 500 or all of its examples, as they are without it."""
    done = prepare("tiny-distilbert", tmp_path / "set", size=size)
    loaded = load_model("tiny-distilbert", device="cpu")
    direct = load_evaluation(loaded, max_examples=most)
    reread = load_evaluation(loaded, data=str(tmp_path / "set"))
    assert done.digest == direct.digest == reread.digest
    assert done.examples == direct.examples == reread.examples
    assert (done.source, done.task, done.size) == ("bundled:tiny-distilbert", "classification", size)
    assert done.tokens == sum(int(batch["attention_mask"].sum()) for batch in direct.batches)
    assert done.bytes_on_disk == sum(path.stat().st_size for path in (tmp_path / "set").iterdir())


def test_no_weights_are_read(tmp_path: Path) -> None:
    """GIVEN a model's folder without its weights THEN its data can be prepared all the same."""
    folder = save_model(tmp_path / "model", "gpt2")
    (folder / "model.safetensors").unlink()
    data = tmp_path / "book.txt"
    data.write_text(" ".join(WORDS))
    done = prepare(str(folder), tmp_path / "set", data=str(data), sequence_length=8, stride=2, size="large")
    assert (done.sequence_length, done.stride, done.task) == (8, 2, "next-token")
    assert next(load_skeleton(str(folder), torch.device("cpu"), tokenizer=True).model.parameters()).is_meta


def test_fewer_examples_than_the_size_are_said(tmp_path: Path) -> None:
    """GIVEN data of fewer examples THEN all are in the set, and a note says so, which is not kept."""
    folder = save_model(tmp_path / "model", "distilbert")
    done = prepare(
        str(folder), tmp_path / "set", size="small", data=str(made.repository(tmp_path / "a", made.SST2))
    )
    assert done.examples == 4
    assert done.notes == (reason("fewer-examples", size="small", wanted=50, found=4),)
    assert json.loads((tmp_path / "set" / "prepared.json").read_text())["notes"] == []


def test_a_place_is_refused_before_the_model_is_looked_for(tmp_path: Path) -> None:
    """WHEN the size is unknown or the folder exists THEN that is said, whatever the model is."""
    with pytest.raises(UsageError, match=r"--size 'tiny' is not known \(known: large, small, standard\)"):
        prepare("no-such-model", tmp_path / "set", size="tiny")
    with pytest.raises(UsageError, match="exists: choose another --output"):
        prepare("no-such-model", tmp_path)
    with pytest.raises(UsageError, match="no model is called 'no-such-model'"):
        prepare("no-such-model", tmp_path / "set")


def test_a_model_without_tokenizer_prepares_nothing(tmp_path: Path) -> None:
    """GIVEN a folder without tokenizer THEN one line says so, and no set is left."""
    folder = save_model(tmp_path / "model", "gpt2", tokenizer=False)
    with pytest.raises(DataError, match="has no tokenizer"):
        prepare(str(folder), tmp_path / "set", data=__file__)
    assert not (tmp_path / "set").exists()


def test_a_set_can_be_prepared_from_a_prepared_one(tmp_path: Path) -> None:
    """GIVEN a large set WHEN a small one is made of it THEN it is the small one of the data."""
    prepare("tiny-gpt2", tmp_path / "large", size="large")
    made_of_it = prepare("tiny-gpt2", tmp_path / "small", size="small", data=str(tmp_path / "large"))
    shutil.rmtree(tmp_path / "large")
    direct = load_evaluation(replace(load_model("tiny-gpt2", device="cpu")), max_examples=50)
    assert made_of_it.digest == direct.digest
    assert made_of_it.source == direct.source


@pytest.mark.parametrize(
    ("options", "complaint"),
    [({"stride": 3}, "--stride is for running text"), ({"text_column": "review"}, "without columns")],
)
def test_options_that_a_set_cannot_follow_are_refused(tmp_path: Path, options: dict, complaint: str) -> None:
    """GIVEN a set of single texts THEN a stride or a column is refused, and not ignored."""
    prepare("tiny-distilbert", tmp_path / "set", size="small")
    with pytest.raises(UsageError, match=complaint):
        load_evaluation(load_model("tiny-distilbert", device="cpu"), data=str(tmp_path / "set"), **options)

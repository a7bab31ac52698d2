"""Prepared sets: what is read again is what was tokenized, or one line says why it is not read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dataset_fixtures as made
import pytest
import torch
from tiny_models import WORDS, save_model

from energyscope.errors import DataError, EnergyscopeError, UsageError
from energyscope.loading import LoadedModel, load_model
from energyscope.reasons import reason
from energyscope.workloads import Evaluation, load_evaluation, save_prepared
from energyscope.workloads.prepared import DOCUMENT, TENSORS, is_prepared

SENTENCES = [" ".join(WORDS[start : start + 1 + start % 7]) for start in range(20)]


def rows(path: Path) -> str:
    lines = [json.dumps({"text": text, "label": number % 2}) for number, text in enumerate(SENTENCES)]
    path.write_text("\n".join(lines))
    return str(path)


def book(path: Path) -> str:
    path.write_text("\n".join(SENTENCES))
    return str(path)


def assert_same(first: Evaluation, second: Evaluation) -> None:
    """Every tensor of the two is the same, in the same batches."""
    tensors = [(each.batches, each.labels or (), each.counted or ()) for each in (first, second)]
    torch.testing.assert_close(*tensors, rtol=0, atol=0)


@pytest.fixture
def prepared(decoder: LoadedModel, tmp_path: Path) -> Path:
    evaluation = load_evaluation(decoder, data=rows(tmp_path / "rows.jsonl"))
    return save_prepared(decoder, evaluation, tmp_path / "set", size="large")


@pytest.mark.parametrize("data", [rows, book])
@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("most", [None, 7])
def test_what_is_read_is_what_was_saved(
    decoder: LoadedModel,
    tmp_path: Path,
    data: Callable[[Path], str],
    batch_size: int | None,
    most: int | None,
) -> None:
    """GIVEN texts apart or running text, all or some, THEN tokens, batches, digest and order are as before."""
    path = data(tmp_path / ("data.jsonl" if data is rows else "data.txt"))
    options: dict[str, Any] = {"max_examples": most, "batch_size": batch_size}
    direct = load_evaluation(decoder, data=path, sequence_length=8, **options)
    everything = load_evaluation(decoder, data=path, sequence_length=8)
    folder = save_prepared(decoder, everything, tmp_path / "set")
    reread = load_evaluation(decoder, data=str(folder), **options)
    assert_same(reread, direct)
    assert (reread.digest, reread.order) == (direct.digest, direct.order)
    assert (reread.source, reread.examples, reread.sequence_length) == (direct.source, direct.examples, 8)
    assert reread.stride == direct.stride == (None if data is rows else 4)
    assert reread.notes == (*direct.notes, reason("prepared-set", folder=folder, model=decoder.name))


def test_labels_are_kept(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN a classifier THEN each example has its label, and a few of them are those taken from the texts."""
    data = str(made.repository(tmp_path / "sst2", made.SST2))
    direct = load_evaluation(classifier, data=data)
    folder = save_prepared(classifier, direct, tmp_path / "set")
    reread = load_evaluation(classifier, data=str(folder))
    assert_same(reread, direct)
    assert reread.digest == direct.digest
    some = load_evaluation(classifier, data=str(folder), max_examples=2)
    assert some.digest == load_evaluation(classifier, data=data, max_examples=2).digest


def test_data_without_order_are_kept_as_they_are(decoder: LoadedModel, tmp_path: Path) -> None:
    """GIVEN evaluation data that were made by hand THEN they are saved too, and their order stays unknown."""
    ids = torch.tensor([[5, 6, 0], [7, 8, 9]])
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    evaluation = Evaluation("by hand", "next-token", (batch,), None, 2)
    reread = load_evaluation(decoder, data=str(save_prepared(decoder, evaluation, tmp_path / "set")))
    assert reread.digest == evaluation.digest
    assert (reread.order, reread.sequence_length, reread.counted) == (None, None, None)


def test_no_tokenizer_is_needed(decoder: LoadedModel, prepared: Path) -> None:
    """GIVEN a model without a tokenizer THEN the set is read, and a note says what could not be compared."""
    bare = replace(decoder, tokenizer=None, tokenizer_reason=reason("no-model-files"))
    reread = load_evaluation(bare, data=str(prepared))
    assert reread.digest == load_evaluation(decoder, data=str(prepared)).digest
    assert reread.notes[-1] == reason("tokens-not-checked", model=bare.name, why="no-model-files")
    with pytest.raises(DataError, match=r"has no tokenizer \(random weights"):
        save_prepared(bare, reread, prepared.parent / "other")


def refused(loaded: LoadedModel, folder: Path, **options: Any) -> EnergyscopeError:
    with pytest.raises(EnergyscopeError) as error:
        load_evaluation(loaded, data=str(folder), **options)
    assert "\n" not in str(error.value)
    return error.value


def test_a_model_of_another_kind_is_refused(decoder: LoadedModel, classifier: LoadedModel, prepared: Path) -> None:
    """WHEN the task, the tokenizer or the vocabulary is another THEN the set does not belong to the model."""
    other_task = refused(classifier, prepared)
    assert "was prepared for next-token, and" in str(other_task)
    assert "energyscope prepare" in str(other_task)
    stranger = replace(decoder, tokenizer=classifier.tokenizer)
    assert "with the tokenizer of decoder, not decoder's" in str(refused(stranger, prepared))


def test_a_smaller_model_is_refused(decoder: LoadedModel, prepared: Path, tmp_path: Path) -> None:
    """WHEN the model has fewer tokens, or fewer positions, than the set needs THEN it is refused."""
    small = load_model(str(save_model(tmp_path / "small", "gpt2", tokenizer=False, vocab_size=20)), device="cpu")
    assert "for a vocabulary of 25 tokens, and small has 20" in str(refused(small, prepared))
    as_large = replace(small, tokenizer=decoder.tokenizer)
    assert "holds the token 24, and small has 20" in str(refused(as_large, prepared))
    short = load_model(str(save_model(tmp_path / "short", "gpt2", n_positions=4)), device="cpu")
    error = refused(short, prepared)
    assert "holds 7 tokens in a row, and short has 4 positions" in str(error)
    assert error.exit_code == 2


@pytest.mark.parametrize(
    ("names", "fits"),
    [
        (["negative", "positive"], True),
        (["LABEL_0", "LABEL_1"], True),
        (["POSITIVE", "NEGATIVE"], False),
        (["bad", "fair", "good"], False),
    ],
)
def test_classes_must_agree(classifier: LoadedModel, tmp_path: Path, names: list[str], fits: bool) -> None:
    """GIVEN a model of other classes THEN it is refused where their number or their order differs."""
    data = made.json_lines(tmp_path / "rows", {"validation": made.SST2["validation"]})
    evaluation = load_evaluation(classifier, data=str(data))
    folder = save_prepared(classifier, evaluation, tmp_path / "set")
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}
    other = load_model(str(save_model(tmp_path / "other", "distilbert", **labels)), device="cpu")
    if fits:
        assert load_evaluation(other, data=str(folder)).digest == evaluation.digest
    else:
        assert "other classes than other's (NEGATIVE, POSITIVE; " in str(refused(other, folder))


def test_a_set_cannot_be_cut_again(decoder: LoadedModel, tmp_path: Path) -> None:
    """WHEN another length or stride is asked for THEN it is refused; the set's own may be said."""
    evaluation = load_evaluation(decoder, data=book(tmp_path / "a.txt"), sequence_length=8, stride=2)
    folder = save_prepared(decoder, evaluation, tmp_path / "set")
    assert load_evaluation(decoder, data=str(folder), sequence_length=8, stride=2).digest == evaluation.digest
    assert load_evaluation(decoder, data=str(folder), stride=2).digest == evaluation.digest
    for option, value in (("sequence_length", 16), ("stride", 4)):
        error = refused(decoder, folder, **{option: value})
        assert f"was prepared with --{option.replace('_', '-')} " in str(error)
        assert error.exit_code == 2


def rewritten(folder: Path, **changes: Any) -> None:
    path = folder / DOCUMENT
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def flipped(folder: Path) -> None:
    content = bytearray((folder / TENSORS).read_bytes())
    content[-1] ^= 1
    (folder / TENSORS).write_bytes(content)


def without(folder: Path, key: str) -> None:
    document = json.loads((folder / DOCUMENT).read_text())
    del document[key]
    (folder / DOCUMENT).write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda folder: (folder / TENSORS).unlink(), "damaged .*examples.safetensors cannot be read"),
        (lambda folder: (folder / DOCUMENT).unlink(), "damaged .*prepared.json cannot be read"),
        (flipped, "damaged .*is not the file that was saved"),
        (lambda folder: (folder / TENSORS).write_bytes(b""), "is not the file that was saved"),
        (lambda folder: (folder / DOCUMENT).write_text('{"format"'), "prepared.json cannot be read"),
        (lambda folder: (folder / DOCUMENT).write_text("[]"), "states no format"),
        (lambda folder: rewritten(folder, examples=3), "states 3 examples, and there are 17"),
        (lambda folder: rewritten(folder, model=None), "is damaged"),
        (lambda folder: rewritten(folder, model={}), "is damaged"),
        (lambda folder: rewritten(folder, notes=None), "is damaged"),
        (lambda folder: rewritten(folder, sequence_length="long"), "is damaged"),
        (lambda folder: without(folder, "source"), "is damaged"),
        (lambda folder: without(folder, "sha256"), "is damaged"),
        (lambda folder: rewritten(folder, format=2, energyscope="9.0"), "prepared by energyscope 9.0: update"),
    ],
)
def test_damage_is_one_clear_line(
    decoder: LoadedModel, prepared: Path, damage: Callable[[Path], object], complaint: str
) -> None:
    """WHEN a file is gone, was changed, or is of a newer version THEN one line says so, and what to do."""
    damage(prepared)
    assert is_prepared(prepared)
    with pytest.raises(DataError, match=complaint):
        load_evaluation(decoder, data=str(prepared))
    refused(decoder, prepared)


def test_nothing_is_overwritten_and_nothing_left_behind(decoder: LoadedModel, prepared: Path) -> None:
    """WHEN the folder exists, or saving fails, THEN what was there stays, and no part of a set is left."""
    evaluation = load_evaluation(decoder, data=str(prepared))
    before = {path: path.read_bytes() for path in prepared.iterdir()}
    with pytest.raises(UsageError, match="exists: choose another --output"):
        save_prepared(decoder, evaluation, prepared)
    assert {path: path.read_bytes() for path in prepared.iterdir()} == before
    with pytest.raises(UsageError, match=r"cannot be written \(Not a directory\)"):
        save_prepared(decoder, evaluation, prepared.parent / "rows.jsonl" / "set")
    with pytest.raises(UsageError, match=r"cannot be written \(File name too long\)"):
        save_prepared(decoder, evaluation, prepared.parent / ("x" * 254))
    assert {path.name for path in prepared.parent.iterdir()} == {"rows.jsonl", "set"}


def test_a_set_can_be_moved_and_read_by_others(decoder: LoadedModel, prepared: Path) -> None:
    """The folder does not depend on its place, and its files may be read by whoever may read files here."""
    moved = prepared.rename(prepared.with_name("moved"))
    assert load_evaluation(decoder, data=str(moved)).examples == 17
    plain = prepared.parent / "rows.jsonl"
    assert {path.stat().st_mode for path in moved.iterdir()} == {plain.stat().st_mode}

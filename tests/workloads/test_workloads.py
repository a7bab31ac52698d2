"""Workloads: texts and random tokens become tensors that fit the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import SPECIAL, VOCABULARY

from energyscope import bundled
from energyscope.errors import DataError, UsageError
from energyscope.loading import LoadedModel, load_model
from energyscope.reasons import reason
from energyscope.workloads import Evaluation, datasets, inputs, load_evaluation, profile_inputs

SENTENCES = [
    "the cat sees a dog .",
    "good",
    "the old dog was very bad .",
    "the cat likes the red house and the tree .",
]


def jsonl(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def labelled(path: Path, labels: list[Any]) -> str:
    return jsonl(path, [{"text": text, "label": label} for text, label in zip(SENTENCES, labels, strict=False)])


def book(folder: Path, loaded: LoadedModel, lines: list[str], between: str = "\n") -> tuple[str, list[int]]:
    """Write running text; return its path and its tokens."""
    text = between.join(lines)
    (folder / "book.txt").write_text(text, encoding="utf-8")
    return str(folder / "book.txt"), loaded.tokenizer(text)["input_ids"]


def token_rows(evaluation: Evaluation) -> list[list[int]]:
    """Return each example's tokens without its padding, in the evaluation's order."""
    return [
        ids[mask.bool()].tolist()
        for batch in evaluation.batches
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]


def test_examples_keep_their_tokens_and_labels(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN labelled texts WHEN they are batched by length THEN each keeps its tokens and its own label."""
    evaluation = load_evaluation(classifier, data=labelled(tmp_path / "a.jsonl", [1, 0, 0, 1]), batch_size=3)
    pairs = list(zip(token_rows(evaluation), torch.cat(evaluation.labels).tolist(), strict=True))
    expected = list(zip(classifier.tokenizer(SENTENCES)["input_ids"], [1, 0, 0, 1], strict=True))
    assert sorted(pairs) == sorted(expected)
    assert evaluation.examples == 4
    assert [len(labels) for labels in evaluation.labels] == [4]  # the last one is not left alone


@pytest.mark.parametrize(("size", "sizes"), [(1, [1] * 4), (2, [2, 2]), (3, [4]), (4, [4]), (9, [4])])
def test_no_example_is_left_alone(classifier: LoadedModel, tmp_path: Path, size: int, sizes: list[int]) -> None:
    """GIVEN a last batch of one THEN it joins the batch before, except where batches of one are asked for."""
    data = labelled(tmp_path / "a.jsonl", [1, 0, 0, 1])
    evaluation = load_evaluation(classifier, data=data, batch_size=size)
    assert [len(batch["input_ids"]) for batch in evaluation.batches] == sizes
    alone = load_evaluation(classifier, data=data, batch_size=size, max_examples=1)
    assert [len(batch["input_ids"]) for batch in alone.batches] == [1]


def test_padding_is_little_and_on_the_right(decoder: LoadedModel, tmp_path: Path) -> None:
    """WHEN examples differ in length THEN batches hold similar ones, padded behind with a masked pad token."""
    evaluation = load_evaluation(decoder, data=labelled(tmp_path / "a.jsonl", [0, 0, 0, 0]), batch_size=2)
    assert evaluation.labels is None
    for batch in evaluation.batches:
        mask, ids = batch["attention_mask"], batch["input_ids"]
        assert (mask.shape, ids.dtype) == (ids.shape, torch.int64)
        assert bool((mask[:, :1] == 1).all())
        assert bool((mask.diff(dim=1) <= 0).all())
        assert bool((ids[mask == 0] == decoder.tokenizer.pad_token_id).all())
    widths = [batch["input_ids"].shape[1] for batch in evaluation.batches]
    assert widths == sorted(widths)


def test_same_data_gives_the_same_batches(classifier: LoadedModel, tmp_path: Path) -> None:
    """WHEN data is loaded twice THEN the batches are identical."""
    data = labelled(tmp_path / "a.jsonl", [1, 0, 0, 1])
    first, second = (load_evaluation(classifier, data=data, max_examples=3) for _ in range(2))
    assert token_rows(first) == token_rows(second)


def test_too_short_for_next_token_is_left_out(decoder: LoadedModel, tmp_path: Path) -> None:
    """GIVEN a text of one token THEN it is no example: nothing in it can be predicted."""
    evaluation = load_evaluation(decoder, data=labelled(tmp_path / "a.jsonl", [0, 0, 0, 0]))
    assert evaluation.examples == 3
    lonely = tmp_path / "b.jsonl"
    with pytest.raises(DataError, match="two tokens or more"):
        load_evaluation(decoder, data=jsonl(lonely, [{"text": "good"}]))


def test_fewer_examples_are_spread_over_the_data(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN data ordered by class WHEN half is taken THEN both classes are still there."""
    rows = [{"text": SENTENCES[index % 4], "label": int(index >= 8)} for index in range(16)]
    evaluation = load_evaluation(classifier, data=jsonl(tmp_path / "a.jsonl", rows), max_examples=8)
    assert torch.cat(evaluation.labels).bincount().tolist() == [4, 4]


def test_order_leads_back_to_the_rows(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN a blank row, and examples sorted by length, THEN the order says which row each of them was."""
    rows = [{"text": text, "label": 0} for text in ("", *SENTENCES)]
    evaluation = load_evaluation(classifier, data=jsonl(tmp_path / "a.jsonl", rows), batch_size=2)
    assert sorted(evaluation.order) == [1, 2, 3, 4]
    expected = [classifier.tokenizer(rows[index]["text"])["input_ids"] for index in evaluation.order]
    assert token_rows(evaluation) == expected


def test_sequence_length_cuts_examples(classifier: LoadedModel, tmp_path: Path) -> None:
    """WHEN a length is given THEN longer examples are cut to it, special tokens included."""
    evaluation = load_evaluation(classifier, data=labelled(tmp_path / "a.jsonl", [1, 0, 0, 1]), sequence_length=5)
    lengths = sorted(len(row) for row in token_rows(evaluation))
    assert lengths == [3, 5, 5, 5]
    assert all(row[0] == 2 and row[-1] == 3 for row in token_rows(evaluation))


def test_running_text_predicts_each_token_once(decoder: LoadedModel, tmp_path: Path) -> None:
    """GIVEN a text file THEN a language model reads overlapping windows, and each token counts in one of them."""
    data, stream = book(tmp_path, decoder, SENTENCES * 4, between="\n\n")
    evaluation = load_evaluation(decoder, data=data, sequence_length=8)
    rows = token_rows(evaluation)
    counted = [row[mask].tolist() for batch, masks in zip(evaluation.batches, evaluation.counted, strict=True)
               for row, mask in zip(batch["input_ids"], masks, strict=True)]  # fmt: skip
    assert {len(row) for row in rows[1:]} == {8}  # the shortest, which comes first, is the rest
    assert sorted(map(len, counted))[:-1] == [len(stream) % 4 or 4, *[4] * (len(rows) - 2)]
    assert sum(map(len, counted)) == len(stream)
    assert sorted(token for row in counted for token in row) == sorted(stream)
    assert all(row[-len(part) :] == part for row, part in zip(rows, counted, strict=True))
    assert evaluation.notes == (reason("running-text", tokens=8, stride=4),)


def test_strided_perplexity_is_the_one_that_is_reported(decoder: LoadedModel, tmp_path: Path) -> None:
    """GIVEN windows in batches THEN the mean loss is that of the usual loop, which hides the context's labels."""
    data, stream = book(tmp_path, decoder, SENTENCES * 5)
    evaluation = load_evaluation(decoder, data=data, sequence_length=10, stride=4, batch_size=3)
    loss, number = 0.0, 0
    with torch.inference_mode():
        for batch, counted in zip(evaluation.batches, evaluation.counted, strict=True):
            scores = decoder.model(**batch).logits.double().log_softmax(-1)[:, :-1]
            own = -scores.gather(-1, batch["input_ids"][:, 1:, None]).squeeze(-1)
            loss, number = loss + float(own[counted[:, 1:]].sum()), number + int(counted[:, 1:].sum())
        usual, before, ids = 0.0, 0, torch.tensor([stream])
        for begin in range(0, ids.shape[1], 4):
            end = min(begin + 10, ids.shape[1])
            labels = ids[:, begin:end].clone()
            labels[:, : max(0, before - begin)] = -100  # what the window before has predicted
            new = int((labels[:, 1:] != -100).sum())
            usual += decoder.model(ids[:, begin:end], labels=labels).loss.double().item() * new
            before = end
            if end == ids.shape[1]:
                break
    assert number == ids.shape[1] - 1
    assert loss == pytest.approx(usual, rel=1e-5)


def test_windows_need_not_overlap(decoder: LoadedModel, tmp_path: Path) -> None:
    """GIVEN a stride as long as the window THEN consecutive blocks are read, and all their tokens count."""
    data, stream = book(tmp_path, decoder, SENTENCES * 4)
    evaluation = load_evaluation(decoder, data=data, sequence_length=8, stride=8)
    assert evaluation.counted is None
    assert sorted(token_rows(evaluation)) == sorted(
        stream[start : start + 8] for start in range(0, len(stream), 8)
    )


def test_profiled_tokens_of_overlapping_windows_come_once(decoder: LoadedModel, tmp_path: Path) -> None:
    """GIVEN overlapping windows THEN what is profiled holds each token of the text as often as the text does."""
    data, stream = book(tmp_path, decoder, SENTENCES * 3)
    evaluation = load_evaluation(decoder, data=data, sequence_length=8)
    workload = profile_inputs(decoder, batch_size=len(stream), sequence_length=1, evaluation=evaluation)
    assert sorted(workload.inputs["input_ids"].flatten().tolist()) == sorted(stream)


def test_texts_that_are_cut_or_left_out_are_counted(decoder: LoadedModel, tmp_path: Path) -> None:
    """GIVEN texts that are too long, too short or blank THEN the notes say how many."""
    rows = [{"text": text} for text in [*SENTENCES, " ", "", SENTENCES[0][:-2]]]
    evaluation = load_evaluation(decoder, data=jsonl(tmp_path / "a.jsonl", rows), sequence_length=5)
    assert evaluation.notes == (
        reason("blank-rows", rows=2),
        reason("cut-texts", texts=3, total=5, tokens=5),
        reason("single-token-texts", texts=1, total=5),
    )
    assert load_evaluation(decoder, data=jsonl(tmp_path / "b.jsonl", rows[2:4])).notes == ()


def test_changed_data_have_another_digest(classifier: LoadedModel, tmp_path: Path) -> None:
    """The digest is of tokens and labels: one other word or label changes it, batches and notes do not."""
    data = labelled(tmp_path / "a.jsonl", [1, 0, 0, 1])
    digest = load_evaluation(classifier, data=data).digest
    assert len(digest) == 16
    assert load_evaluation(classifier, data=data, batch_size=2).digest == digest
    relabelled = labelled(tmp_path / "b.jsonl", [1, 0, 1, 1])
    assert load_evaluation(classifier, data=relabelled).digest != digest
    assert load_evaluation(classifier, data=data, max_examples=3).digest != digest
    assert load_evaluation(classifier, data=data, sequence_length=6).digest != digest


def test_published_perplexities_join_lines_by_an_empty_one(
    decoder: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN WikiText-2 THEN its lines, empty ones too, are joined by blank lines and read as one text."""
    lines = ["", " = A heading = \n", "", "the cat sees a dog .\n", "the dog was old .\n"]
    monkeypatch.setattr(datasets, "_load", lambda name, chosen: {"text": lines})
    texts = datasets.hub_texts("wikitext2")
    assert texts.running == "\n\n".join(lines)
    evaluation = load_evaluation(replace(decoder, adapter=replace(decoder.adapter, dataset="wikitext2")))
    assert token_rows(evaluation) == [decoder.tokenizer("\n\n".join(lines))["input_ids"]]
    assert evaluation.source == "wikitext2 (test)"


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "tsv"])
def test_formats_give_the_same_examples(classifier: LoadedModel, tmp_path: Path, ending: str) -> None:
    """GIVEN the same rows as JSONL, a JSON list, CSV or TSV, other columns named THEN the examples agree."""
    rows: list[dict[str, Any]] = [{"sentence": text, "mood": index % 2} for index, text in enumerate(SENTENCES)]
    path = tmp_path / f"data.{ending}"
    separator = "\t" if ending == "tsv" else ","
    lines = [separator.join(["sentence", "mood"]), *(f"{row['sentence']}{separator}{row['mood']}" for row in rows)]
    contents = {"jsonl": "\n".join(map(json.dumps, rows)), "json": json.dumps(rows, indent=1)}
    path.write_text(contents.get(ending, "\n".join(lines)), encoding="utf-8")
    evaluation = load_evaluation(classifier, data=str(path), text_column="sentence", label_column="mood")
    reference = load_evaluation(classifier, data=labelled(tmp_path / "reference.jsonl", [0, 1, 0, 1]))
    assert token_rows(evaluation) == token_rows(reference)
    assert torch.equal(torch.cat(evaluation.labels), torch.cat(reference.labels))


@pytest.mark.parametrize("labels", [["NEGATIVE", "positive"], ["0", "1"], [0.0, 1.0]])
def test_labels_may_be_names_or_numbers(classifier: LoadedModel, tmp_path: Path, labels: list[Any]) -> None:
    """A label is the class's index, as a number or as text, or the model's name for it."""
    evaluation = load_evaluation(classifier, data=labelled(tmp_path / "a.jsonl", labels))
    assert sorted(torch.cat(evaluation.labels).tolist()) == [0, 1]


@pytest.mark.parametrize("label", [2, -1, "neutral", None, "", 0.5, "nan", [1], 10**400])
def test_label_that_the_model_lacks_is_refused(classifier: LoadedModel, tmp_path: Path, label: Any) -> None:
    """GIVEN a label that is no class of the model THEN the error names the row and the classes."""
    with pytest.raises(DataError, match=r"a.jsonl, line 2, has .*knows 0 \(negative\), 1 \(positive\)"):
        load_evaluation(classifier, data=labelled(tmp_path / "a.jsonl", [0, label]))


def test_text_without_labels_cannot_judge_a_classifier(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN a plain text file THEN a classifier cannot be evaluated on it, and the error says why."""
    path = tmp_path / "plain.txt"
    path.write_text("the cat\n", encoding="utf-8")
    with pytest.raises(DataError, match="has no label in column 'label'"):
        load_evaluation(classifier, data=str(path))


def test_labels_in_no_column_are_bad_usage(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN a file without the column of the labels THEN a classifier asks for its name."""
    data = labelled(tmp_path / "a.jsonl", [1, 0, 0, 1])
    with pytest.raises(UsageError, match=r"no column 'mood' \(it has: text, label\): .*--label-column"):
        load_evaluation(classifier, data=data, label_column="mood")


def test_columns_are_named_for_files_alone() -> None:
    """GIVEN the name of a file's column of labels THEN bundled data keep to their own."""
    loaded = load_model("tiny-distilbert", device="cpu")
    assert load_evaluation(loaded, max_examples=4, label_column="mood").labels is not None


def test_model_without_tokenizer_reads_no_text(decoder: LoadedModel) -> None:
    """GIVEN no tokenizer THEN the error says why there is none."""
    bare = replace(decoder, tokenizer=None, tokenizer_reason="random weights")
    with pytest.raises(DataError, match=r"has no tokenizer \(random weights\)"):
        load_evaluation(bare)


def test_adapter_without_data_set_asks_for_a_file(decoder: LoadedModel) -> None:
    """GIVEN an adapter that names no data set THEN --data is asked for; an unknown one lists the known."""
    nameless = replace(decoder, adapter=replace(decoder.adapter, dataset=None))
    with pytest.raises(DataError, match="names no data set: give a file with --data"):
        load_evaluation(nameless)
    with pytest.raises(DataError, match=r"no data set is called 'sst3' \(known: sst2, wikitext2\)"):
        load_evaluation(replace(decoder, adapter=replace(decoder.adapter, dataset="sst3")))


@pytest.mark.parametrize("dataset", ["sst2", "wikitext2"])
def test_hub_data_set_without_network_fails_at_once(
    decoder: LoadedModel, dataset: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """GIVEN no network and no cache THEN a hub data set is refused in one line, and nothing is left offline."""
    datasets = pytest.importorskip("datasets")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", tmp_path)
    with pytest.raises(DataError, match="neither cached nor reachable"):
        load_evaluation(replace(decoder, adapter=replace(decoder.adapter, dataset=dataset)))
    assert (constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE) == (False, False)


def test_a_hub_data_set_whose_rows_fail_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a data set whose iterator raises after some rows THEN one line says so, and what to do."""
    library = pytest.importorskip("datasets")
    from huggingface_hub import constants

    class Rows:
        """Rows in a cache that was cut off."""

        def __getitem__(self, column: str) -> Iterator[str]:
            """Yield one row."""
            yield "a story"
            raise OSError(f"{column}: expected to read 8 bytes, got 3")

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(library, "load_dataset", lambda *_names, **_options: Rows())
    with pytest.raises(DataError, match=r"rows of the data set sst2 .*got 3\): remove it from the cache.*--data"):
        datasets.hub_texts("sst2")


@pytest.mark.parametrize("name", bundled.MODELS)
def test_bundled_models_bring_their_data(name: str) -> None:
    """Each bundled model has held-out data of its own, which fits it."""
    loaded = load_model(name, device="cpu")
    evaluation = load_evaluation(loaded, max_examples=20)
    assert evaluation.source == f"bundled:{name}"
    assert evaluation.examples == 20
    assert (evaluation.labels is not None) == (loaded.adapter.task == "classification")
    assert profile_inputs(loaded, evaluation=evaluation).tokens == "data"


def test_profile_tokens_are_the_data_in_a_row(decoder: LoadedModel, tmp_path: Path) -> None:
    """GIVEN evaluation data THEN the profiled tokens are its tokens without padding, repeated as needed."""
    evaluation = load_evaluation(decoder, data=labelled(tmp_path / "a.jsonl", [0, 0, 0, 0]), batch_size=2)
    workload = profile_inputs(decoder, batch_size=3, sequence_length=16, evaluation=evaluation)
    stream = [token for row in token_rows(evaluation) for token in row]
    assert workload.inputs["input_ids"].flatten().tolist() == (stream * 3)[:48]
    assert (workload.tokens, workload.batch_size, workload.sequence_length) == ("data", 3, 16)


def test_synthetic_tokens_fit_the_vocabulary_and_the_seed(decoder: LoadedModel) -> None:
    """WITHOUT data THEN the tokens are random by the seed, all of the vocabulary and none of them special."""
    first, again, other = (
        profile_inputs(decoder, batch_size=8, sequence_length=32, seed=seed).inputs["input_ids"]
        for seed in (0, 0, 1)
    )
    assert first.shape == (8, 32)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert int(first.max()) < VOCABULARY
    assert set(first.flatten().tolist()).isdisjoint(decoder.tokenizer.all_special_ids)
    assert len(decoder.tokenizer.all_special_ids) == len(SPECIAL)


def test_profile_inputs_run_without_padding(classifier: LoadedModel) -> None:
    """The profiled input can be given to the model as it is, and no position is masked."""
    workload = profile_inputs(classifier, batch_size=2, sequence_length=7)
    assert bool((workload.inputs["attention_mask"] == 1).all())
    with torch.inference_mode():
        assert classifier.model(**workload.inputs).logits.shape == (2, 2)


def test_default_length_fits_a_short_model(decoder: LoadedModel) -> None:
    """GIVEN a model of 32 positions THEN the default length is 32, not 128."""
    assert profile_inputs(decoder).sequence_length == 32


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"sequence_length": 33}, "has 32 positions at most"),
        ({"sequence_length": 0}, "too short"),
        ({"sequence_length": -1}, "too short"),
        ({"batch_size": 0}, "batch size of 0"),
        ({"max_examples": 0}, "0 examples"),
        *(
            ({"sequence_length": 8, "stride": size}, rf"--stride {size} is not possible: use 1 to 8")
            for size in (0, -1, 9)
        ),
    ],
)
def test_sizes_that_cannot_be_are_refused(
    decoder: LoadedModel, tmp_path: Path, options: dict[str, int], complaint: str
) -> None:
    """WHEN a size is not positive, beyond the model or the window THEN it is bad usage, with what is possible."""
    with pytest.raises(UsageError, match=complaint):
        load_evaluation(decoder, data=labelled(tmp_path / "a.jsonl", [0, 0, 0, 0]), **options)
    if options.keys() <= {"sequence_length", "batch_size"}:
        with pytest.raises(UsageError, match=complaint):
            profile_inputs(decoder, **options)


def test_missing_datasets_package_says_how_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no `datasets` package THEN the error says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install 'energyscope-llm\[datasets\]'"):
        datasets.hub_texts("sst2")


def test_batches_shrink_with_the_logits_that_they_make(
    decoder: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN room for the logits of three examples THEN batches have three; for none, two; for many, sixteen."""
    data = jsonl(tmp_path / "texts.jsonl", [{"text": "the cat sees a dog"}] * 40)
    logits_bytes = 4 * 32 * VOCABULARY
    for room, size in ((3 * logits_bytes, 3), (1, 2), (1000 * logits_bytes, 16)):
        monkeypatch.setattr(inputs, "LOGITS_BYTES", room)
        batches = load_evaluation(decoder, data=data).batches
        assert len(batches[0]["input_ids"]) == size

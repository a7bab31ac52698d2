"""Folders with data sets: each layout in which SST-2 and WikiText-2 are found gives the same examples."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import dataset_fixtures as made
import pytest
from dataset_fixtures import SST2, WIKI_RAW, wiki_splits

from energyscope.errors import DataError, UsageError
from energyscope.loading import LoadedModel
from energyscope.workloads import load_evaluation
from energyscope.workloads.datasets import folder_texts
from energyscope.workloads.texts import Texts, file_texts

Maker = Callable[[Path], Path]


@pytest.fixture(autouse=True)
def _without_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package `datasets` is not needed for local copies."""
    monkeypatch.setitem(sys.modules, "datasets", None)


def sst2(folder: Path) -> Texts:
    return folder_texts(folder, "classification", "text", "label")


def wikitext(folder: Path) -> Texts:
    return folder_texts(folder, "next-token", "text", "label")


def tables(folder: Path, write: Callable[[Path, made.Rows], Path], pattern: str) -> Path:
    for split, rows in SST2.items():
        write(folder / pattern.format(split), rows)
    return folder


def comma_separated(path: Path, rows: made.Rows) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def glue_with_others(folder: Path) -> Path:
    (folder / "CoLA").mkdir(parents=True)
    (folder / "CoLA" / "dev.tsv").write_text("gj04\t1\t\tthe cat\n")
    made.glue(folder / "SST-2")
    return folder


SST2_LAYOUTS: dict[str, tuple[Maker, str]] = {
    "repository": (lambda folder: made.repository(folder, SST2), "validation"),
    "cache": (
        lambda folder: made.hub_cache(folder, "stanfordnlp/sst2", lambda to: made.repository(to, SST2)),
        "sst2, validation",
    ),
    "snapshots": (
        lambda folder: (
            made.hub_cache(folder, "stanfordnlp/sst2", lambda to: made.repository(to, SST2))
            / "datasets--stanfordnlp--sst2"
        ),
        "validation",
    ),
    "saved": (lambda folder: made.saved(folder, SST2), "validation"),
    "saved split": (lambda folder: made.saved_split(folder, "validation", SST2["validation"]), "validation"),
    "converted": (lambda folder: tables(folder, made.parquet, "default/{}/0000.parquet"), "validation"),
    "generated": (
        lambda folder: tables(
            folder, made.arrow, "stanfordnlp___sst2/default/0.0.0/8d51e7e4887a4caa/sst2-{}.arrow"
        ),
        "sst2, validation",
    ),
    "glue": (made.glue, "validation"),
    "glue with others": (glue_with_others, "SST-2, validation"),
    "jsonl": (lambda folder: made.json_lines(folder, SST2), "validation"),
    "csv": (lambda folder: folder.mkdir() or tables(folder, comma_separated, "{}.csv"), "validation"),
}


@pytest.mark.parametrize("layout", SST2_LAYOUTS)
def test_sst2_is_the_same_in_every_layout(tmp_path: Path, layout: str) -> None:
    """GIVEN SST-2 as it lies on disks THEN its validation split is read, quotes and all, as the source says."""
    make, label = SST2_LAYOUTS[layout]
    folder = make(tmp_path / "set")
    texts = sst2(folder)
    assert [(row.text, int(row.label)) for row in texts.rows] == [
        (row["sentence"], row["label"]) for row in SST2["validation"]
    ]
    assert [row.number - texts.rows[0].number for row in texts.rows] == [0, 1, 2, 3]
    assert texts.source == f"{folder} ({label})"
    assert texts.running is None


def wikitexts(folder: Path) -> Path:
    other = wiki_splits(" a a \n")
    names = ("wikitext-103-raw-v1", "wikitext-103-v1", "wikitext-2-raw-v1", "wikitext-2-v1")
    sets = {name: wiki_splits() if name == "wikitext-2-raw-v1" else other for name in names}
    return made.configurations(folder, sets)


def both_archives(folder: Path) -> Path:
    made.archive(folder / "wikitext-2", "tokens", " a <unk> \n")
    made.archive(folder / "wikitext-2-raw")
    return folder


def mixed_archive(folder: Path) -> Path:
    made.archive(folder, "tokens", " a <unk> \n")
    return made.archive(folder)


WIKI_LAYOUTS: dict[str, tuple[Maker, str]] = {
    "repository": (wikitexts, "wikitext-2-raw-v1, test"),
    "configuration": (lambda folder: wikitexts(folder) / "wikitext-2-raw-v1", "test"),
    "cache": (
        lambda folder: made.hub_cache(folder, "Salesforce/wikitext", wikitexts),
        "wikitext/wikitext-2-raw-v1, test",
    ),
    "saved": (lambda folder: made.saved(folder, wiki_splits()), "test"),
    "lines without ends": (
        lambda folder: made.json_lines(folder / "wikitext", wiki_splits()),
        "test",
    ),
    "archive": (made.archive, "test"),
    "both archives": (both_archives, "wikitext-2-raw, test"),
    "mixed archive": (mixed_archive, "test"),
}


@pytest.mark.parametrize("layout", WIKI_LAYOUTS)
def test_wikitext_is_the_same_in_every_layout(tmp_path: Path, layout: str) -> None:
    """GIVEN WikiText-2 as it lies on disks THEN the raw test split is read, joined as rows from the hub are."""
    make, label = WIKI_LAYOUTS[layout]
    folder = make(tmp_path / "set")
    texts = wikitext(folder)
    assert texts.running == "\n\n".join(made.wiki_rows(WIKI_RAW))
    assert texts.source == f"{folder} ({label})"
    assert texts.notes == ()


def test_a_file_of_the_set_is_read_as_its_folder_is(tmp_path: Path) -> None:
    """WHEN the file of a split is given instead of its folder THEN the texts are the same."""
    raw = made.archive(tmp_path / "archive") / "wiki.test.raw"
    table = wikitexts(tmp_path / "hub") / "wikitext-2-raw-v1" / "test-00000-of-00001.parquet"
    whole = "\n\n".join(made.wiki_rows(WIKI_RAW))
    assert [file_texts(path, "text", "label").running for path in (raw, table)] == [whole, whole]
    files = (
        made.glue(tmp_path / "SST-2") / "dev.tsv",
        made.repository(tmp_path / "sst2", SST2) / "data" / "validation-00000-of-00001.parquet",
        made.arrow(tmp_path / "validation.arrow", SST2["validation"]),
    )
    for path in files:
        texts = file_texts(path, "text", "label")
        assert [row.text for row in texts.rows] == [row["sentence"] for row in SST2["validation"]]


def test_tokens_with_unknown_words_are_noted(tmp_path: Path) -> None:
    """GIVEN only the WikiText-2 whose rare words are replaced THEN a note says that perplexities differ."""
    (note,) = wikitext(made.archive(tmp_path / "wikitext-2", "tokens")).notes
    assert note.code == "rare-words-replaced"


def test_sst2_is_read_with_a_tokenizer_from_a_folder(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN a folder for --data THEN evaluation is as on the same rows in a file, and keeps their order."""
    folder = made.repository(tmp_path / "hub", SST2)
    evaluation = load_evaluation(classifier, data=str(folder))
    rows = made.json_lines(tmp_path / "rows", SST2) / "validation.jsonl"
    same = load_evaluation(classifier, data=str(rows), text_column="sentence")
    assert (evaluation.digest, evaluation.order, evaluation.examples) == (same.digest, same.order, 4)
    assert evaluation.source == f"{folder} (validation)"


def test_a_language_model_reads_sst2_from_its_test_split(tmp_path: Path) -> None:
    """GIVEN labelled sentences WHEN the next token is predicted THEN they are texts apart, labels or not."""
    texts = wikitext(made.repository(tmp_path / "sst2", SST2))
    assert [row.text for row in texts.rows] == [row["sentence"] for row in SST2["test"]]
    assert texts.running is None


def test_rows_without_line_ends_are_texts_apart(tmp_path: Path) -> None:
    """GIVEN one column of texts that do not end in line breaks THEN each is read by itself."""
    rows = [{"text": "the cat"}, {"text": "the dog\n"}]
    folder = tmp_path / "stories"
    made.parquet(folder / "test-00000-of-00001.parquet", rows)
    assert wikitext(folder).running is None


def test_columns_may_be_named(tmp_path: Path) -> None:
    """WHEN columns are named THEN these are read, also where those of a known set are there."""
    rows = [{"sentence": "no", "label": 9, "review": "yes", "mood": 1}]
    made.parquet(tmp_path / "set" / "validation.parquet", rows)
    texts = folder_texts(tmp_path / "set", "classification", "review", "mood")
    assert [(row.text, row.label) for row in texts.rows] == [("yes", 1)]
    with pytest.raises(UsageError, match=r"no column 'title' \(it has: sentence, label, review, mood\)"):
        folder_texts(tmp_path / "set", "classification", "title", "mood")


def test_parts_of_a_split_are_read_in_order(tmp_path: Path) -> None:
    """GIVEN a split in parts THEN rows are numbered through, and a part that is missing is named."""
    for part in range(3):
        rows = [{"text": f"part {part}"}, {"text": "end"}]
        made.parquet(tmp_path / "set" / f"test-{part:05}-of-00003.parquet", rows)
    texts = wikitext(tmp_path / "set")
    assert [row.text for row in texts.rows] == ["part 0", "end", "part 1", "end", "part 2", "end"]
    assert [row.number for row in texts.rows] == [1, 2, 3, 4, 5, 6]
    (tmp_path / "set" / "test-00001-of-00003.parquet").unlink()
    with pytest.raises(DataError, match=r"holds 2 of 3 files of a split .*copy the others too"):
        wikitext(tmp_path / "set")


def test_withheld_labels_are_refused(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN only SST-2's test split, whose labels are -1, THEN a classifier cannot be judged on it."""
    folder = made.repository(tmp_path / "sst2", {"test": SST2["test"]})
    with pytest.raises(DataError, match=r"\(test\), row 1, has the label -1"):
        load_evaluation(classifier, data=str(folder))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", r"Git LFS's pointer .*git lfs pull"),
        (b"PAR1 and no more", "cannot be read as Parquet .*copy it again"),
        (b"", "cannot be read as Parquet"),
    ],
)
def test_broken_tables_are_one_clear_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    """WHEN a Parquet file is cut off, or only a pointer to one, THEN one line says what to do."""
    (tmp_path / "test.parquet").write_bytes(content)
    with pytest.raises(DataError, match=complaint) as error:
        wikitext(tmp_path)
    assert "\n" not in str(error.value)


def test_broken_stream_is_one_clear_line(tmp_path: Path) -> None:
    """WHEN an Arrow stream is cut off THEN it is an error of the data."""
    path = made.arrow(tmp_path / "test.arrow", [{"text": "a"}] * 8)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="cannot be read as Arrow"):
        wikitext(tmp_path)
    path.write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be read as Arrow"):
        wikitext(tmp_path)


def test_the_package_writes_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN `datasets` itself WHEN it saves a set THEN it is read without it."""
    monkeypatch.undo()
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        idx=datasets.Value("int32"), sentence=datasets.Value("string"), label=datasets.ClassLabel(num_classes=2)
    )
    splits = {
        split: datasets.Dataset.from_list([dict(row) for row in rows], features, split=split)
        for split, rows in SST2.items()
    }
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "dict"))
    splits["validation"].save_to_disk(str(tmp_path / "one"))
    monkeypatch.setitem(sys.modules, "datasets", None)
    for folder in (tmp_path / "dict", tmp_path / "one"):
        texts = sst2(folder)
        assert [(row.text, row.label) for row in texts.rows] == [
            (row["sentence"], row["label"]) for row in SST2["validation"]
        ]
        assert texts.source == f"{folder} (validation)"

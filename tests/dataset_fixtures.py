"""SST-2 and WikiText-2 as they are found on disks: a few rows in each of the layouts that their copies have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MOODS = {"id2label": {0: "NEGATIVE", 1: "POSITIVE"}, "label2id": {"NEGATIVE": 0, "POSITIVE": 1}}

Rows = Sequence[Mapping[str, Any]]

SST2: dict[str, Rows] = {
    "train": [{"idx": 0, "sentence": "the train was very old . ", "label": 0}],
    "validation": [
        {"idx": 0, "sentence": "the dog is very good . ", "label": 1},
        {"idx": 1, "sentence": 'the " cat is bad ', "label": 0},
        {"idx": 2, "sentence": '" not very good " ', "label": 0},
        {"idx": 3, "sentence": "good ", "label": 1},
    ],
    "test": [{"idx": 0, "sentence": "the house is red . ", "label": -1}],
}

# As the archive has it: each line with a blank before its end, and blank lines that hold one.
WIKI_RAW = (
    " \n = The old house = \n \n The dog sees the cat , and the cat likes the dog . \n"
    " The house was red , and the tree is blue . \n \n = = A new tree = = \n \n The tree is not old . \n \n"
)


def wiki_rows(text: str) -> list[str]:
    """The hub's rows of such a file: lines with their end, blank ones empty."""
    return [line if line.strip() else "" for line in text.splitlines(keepends=True)]


def wiki_splits(text: str = WIKI_RAW) -> dict[str, Rows]:
    test = [{"text": row} for row in wiki_rows(text)]
    return {"train": [{"text": " a a a \n"}] * 3, "validation": [{"text": " the the the \n"}] * 3, "test": test}


def parquet(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
    return path


def arrow(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([dict(row) for row in rows])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


def repository(folder: Path, splits: Mapping[str, Rows]) -> Path:
    """Return the files of a repository of the hub, with what lies beside them."""
    (folder / ".cache").mkdir(parents=True)
    (folder / ".cache" / "test.json").write_text("{}")
    (folder / "README.md").write_text("---\ndataset_info: test\n---\n")
    for split, rows in splits.items():
        parquet(folder / "data" / f"{split}-00000-of-00001.parquet", rows)
    return folder


def configurations(folder: Path, sets: Mapping[str, Mapping[str, Rows]]) -> Path:
    """Return a repository of several configurations, their training split in two files."""
    for name, splits in sets.items():
        for split, rows in splits.items():
            total = 2 if split == "train" else 1
            for part in range(total):
                parquet(folder / name / f"{split}-{part:05}-of-{total:05}.parquet", rows[part::total])
    return folder


def hub_cache(folder: Path, name: str, fill: Callable[[Path], Path]) -> Path:
    """Return a hub cache with one repository: its files are links to blobs, and an older snapshot is there too."""
    base = folder / f"datasets--{name.replace('/', '--')}"
    used, old = base / "snapshots" / ("a" * 40), base / "snapshots" / ("b" * 40)
    made = fill(folder / "made")
    (base / "blobs").mkdir(parents=True)
    for number, file in enumerate(sorted(path for path in made.rglob("*") if path.is_file())):
        blob = base / "blobs" / f"{number:040x}"
        blob.write_bytes(file.read_bytes())
        link = used / file.relative_to(made)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
        file.unlink()
    parquet(old / "data" / "validation-00000-of-00001.parquet", [{"sentence": "old", "label": 0, "text": "old\n"}])
    (base / "refs").mkdir()
    (base / "refs" / "main").write_text(used.name)
    return folder


def saved(folder: Path, splits: Mapping[str, Rows]) -> Path:
    """Return what `datasets.DatasetDict.save_to_disk` leaves, with a cached result beside one split."""
    folder.mkdir(parents=True)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    for split, rows in splits.items():
        saved_split(folder / split, split, rows)
    arrow(folder / "test" / "cache-0123456789abcdef.arrow", [{"text": "cached"}])
    return folder


def saved_split(folder: Path, split: str, rows: Rows) -> Path:
    """Return what `datasets.Dataset.save_to_disk` leaves."""
    arrow(folder / "data-00000-of-00001.arrow", rows)
    files = [{"filename": "data-00000-of-00001.arrow"}]
    (folder / "state.json").write_text(json.dumps({"_data_files": files, "_split": split}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def glue(folder: Path) -> Path:
    """Return SST-2 of the GLUE archive: no quoting, a test file without labels, other files beside."""
    (folder / "original").mkdir(parents=True)
    (folder / "original" / "datasetSentences.txt").write_text("sentence_index\tsentence\n1\told\n")
    for split, name in (("train", "train"), ("validation", "dev")):
        lines = [f"{row['sentence']}\t{row['label']}" for row in SST2[split]]
        (folder / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    lines = [f"{row['idx']}\t{row['sentence']}" for row in SST2["test"]]
    (folder / "test.tsv").write_text("\n".join(["index\tsentence", *lines]) + "\n")
    return folder


def archive(folder: Path, ending: str = "raw", text: str = WIKI_RAW) -> Path:
    """Return the archive of WikiText-2."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, content in (("train", " a a a \n"), ("valid", " the the the \n"), ("test", text)):
        (folder / f"wiki.{split}.{ending}").write_text(content)
    return folder


def json_lines(folder: Path, splits: Mapping[str, Rows]) -> Path:
    folder.mkdir(parents=True)
    for split, rows in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder

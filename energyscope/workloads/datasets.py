"""Evaluation texts: from a file, from a bundled model, or one of two data sets of the Hugging Face hub."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyscope import bundled
from energyscope.errors import DataError
from energyscope.loading import hub


@dataclass(frozen=True)
class Texts:
    """Texts with their labels as they were written, None where there are none.

    ``running`` says that the rows are lines of continuous text, which a language model reads as one.
    """

    source: str
    rows: tuple[tuple[str, Any], ...]
    running: bool = False


@dataclass(frozen=True)
class _HubSet:
    hub_id: str
    configuration: str | None
    split: str
    text: str
    label: str | None


_HUB_SETS = {
    "sst2": _HubSet("stanfordnlp/sst2", None, "validation", "sentence", "label"),
    "wikitext2": _HubSet("Salesforce/wikitext", "wikitext-2-raw-v1", "test", "text", None),
}


def bundled_texts(name: str) -> Texts:
    """Return the held-out evaluation data of a bundled model."""
    texts = file_texts(bundled.directory(name) / "evaluation.jsonl", "text", "label")
    return Texts(f"bundled:{name}", texts.rows)


def file_texts(path: Path, text_column: str, label_column: str) -> Texts:
    """Read JSONL, CSV, or plain text, told apart by the ending of the name.

    Raises:
        DataError: the file is missing, empty, unreadable, or lacks the text column.

    """
    if not path.is_file():
        raise DataError(f"there is no file {path}: give --data a JSONL, CSV or text file")
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as UTF-8 text ({hub.first_line(error)})") from error
    if path.suffix in {".jsonl", ".ndjson", ".json"}:
        records = _json_records(path, content)
    elif path.suffix in {".csv", ".tsv"}:
        lines = content.splitlines(keepends=True)
        records = list(csv.DictReader(lines, delimiter="\t" if path.suffix == ".tsv" else ","))
    else:
        return _nonempty(Texts(str(path), tuple((line, None) for line in content.splitlines()), running=True))
    rows = tuple((_text(path, record, text_column), record.get(label_column)) for record in records)
    return _nonempty(Texts(str(path), rows))


def _json_records(path: Path, content: str) -> list[Mapping[str, Any]]:
    if content.lstrip().startswith("["):
        records = _parsed(path, content, 1)
    else:
        lines = enumerate(content.splitlines(), start=1)
        records = [_parsed(path, line, number) for number, line in lines if line.strip()]
    if not all(isinstance(record, Mapping) for record in records):
        raise DataError(f'{path} must hold one JSON object a line, as {{"text": "..."}}')
    return list(records)


def _parsed(path: Path, text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {line + error.lineno - 1}, is not JSON ({error.msg})") from error


def _text(path: Path, record: Mapping[str, Any], column: str) -> str:
    if column not in record:
        there = ", ".join(str(name) for name in record) or "none"
        raise DataError(f"{path} has no column {column!r} (it has: {there}): name the column of the texts")
    return str(record[column] if record[column] is not None else "")


def _nonempty(texts: Texts) -> Texts:
    rows = tuple(row for row in texts.rows if row[0].strip())
    if not rows:
        raise DataError(f"{texts.source} holds no text")
    return Texts(texts.source, rows, texts.running)


def hub_texts(name: str) -> Texts:
    """Return a data set that an adapter names: ``sst2`` or ``wikitext2``.

    Raises:
        DataError: the name is unknown, `datasets` is not installed, or the set is neither cached nor reachable.

    """
    if name not in _HUB_SETS:
        raise DataError(f"no data set is called {name!r} (known: {', '.join(_HUB_SETS)}): give a file with --data")
    chosen = _HUB_SETS[name]
    columns = _load(name, chosen)
    labels = columns[chosen.label] if chosen.label else [None] * len(columns[chosen.text])
    rows = tuple(zip(columns[chosen.text], labels, strict=True))
    return _nonempty(Texts(f"{name} ({chosen.split})", rows, running=chosen.label is None))


def _load(name: str, chosen: _HubSet) -> Mapping[str, list[Any]]:
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f"the data set {name} needs the package datasets: pip install 'energyscope-llm[datasets]', "
            "or give a file with --data"
        ) from error
    datasets.disable_progress_bars()
    try:
        with _cache_only_without_network(chosen.hub_id):
            loaded = datasets.load_dataset(chosen.hub_id, chosen.configuration, split=chosen.split)
    except Exception as error:
        raise DataError(
            f"the data set {name} ({chosen.hub_id}) is neither cached nor reachable "
            f"({hub.first_line(error)}): give a file with --data"
        ) from error
    wanted = [chosen.text, *([chosen.label] if chosen.label else [])]
    return {column: list(loaded[column]) for column in wanted}


@contextmanager
def _cache_only_without_network(hub_id: str) -> Iterator[None]:
    """Send `datasets` to its cache where the hub does not answer one short request.

    It repeats its own requests for 23 s, and reads whether it is offline from module constants that are
    set from the environment when it is imported.
    """
    import datasets
    from huggingface_hub import HfApi, constants

    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    try:
        HfApi().dataset_info(hub_id, timeout=hub.CONTACT_SECONDS)
    except Exception:  # noqa: BLE001  (whatever the reason, the cache is what is left)
        constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before

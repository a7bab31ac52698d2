"""Texts with their labels as they were written: read from JSONL, JSON, CSV, TSV or plain text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from energyscope.errors import DataError, UsageError
from energyscope.failures import first_line

FORMATS = "a JSONL, JSON, CSV, TSV or text file"
LONGEST_CELL = 2**31 - 1  # characters


@dataclass(frozen=True)
class Row:
    """One text; ``label`` as it was written, None where there is none; ``number`` is its place in the source."""

    text: str
    label: Any
    number: int


@dataclass(frozen=True)
class Texts:
    """What a source holds, blank texts left out.

    ``running`` is the whole text where the rows are lines of one that goes on, which a language model reads as
    one. ``columns`` are the names that the source knows, empty for plain text. ``unit`` says what a row's number
    counts. ``label_column`` is where the labels were looked for.
    """

    source: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...] = ()
    running: str | None = None
    label_column: str = "label"
    unit: str = "row"
    notes: tuple[str, ...] = ()


def file_texts(path: Path, text_column: str, label_column: str) -> Texts:
    """Read a file; its kind is told by the ending of its name, and any other ending is plain text.

    Raises:
        UsageError: there is no such file, it is a directory, or no row has the text column.
        DataError: the file is empty, not UTF-8, or broken; the message names the line or row.

    """
    content = _content(path)
    if path.suffix.lower() not in _READERS:
        lines = content.splitlines()
        rows = (Row(line, None, number) for number, line in enumerate(lines, start=1))
        return without_blanks(
            Texts(str(path), tuple(rows), running=content, label_column=label_column, unit="line")
        )
    numbered = list(_READERS[path.suffix.lower()](path, content))
    columns = tuple(dict.fromkeys(str(name) for _, record in numbered for name in record))
    if numbered and text_column not in columns:
        raise UsageError(
            f"{path} has no column {text_column!r} (it has: {', '.join(columns) or 'none'}): "
            "name the column of the texts with --text-column"
        )
    unit = "line" if path.suffix.lower() in {".jsonl", ".ndjson"} else "row"
    rows = (
        Row(_text(f"{path}, {unit} {number},", record, text_column), record.get(label_column), number)
        for number, record in numbered
    )
    return without_blanks(Texts(str(path), tuple(rows), columns, label_column=label_column, unit=unit))


def without_blanks(texts: Texts) -> Texts:
    """Return the texts that hold something, with a note of how many did not.

    Raises:
        DataError: none does.

    """
    rows = tuple(row for row in texts.rows if row.text.strip())
    if not rows:
        raise DataError(f"{texts.source} holds no text: choose other data with --data")
    blank = len(texts.rows) - len(rows)
    notes = (f"{blank} blank {texts.unit}s were left out",) if blank and texts.running is None else ()
    return replace(texts, rows=rows, notes=texts.notes + notes)


def _content(path: Path) -> str:
    if path.is_dir():
        raise UsageError(f"{path} is a directory: give --data {FORMATS}")
    if not path.is_file():
        raise UsageError(f"there is no file {path}: give --data {FORMATS}")
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({first_line(error)}): check its permissions") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} cannot be read as UTF-8 text: save it as UTF-8 ({first_line(error)})") from error
    if not content.strip():
        raise DataError(f"{path} is empty, it holds no text: choose other data with --data")
    return content.replace("\r\n", "\n")


def _json_lines(path: Path, content: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if content.lstrip().startswith("["):
        yield from _json(path, content)
        return
    for number, line in enumerate(content.split("\n"), start=1):  # a text may hold other ends of line, raw
        if line.strip():
            yield number, _record(path, _parsed(path, line, number), number)


def _json(path: Path, content: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if not content.lstrip().startswith("["):
        yield from _json_lines(path, content)
        return
    for number, record in enumerate(_parsed(path, content, 1), start=1):
        yield number, _record(path, record, number)


def _csv(path: Path, content: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(
        io.StringIO(content, newline=""), delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True
    )
    before = csv.field_size_limit(LONGEST_CELL)  # the module's own limit would refuse a long document
    try:
        for number, record in enumerate(reader, start=1):
            if None in record:
                raise DataError(
                    f"{path}, row {number}, has more cells than the header: quote texts with separators"
                )
            yield number, record
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.reader.line_num}, is no valid CSV ({error})") from error
    finally:
        csv.field_size_limit(before)


def _parsed(path: Path, text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {line + error.lineno - 1}, is not JSON ({error.msg})") from error
    except (RecursionError, ValueError) as error:
        raise DataError(f"{path}, line {line}, is JSON that cannot be read ({first_line(error)})") from error


def _record(path: Path, record: Any, number: int) -> Mapping[str, Any]:
    if not isinstance(record, Mapping):
        raise DataError(f'{path} must hold one JSON object a line, as {{"text": "..."}}: number {number} is none')
    return record


def _text(where: str, record: Mapping[str, Any], column: str) -> str:
    if column not in record:
        raise DataError(f"{where} has no {column!r}, which other rows have: mend it or leave it out")
    value = record[column]
    if isinstance(value, (list, dict)):
        raise DataError(f"{where} has a {type(value).__name__} in {column!r}: a text is needed")
    return "" if value is None else str(value)


_READERS = {".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _json, ".csv": _csv, ".tsv": _csv}


def numbered(pairs: Iterable[tuple[str, Any]]) -> tuple[Row, ...]:
    """Return (text, label) pairs as rows, numbered from 1."""
    return tuple(Row(text, label, number) for number, (text, label) in enumerate(pairs, start=1))

"""Texts with their labels as they were written: read from JSONL, JSON, CSV, TSV, Parquet, Arrow or plain text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from energyscope.errors import DataError, UsageError
from energyscope.reasons import Reason, reason
from energyscope.workloads.readers import Records, has_records, read_records, read_text

DEFAULT_TEXT_COLUMN = "text"
SST2_COLUMNS = ("sentence", "label")
_WIKITEXT = re.compile(r"wiki\.(train|valid|test)\.(raw|tokens)")


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
    notes: tuple[Reason, ...] = ()


def file_texts(path: Path, text_column: str, label_column: str) -> Texts:
    """Read a file; the ending of its name tells its format, and any unknown ending is plain text.

    Raises:
        UsageError: there is no such file, it is a directory, or no row has the text column.
        DataError: the file is empty, not UTF-8, or broken; the message names the line or row.

    """
    return files_texts([path], str(path), text_column, label_column)


def files_texts(
    paths: Sequence[Path], source: str, text_column: str, label_column: str, *, lines: bool = False
) -> Texts:
    """Read one file, or several of one kind as one; ``lines`` says that rows without a label are a text's lines.

    SST-2's columns are known. Rows of one column are lines of a running text also where each of them ends in
    a line break, as those of WikiText do in Parquet and Arrow files.

    Raises:
        UsageError, DataError: as `file_texts`.

    """
    if not has_records(paths[0]):
        return without_blanks(replace(_plain_texts(paths, source), label_column=label_column))
    names = {text_column, label_column, DEFAULT_TEXT_COLUMN, *SST2_COLUMNS}
    records = _joined([read_records(path, names) for path in paths])
    column = _text_column(source, records, text_column)
    rows = tuple(
        Row(_text(f"{source}, {records.unit} {number},", record, column), record.get(label_column), number)
        for number, record in records.rows
    )
    texts = Texts(source, rows, records.columns, label_column=label_column, unit=records.unit)
    is_columnar = paths[0].suffix.lower() in {".parquet", ".arrow"}
    ends = [row.text.endswith("\n") for row in rows if row.text]
    if records.columns == (column,) and (lines or (is_columnar and ends and all(ends))):
        texts = replace(texts, running=running_text(row.text for row in rows))
    return without_blanks(texts)


def running_text(lines: Iterable[str]) -> str:
    """Return lines as one text, blank ones too, joined as for the perplexities that are published of WikiText."""
    return "\n\n".join(lines)


def without_blanks(texts: Texts) -> Texts:
    """Return the texts that hold something, with a note of how many did not.

    Raises:
        DataError: none does.

    """
    rows = tuple(row for row in texts.rows if row.text.strip())
    if not rows:
        raise DataError(f"{texts.source} holds no text: choose other data with --data")
    blank = len(texts.rows) - len(rows)
    notes = (reason("blank-rows", rows=blank),) if blank and texts.running is None else ()
    return replace(texts, rows=rows, notes=texts.notes + notes)


def numbered(pairs: Iterable[tuple[str, Any]]) -> tuple[Row, ...]:
    """Return (text, label) pairs as rows, numbered from 1."""
    return tuple(Row(text, label, number) for number, (text, label) in enumerate(pairs, start=1))


def _plain_texts(paths: Sequence[Path], source: str) -> Texts:
    content = "".join(read_text(path) for path in paths)
    if not _WIKITEXT.fullmatch(paths[0].name):
        return Texts(source, numbered((line, None) for line in content.splitlines()), running=content, unit="line")
    # the rows that the hub's data set has for this file: lines with their end, blank ones empty
    lines = [line if line.strip() else "" for line in io.StringIO(content, newline=None)]
    return Texts(
        source,
        numbered((line, None) for line in lines),
        running=running_text(lines),
        unit="line",
        notes=(reason("rare-words-replaced"),) if paths[0].suffix == ".tokens" else (),
    )


def _joined(parts: Sequence[Records]) -> Records:
    """Return the rows of a split's files as one, numbered through."""
    if len(parts) == 1:
        return parts[0]
    rows = [record for part in parts for _, record in part.rows]
    columns = tuple(dict.fromkeys(name for part in parts for name in part.columns))
    return Records(tuple(enumerate(rows, start=1)), columns)


def _text_column(source: str, records: Records, name: str) -> str:
    columns = records.columns
    if name in columns or not records.rows:
        return name
    if name == DEFAULT_TEXT_COLUMN and set(SST2_COLUMNS) <= set(columns):
        return SST2_COLUMNS[0]
    raise UsageError(
        f"{source} has no column {name!r} (it has: {', '.join(columns) or 'none'}): "
        "name the column of the texts with --text-column"
    )


def _text(where: str, record: Mapping[str, Any], column: str) -> str:
    if column not in record:
        raise DataError(f"{where} has no {column!r}, which other rows have: correct it or leave it out")
    value = record[column]
    if isinstance(value, (list, dict, bytes)):
        raise DataError(f"{where} has a {type(value).__name__} in {column!r}: a text is needed")
    return "" if value is None else str(value)

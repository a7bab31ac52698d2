"""Rows of a file, each with its number and by column: JSONL, JSON, CSV, TSV, Parquet and Arrow."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyscope.errors import DataError, UsageError
from energyscope.failures import first_line

FORMATS = "a JSONL, JSON, CSV, TSV, Parquet or text file"
LONGEST_CELL = 2**31 - 1  # characters
GLUE_HEADERS = ("sentence\tlabel\n", "index\tsentence\n")

Numbered = tuple[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Records:
    """Rows with their numbers in the file, from 1; the names of all columns; what a number counts."""

    rows: tuple[Numbered, ...]
    columns: tuple[str, ...]
    unit: str = "row"


def has_records(path: Path) -> bool:
    """Tell by the ending of its name whether a file holds rows by column; any other is plain text."""
    return path.suffix.lower() in {*_TEXT_READERS, *_ARROW_READERS}


def read_records(path: Path, names: Collection[str]) -> Records:
    """Return a file's rows; of a Parquet or Arrow file, only the columns of these ``names``.

    Raises:
        UsageError: there is no such file, or it is a directory.
        DataError: the file is empty, not UTF-8, or broken; the message names the line or row.

    """
    ending = path.suffix.lower()
    if ending in _ARROW_READERS:
        return _arrow(path, names)
    rows = tuple(_TEXT_READERS[ending](path, read_text(path)))
    columns = tuple(dict.fromkeys(str(name) for _, record in rows for name in record))
    return Records(rows, columns, "line" if ending in {".jsonl", ".ndjson"} else "row")


def read_text(path: Path) -> str:
    """Return a text file's content, its line ends as a single line feed.

    Raises:
        UsageError: there is no such file, or it is a directory.
        DataError: it cannot be read, is not UTF-8, or empty.

    """
    _check_file(path)
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({first_line(error)}): check its permissions") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} cannot be read as UTF-8 text: save it as UTF-8 ({first_line(error)})") from error
    if not content.strip():
        raise DataError(f"{path} is empty, it holds no text: choose other data with --data")
    return content.replace("\r\n", "\n")


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a directory: give --data {FORMATS}")
    if not path.is_file():
        raise UsageError(f"there is no file {path}: give --data {FORMATS}")


def _json(path: Path, content: str) -> Iterator[Numbered]:
    """Yield the objects of a list, or one of each line, whichever the file holds."""
    records: Iterable[tuple[int, Any]]
    if content.lstrip().startswith("["):
        records = enumerate(_parsed(path, content, 1), start=1)
    else:
        lines = enumerate(content.split("\n"), start=1)  # a text may hold other ends of line, raw
        records = ((number, _parsed(path, line, number)) for number, line in lines if line.strip())
    for number, record in records:
        if not isinstance(record, Mapping):
            raise DataError(
                f'{path} must hold one JSON object a line, as {{"text": "..."}}: number {number} is not one'
            )
        yield number, record


def _parsed(path: Path, text: str, line: int) -> Any:
    try:
        parsed = json.loads(text)
        if "\\u" in text:  # the only way to half of a surrogate pair, which no tokenizer reads
            json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"{path}, line {line}, holds half of a surrogate pair (\\ud800 to \\udfff)"
        raise DataError(f"{half}, which is no text: mend the line or leave it out") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {line + error.lineno - 1}, is not JSON ({error.msg})") from error
    except (RecursionError, ValueError) as error:
        raise DataError(f"{path}, line {line}, is JSON that cannot be read ({first_line(error)})") from error
    return parsed


def _csv(path: Path, content: str) -> Iterator[Numbered]:
    reader = csv.DictReader(
        io.StringIO(content, newline=""),
        delimiter="\t" if path.suffix.lower() == ".tsv" else ",",
        quoting=csv.QUOTE_NONE if _is_glue(path, content) else csv.QUOTE_MINIMAL,
        strict=True,
    )
    limit = csv.field_size_limit(LONGEST_CELL)  # the module's own limit would refuse a long document
    try:
        for number, record in enumerate(reader, start=1):
            if None in record:
                raise DataError(
                    f"{path}, row {number}, has more cells than the header: quote texts with separators"
                )
            yield number, record
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.reader.line_num}, is not valid CSV ({error})") from error
    finally:
        csv.field_size_limit(limit)


def _is_glue(path: Path, content: str) -> bool:
    """Tell whether a file is SST-2 from the GLUE archive, where quotation marks belong to the text."""
    return path.name in {"train.tsv", "dev.tsv", "test.tsv"} and content.startswith(GLUE_HEADERS)


def _arrow(path: Path, names: Collection[str]) -> Records:
    _check_file(path)
    import pyarrow as pa

    try:
        columns, table = _ARROW_READERS[path.suffix.lower()](path, names)
        rows = table.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        pointer = _is_pointer(path)
        why = "it is only Git LFS's pointer to the data" if pointer else first_line(error)
        remedy = "fetch it with `git lfs pull`" if pointer else "copy it again"
        kind = path.suffix.lower().removeprefix(".").capitalize()
        raise DataError(f"{path} cannot be read as {kind} ({why}): {remedy}") from error
    return Records(tuple(enumerate(rows, start=1)), tuple(columns))


def _is_pointer(path: Path) -> bool:
    """Tell whether a file is the few lines that stand for a large file until Git LFS fetches it."""
    try:
        with path.open("rb") as file:
            return file.read(40).startswith(b"version https://git-lfs")
    except OSError:
        return False


def _parquet_table(path: Path, names: Collection[str]) -> tuple[list[str], Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:  # read_table would make columns of folders named like key=value
        columns = list(file.schema_arrow.names)
        return columns, file.read(columns=[name for name in columns if name in names])


def _arrow_table(path: Path, names: Collection[str]) -> tuple[list[str], Any]:
    """Read a stream of record batches, which is what `datasets` writes, or an Arrow file."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        columns = list(reader.schema.names)
        return columns, reader.read_all().select([name for name in columns if name in names])


_TEXT_READERS = {".jsonl": _json, ".ndjson": _json, ".json": _json, ".csv": _csv, ".tsv": _csv}
_ARROW_READERS = {".parquet": _parquet_table, ".arrow": _arrow_table}

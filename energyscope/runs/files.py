"""One file of a run: written whole or not at all, and read with what to do where that fails."""

from __future__ import annotations

import contextlib
import gzip
import html
import json
import math
import operator
import os
import re
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.errors import RunError
from energyscope.runs.checking import document_flaw, table_flaw, texts_of

if TYPE_CHECKING:
    import pandas as pd


MOST_BYTES = 2**29  # of a file of a run; the largest of a long run have a tenth of that
MOST_OF_JSON = 2**26  # of a document, which takes many times as much when it is read
MOST_UNPACKED = 2**31
# A spreadsheet would compute such a cell; numbers and texts such as "+1.5 % ± 0.7" are none.
FORMULA = re.compile(r"\s*(?:[=@]|[+-].*[(|!=])", re.DOTALL)

# A path begins at a letter of no name: after the \\n of JSON, file:// and -o it does as well.
BEFORE_PATH = r"""(?:(?<![\w.~/-])|(?<=\\[ntr])|(?<=file://)|(?<=[\s"'=]-\w))"""
AFTER_PATH = r"(?![\w-]|\.\w)"


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name a file in the system's error on writing to it, which names none, or a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Replace a file of text at once, with the home folder in it as ``~``."""
    write_bytes(path, without_home(text).encode())


def without_home(text: str) -> str:
    """Return a text, JSON and HTML too, with the user's home folder as ``~``: its path names the user."""
    home = os.path.expanduser("~")  # noqa: PTH111  Path.home() fails where there is none
    for folder in dict.fromkeys((home, os.path.realpath(home))):
        if len(Path(folder).parts) < 2:  # /, of a user without one
            continue
        for written in {folder, json.dumps(folder)[1:-1], html.escape(folder)}:
            if written in text:
                text = re.sub(BEFORE_PATH + re.escape(written) + AFTER_PATH, "~", text)
                text = re.sub(r"(?:\.\./)+" + re.escape(written.lstrip("/")) + AFTER_PATH, "~", text)
    return text


def with_home(value: Any) -> Any:
    """Return a path as it is here, of one that `without_home` has made; other values as they are."""
    return os.path.expanduser(value) if isinstance(value, str) and value.startswith("~/") else value  # noqa: PTH111


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file at once: readers see the old one or the new one, never a part."""
    with naming(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def own_file(path: Path, most: int | None = None) -> bool:
    """Return whether there is a file of a run. A directory may come from anybody: it holds its files itself.

    Raises:
        RunError: it is a link out of its directory or to nothing, or has more bytes than any of a run (``most``).

    """
    if path.is_symlink():
        target = Path(os.path.realpath(path))  # of a loop, itself
        if target.parent != path.parent.resolve() or not target.is_file():
            raise RunError(
                f"{path} is a link out of its directory or to nothing and cannot be read: put the file there"
            )
    if not path.is_file():
        return False
    if path.stat().st_size > (most := MOST_BYTES if most is None else most):
        raise RunError(f"{path} has over {most >> 20} MiB, which no file of a run has: it is not read")
    return True


def unpacked(path: Path) -> bytes:
    """Return what a compressed file of a run holds.

    Raises:
        RunError: it is damaged, or holds more than any file of a run.

    """
    try:
        with gzip.open(path) as file:
            content = file.read(MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise RunError(f"{path} cannot be read ({error}): restore it") from error
    if len(content) > MOST_UNPACKED:
        raise RunError(f"{path} holds over {MOST_UNPACKED >> 20} MiB, which no file of a run does: it is not read")
    return content


def as_kept(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document as a file of a run has it, to be compared with what one does."""
    return dict(json.loads(without_home(json.dumps(json_ready(document)))))


def inert(cell: Any) -> Any:
    """Return a cell that no spreadsheet computes: a text like a formula gets an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def _as_written(cell: Any) -> Any:
    return cell[1:] if isinstance(cell, str) and cell[:1] == "'" and FORMULA.match(cell[1:]) else cell


def _with_cells(frame: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    """Return a table with its texts changed; columns in which nothing changes stay as they are."""
    texts = frame.select_dtypes(include=["object", "string"])
    changed = {str(name): list(map(change, texts[name])) for name in texts}
    return frame.assign(**{
        name: cells for name, cells in changed.items() if any(map(operator.is_not, cells, texts[name]))
    })  # fmt: skip


def csv_text(frame: pd.DataFrame) -> str:
    """Return a table as CSV; a cell that holds any character that could end a row is quoted, and none computes.

    Python's csv quotes a line feed, but a carriage return only where its rows end with one too, though every
    reader ends a row there: such a table has the line ends of RFC 4180.
    """
    frame = _with_cells(frame, inert)
    text = frame.to_csv(index=False)
    return frame.to_csv(index=False, lineterminator="\r\n") if "\r" in text else text


def read_json(path: Path, kind: Any = Any) -> dict[str, Any] | None:
    """Return a JSON object that holds what its declaration (``kind``) says, None where there is no file.

    Raises:
        RunError: it cannot be read, or is something else.

    """
    if not own_file(path, MOST_OF_JSON):
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read ({error}): restore it or measure again") from error
    if not isinstance(document, dict):
        raise RunError(f"{path} is not a JSON object: restore it or measure again")
    return declared(path, document, kind)


def declared(path: Path, document: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Return a document of a file if it holds what its declaration says.

    Raises:
        RunError: it does not, with where.

    """
    if flaw := document_flaw(document, kind):
        raise RunError(f"{path} cannot be read ({flaw}): restore it or measure again")
    return document


def read_table(path: Path, required: Iterable[str], row: type = object, others: Any = Any) -> pd.DataFrame | None:
    """Return a CSV table that has the ``required`` columns, None where there is no file.

    ``row`` declares what its columns hold, as the fields of a data class, and ``others`` what further columns do.

    Raises:
        RunError: it cannot be read, lacks a column, or has a cell of another kind than is declared.

    """
    if not own_file(path):
        return None
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # numbers beyond a column's type are an error
            dtypes: dict[str, Any] = {"layer": "Int64", **dict.fromkeys(texts_of(row), object)}
            frame = pd.read_csv(path, dtype=dtypes, keep_default_na=True)
    except (OSError, TypeError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}): restore it or measure again") from error
    missing = [column for column in required if column not in frame]
    if missing:
        raise RunError(f"{path} lacks the columns {', '.join(missing)}: restore it or measure again")
    if flaw := table_flaw(frame, row, others):
        raise RunError(f"{path} cannot be read ({flaw}): restore it or measure again")
    frame = _with_cells(frame, _as_written)
    for column in ("parent", "reasons"):
        if column in frame:
            frame[column] = frame[column].astype(object).where(frame[column].notna(), None)
    return frame


def json_ready(value: Any) -> Any:
    """Turn dataclasses, paths, numpy scalars and non-finite floats into what JSON can hold."""
    if is_dataclass(value) and not isinstance(value, type):
        return json_ready(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_ready(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes) and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value

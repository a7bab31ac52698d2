"""The index of a directory of runs: what lists say of each, read again only where a run has changed.

A run's ``run.json`` is replaced after every stage, so its times and size, and those of the energy table, tell
whether an entry still holds. An index that is missing, damaged, somebody else's or of another version is made
anew; one that cannot be written is done without.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from energyscope.errors import RunError
from energyscope.runs import schema
from energyscope.runs.files import own_file, write_text

INDEX_FILE = ".energyscope-index.json"
REVISION = 2  # of what entries hold
Entry = dict[str, Any]


@dataclass(frozen=True)
class Indexed:
    """A run's directory with its entry, or with why it cannot be read."""

    path: Path
    entry: Entry
    flaw: str | None = None


def indexed_runs(
    root: Path, describe: Callable[[Path], Entry], whole: Callable[[Entry], bool] = bool
) -> list[Indexed]:
    """Return the runs below a directory, oldest first, each with what ``describe`` says of it (plain data).

    ``describe`` is called where the index does not know a run as it is, and raises a RunError where the run cannot
    be read; that is not kept. An entry that is not ``whole`` counts for nothing.
    """
    known, found, fresh = _read(root, whole), [], {}
    try:
        for name, stamp in sorted(_stamps(root), key=lambda item: item[1]):
            path, kept = root / name, known.get(name)
            if kept is None or kept["stamp"] != stamp:
                try:
                    kept = {"stamp": stamp, "entry": describe(path)}
                except RunError as error:
                    found.append(Indexed(path, {}, str(error)))
                    continue
            fresh[name] = kept
            found.append(Indexed(path, kept["entry"]))
    finally:  # who stops the first list of many runs need not wait for these again
        if fresh != known:
            _write(root, fresh)
    return found


def _stamps(root: Path) -> Iterator[tuple[str, list[int]]]:
    """Yield each run's name with the time (ns), change (ns) and size of its run.json and of its energy table."""
    if not root.is_dir():
        return
    with os.scandir(root) as folders:
        for folder in folders:
            stamp = _stamp(f"{folder.path}/{schema.RUN_FILE}")
            if stamp:  # else it is no run, or was removed meanwhile
                yield folder.name, stamp + _stamp(f"{folder.path}/{schema.ENERGY_FILE}")


def _stamp(file: str) -> list[int]:
    try:
        status = os.stat(file)  # noqa: PTH116  of thousands
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size]


def _version() -> list[Any]:
    return [REVISION, metadata.version("energyscope-llm")]


def _read(root: Path, whole: Callable[[Entry], bool]) -> dict[str, Any]:
    """Return the entries of an index that this user wrote."""
    file = root / INDEX_FILE
    try:
        if own_file(file) and file.stat().st_uid == os.getuid():
            index = json.loads(file.read_text(encoding="utf-8"))
            if index["version"] == _version():
                return {
                    name: kept
                    for name, kept in index["runs"].items()
                    if isinstance(kept["stamp"], list) and isinstance(kept["entry"], dict) and whole(kept["entry"])
                }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, RunError):
        pass
    return {}


def _write(root: Path, runs: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        write_text(root / INDEX_FILE, json.dumps({"version": _version(), "runs": runs}))

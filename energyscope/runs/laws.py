"""A document of scaling as a file: ``laws.json`` of a sweep, or of a directory that `energyscope laws` made."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyscope.errors import RunError
from energyscope.runs.documents import LawsDocument
from energyscope.runs.files import declared, read_json, with_home
from energyscope.runs.schema import LAWS_JSON, REPORT_FILE, SWEEP_FILE
from energyscope.runs.store import DEFAULT_ROOT, RunStore

LAWS_VERSION = 2  # since 2, reasons are codes
PARENTS = 2  # directories above a run, or above its sweep, in which its laws are looked for
RENAMED = {  # in schema 1: present
    "two-term in bytes": "two-term-in-bytes",
    "per call": "per-call",
    "roofline (floor)": "roofline-floor",
    "roofline (sum)": "roofline-sum",
    "roofline (board's rates)": "roofline-board-rates",
    "sum over parts": "sum-over-parts",
    "cannot be told": "unclear",
}


def find_laws(reference: str | Path, root: Path = DEFAULT_ROOT) -> Path | None:
    """Return the directory of the laws that a path or a name means; None where it holds neither laws nor a sweep.

    Raises:
        RunError: it is a sweep of which no laws were made.

    """
    direct = Path(reference)
    if direct.name in {LAWS_JSON, REPORT_FILE, SWEEP_FILE}:
        direct = direct.parent
    places = (direct, root / direct)
    laws = next((path for path in places if (path / LAWS_JSON).is_file()), None)
    sweep = next((path for path in places if (path / SWEEP_FILE).is_file()), None)
    if laws is None and sweep is not None:
        raise RunError(f"{sweep} is a sweep without {LAWS_JSON}: `energyscope laws {sweep}` makes a page of it")
    return laws


def list_laws(root: Path = DEFAULT_ROOT, *, leave: Collection[str] = ()) -> list[Path]:
    """Return the directories below ``root`` that `energyscope laws` made, oldest first; none to ``leave``."""
    folders = [path for path in (root.iterdir() if root.is_dir() else ()) if path.name not in leave]
    folders = [path for path in folders if _holds_laws(path) and not (path / SWEEP_FILE).is_file()]
    return sorted(folders, key=lambda path: (path / LAWS_JSON).stat().st_mtime)


@dataclass(frozen=True)
class LawsOfRun:
    """A document of laws that a run is a source of; ``parents`` says how many directories up it was found."""

    folder: Path
    document: dict[str, Any]
    parents: int


def laws_of_run(run: Path) -> list[LawsOfRun]:
    """Return the laws that name a run's directory among their sources, the nearest first.

    They stand in a parent of the run, as a sweep's do, or in a directory of such a parent, as those that
    `energyscope laws` makes. Laws that cannot be read are passed over.
    """
    place = run.resolve()
    reached = PARENTS + (place.parent / SWEEP_FILE).is_file()
    naming: dict[Path, LawsOfRun] = {}
    for parents, parent in enumerate(place.parents[:reached], start=1):
        for folder in _with_laws(parent):
            with suppress(RunError):
                document = load_laws(folder)
                if any(is_of_run(source, folder, place) for source in document["sources"]):
                    naming.setdefault(folder, LawsOfRun(folder, document, parents))
    return list(naming.values())


def is_of_run(entry: object, folder: Path, run: Path) -> bool:
    """Tell whether a source or a cell of the laws in ``folder`` is of the run in this resolved directory."""
    path = entry.get("path") if isinstance(entry, Mapping) else None
    return isinstance(path, str) and bool(path) and Path(os.path.normpath(folder / with_home(path))) == run


def _with_laws(parent: Path) -> list[Path]:
    """Return a directory and those in it, in the order of their names, where they hold laws."""
    try:
        inside = sorted(parent.iterdir())
    except OSError:
        return []
    return [path.resolve() for path in (parent, *inside) if _holds_laws(path)]


def _holds_laws(path: Path) -> bool:
    try:
        return (path / LAWS_JSON).is_file()
    except OSError:  # the directory is somebody else's
        return False


def load_laws(path: Path) -> dict[str, Any]:
    """Read laws.json of a directory.

    Raises:
        RunError: there is none, it is broken, or of a newer version.

    """
    file = path / LAWS_JSON
    document = read_json(file)
    if document is None:
        raise RunError(f"{file} cannot be read: give the directory of an `energyscope sweep` or `laws`")
    if not isinstance(document.get("schema"), int):
        raise RunError(f"{file} states no schema version: it was not written by energyscope")
    if document["schema"] > LAWS_VERSION:
        raise RunError(
            f"{file} was written by a newer energyscope (schema {document['schema']}, this one reads up to "
            f"{LAWS_VERSION}): upgrade energyscope-llm"
        )
    declared(file, document, LawsDocument)
    return _renamed(document) if document["schema"] < 2 else document


def _renamed(part: Any) -> Any:
    """Return a part of a document with the present names of its laws and verdicts; reasons stay as they are."""
    if isinstance(part, list):
        return [_renamed(item) for item in part]
    if not isinstance(part, dict):
        return part
    named = {key: RENAMED.get(part[key], part[key]) for key in ("law", "best", "verdict") if key in part}
    return {key: _renamed(value) for key, value in part.items()} | named


def write_laws(path: Path, document: Mapping[str, Any]) -> None:
    """Write laws.json into a directory, atomically."""
    RunStore(path).write_json(LAWS_JSON, document)

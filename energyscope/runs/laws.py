"""A document of scaling as a file: ``laws.json`` of a sweep, or of a directory that `energyscope laws` made."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyscope.errors import RunError
from energyscope.runs.schema import LAWS_JSON, REPORT_FILE, SWEEP_FILE
from energyscope.runs.store import DEFAULT_ROOT, RunStore

LAWS_VERSION = 2  # since 2, reasons are codes
PARENTS = (
    2  # of a run, or of the sweep that it is a cell of, up to which laws are looked for: SET beside cells/RUN
)
RENAMED = {  # laws and verdicts of schema 1
    "two-term in bytes": "two-term-in-bytes",
    "per call": "per-call",
    "roofline (floor)": "roofline-floor",
    "roofline (sum)": "roofline-sum",
    "roofline (board's rates)": "roofline-board-rates",
    "sum over parts": "sum-over-parts",
    "cannot be told": "unclear",
}
LISTS = (
    "weights", "sources", "notes", "not_measured", "groups", "contrasts", "efficiency", "sizes", "sizes_held_out",
)  # fmt: skip


def find_laws(reference: str | Path, root: Path = DEFAULT_ROOT) -> Path | None:
    """Return the directory of the laws that a path or a name means; None where that is no laws' and no sweep's.

    Raises:
        RunError: it is a sweep of which no laws were made.

    """
    direct = Path(reference)
    if direct.name in {LAWS_JSON, REPORT_FILE, SWEEP_FILE}:
        direct = direct.parent
    places = (direct, root / direct)
    found = next((one for one in places if (one / LAWS_JSON).is_file()), None)
    sweep = next((one for one in places if (one / SWEEP_FILE).is_file()), None)
    if found is None and sweep is not None:
        raise RunError(f"{sweep} is a sweep without {LAWS_JSON}: `energyscope laws {sweep}` makes a page of it")
    return found


def list_laws(root: Path = DEFAULT_ROOT) -> list[Path]:
    """Return the directories below ``root`` that `energyscope laws` made, oldest first."""
    made = [path for path in root.iterdir() if (path / LAWS_JSON).is_file()] if root.is_dir() else []
    return sorted(
        (path for path in made if not (path / SWEEP_FILE).is_file()),
        key=lambda path: (path / LAWS_JSON).stat().st_mtime,
    )


@dataclass(frozen=True)
class NamingLaws:
    """A document of laws that a run is a source of; ``parents`` says how many directories up it was found."""

    folder: Path
    document: dict[str, Any]
    parents: int


def laws_naming(run: Path) -> list[NamingLaws]:
    """Return the laws that name a run's directory among their sources, the nearest first.

    They stand in a parent of the run, as a sweep's do, or in a directory of such a parent, as those that
    `energyscope laws` makes. What cannot be read says nothing of this run, and is passed over.
    """
    place = run.resolve()
    reached = PARENTS + (place.parent / SWEEP_FILE).is_file()
    found: dict[Path, NamingLaws] = {}
    for parents, parent in enumerate(place.parents[:reached], start=1):
        for folder in _with_laws(parent):
            with suppress(RunError):
                document = load_laws(folder)
                if any(is_of_run(one, folder, place) for one in document["sources"]):
                    found.setdefault(folder, NamingLaws(folder, document, parents))
    return list(found.values())


def is_of_run(entry: object, folder: Path, run: Path) -> bool:
    """Tell whether a source or a cell of the laws in ``folder`` is of the run in this resolved directory."""
    path = entry.get("path") if isinstance(entry, Mapping) else None
    return isinstance(path, str) and bool(path) and Path(os.path.normpath(folder / path)) == run


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
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{file} cannot be read: give the directory of an `energyscope sweep` or `laws`") from error
    if not isinstance(document, dict) or not isinstance(document.get("schema"), int):
        raise RunError(f"{file} states no schema version: it was not written by energyscope")
    if document["schema"] > LAWS_VERSION:
        raise RunError(
            f"{file} was written by a newer energyscope (schema {document['schema']}, this one reads up to "
            f"{LAWS_VERSION}): upgrade energyscope-llm"
        )
    lacking = [name for name in LISTS if not isinstance(document.get(name), list)]
    lacking += [
        f"{name} of a group"
        for group in (() if "groups" in lacking else document["groups"])
        for name in ("cells", "subjects", "ratios")
        if not isinstance(group, dict) or not isinstance(group.get(name), list)
    ]
    if lacking:
        raise RunError(f"{file} lacks {', '.join(dict.fromkeys(lacking))}: make it again with `energyscope laws`")
    return _renamed(document) if document["schema"] < 2 else document


def _renamed(found: Any) -> Any:
    """Return a part of a document with the present names of its laws and verdicts; reasons stay as they are."""
    if isinstance(found, list):
        return [_renamed(one) for one in found]
    if not isinstance(found, dict):
        return found
    named = {key: RENAMED.get(found[key], found[key]) for key in ("law", "best", "verdict") if key in found}
    return {key: _renamed(value) for key, value in found.items()} | named


def write_laws(path: Path, document: Mapping[str, Any]) -> None:
    """Write laws.json into a directory, atomically."""
    RunStore(path).write_json(LAWS_JSON, document)

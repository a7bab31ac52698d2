"""Removing runs, sweeps and laws, and packing them into one file each."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from energyscope.errors import RunError, UsageError
from energyscope.runs import schema
from energyscope.runs.locks import BEING_MEASURED, is_being_written
from energyscope.runs.store import DEFAULT_ROOT, find_run
from energyscope.runs.sweeps import is_being_measured, is_sweep, lock_message

SUFFIX = ".tar.gz"


def find_measured(reference: str, root: Path = DEFAULT_ROOT) -> Path:
    """Return the directory of a run, a sweep or laws that nothing is measuring now.

    Raises:
        RunError: there is none, or a process writes to it.
        UsageError: it is a link, whose target may be anywhere.

    """
    direct = (Path(reference), root / reference)
    others = (path for path in direct if is_sweep(path) or (path / schema.LAWS_JSON).is_file())
    path = next(others, None) or find_run(reference, root)
    if path.is_symlink():
        raise UsageError(f"{path} is a link: name the directory itself")
    if is_sweep(path) and is_being_measured(path):
        raise RunError(lock_message(path))
    if is_being_written(path):
        raise RunError(f"{path} {BEING_MEASURED}")
    return path


def remove(path: Path) -> None:
    """Remove a directory of `find_measured` with all that is in it; links in it are removed, not followed."""
    shutil.rmtree(path)


def archive(path: Path, folder: Path) -> Path:
    """Pack a directory of `find_measured` into a file in ``folder``, check it, and remove the directory.

    Raises:
        UsageError: the file exists.
        RunError: what was packed is not what is there; then nothing is removed.

    """
    file = folder / f"{path.name}{SUFFIX}"
    if file.exists():
        raise UsageError(f"{file} exists: remove it, or use another --to")
    folder.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    try:
        with tarfile.open(part, "w:gz") as packed:
            packed.add(path, arcname=path.name)
        if _packed_sizes(part) != _sizes(path):
            raise RunError(f"{path} changed while it was packed: try again")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    remove(path)
    return file


def _sizes(path: Path) -> dict[str, int]:
    files = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return {str(Path(path.name) / file.relative_to(path)): file.stat().st_size for file in files}


def _packed_sizes(file: Path) -> dict[str, int]:
    with tarfile.open(file, "r:gz") as packed:
        return {member.name: member.size for member in packed.getmembers() if member.isfile()}

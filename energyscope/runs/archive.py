"""Removing runs, sweeps and laws, and packing them into one file each."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from energyscope.errors import RunError, UsageError
from energyscope.runs import schema
from energyscope.runs.locks import BEING_MEASURED, is_being_written, write_lock
from energyscope.runs.store import DEFAULT_ROOT, read_document
from energyscope.runs.summary import state
from energyscope.runs.sweeps import is_sweep, sweep_lock

SUFFIX = ".tar.gz"
DOCUMENTS = (schema.RUN_FILE, schema.SWEEP_FILE, schema.LAWS_JSON)


@contextlib.contextmanager
def held(references: Sequence[str], root: Path = DEFAULT_ROOT) -> Iterator[list[Path]]:
    """Yield the directories of runs, sweeps and laws, with their locks held: nobody measures them meanwhile.

    Raises:
        RunError: there is none of a name, which must be whole, or a process writes to it.
        UsageError: it is a link, whose target may be anywhere, or a cell of a sweep.

    """
    paths = list(dict.fromkeys(_directory(reference, root) for reference in references))
    with contextlib.ExitStack() as locks:
        for path in paths:
            if is_sweep(path):
                locks.enter_context(sweep_lock(path))
            for run in (path, *(path.iterdir() if is_sweep(path) else ())):
                if (run / schema.RUN_FILE).is_file():
                    _refuse_if_it_may_run(run)
                    locks.enter_context(write_lock(run))
        yield paths


def _directory(reference: str, root: Path) -> Path:
    for place in (Path(reference), root / reference):
        path = Path(os.path.abspath(place))  # noqa: PTH100  links stay links
        if any((path / name).is_file() for name in DOCUMENTS):
            if path.is_symlink():
                raise UsageError(f"{path} is a link: name the directory itself")
            if is_sweep(path.parent):
                raise UsageError(f"{path} is a cell of a sweep: name the sweep, {path.parent}")
            return path
    raise RunError(
        f"no run or sweep {reference!r} here or in {root}/: give a whole name (`energyscope runs` lists all)"
    )


def _refuse_if_it_may_run(run: Path) -> None:
    """Where locks tell nothing, as on some network disks, a run that says it is running is taken at its word."""
    if is_being_written(run) is None and state(read_document(run)) == "running":
        raise RunError(f"{run} {BEING_MEASURED} (its disk knows no locks: remove it by hand if that is not so)")


def remove(path: Path) -> None:
    """Remove a directory that is `held`, with all that is in it; links in it are removed, not followed."""
    shutil.rmtree(path)


def pack(path: Path, folder: Path) -> Path:
    """Pack a directory that is `held` into a file in ``folder``, read it back, and return the file, on disk.

    Raises:
        UsageError: the file exists, or would be in the directory itself.
        RunError: what was packed is not what is there.

    """
    file = folder / f"{path.name}{SUFFIX}"
    if file.exists():
        raise UsageError(f"{file} exists: remove it, or use another --to")
    if folder.resolve().is_relative_to(path.resolve()):
        raise UsageError(f"{folder} is in {path}: use another --to")
    folder.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    try:
        with part.open("wb") as stream:
            with tarfile.open(fileobj=stream, mode="w:gz") as packed:
                for item in _items(path):
                    _add(packed, item, str(Path(path.name) / item.relative_to(path)))
            stream.flush()
            os.fsync(stream.fileno())
        if _packed_digests(part) != _digests(path):
            raise RunError(f"{path} changed while it was packed: try again")
        part.replace(file)
        _sync(folder)
    finally:
        part.unlink(missing_ok=True)
    return file


def _items(path: Path) -> list[Path]:
    """Return a directory and what is in it, without the empty journal that its lock may have made."""
    inside = sorted(path.rglob("*"))
    return [path, *(item for item in inside if item.name != schema.JOURNAL_FILE or item.stat().st_size)]


def _add(packed: tarfile.TarFile, item: Path, name: str) -> None:
    """Pack one file, link or directory: without its owner, and of hard links each as a file."""
    info = packed.gettarinfo(item, arcname=name)
    if info is None:  # a socket, say
        return
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    if not item.is_file() or item.is_symlink():
        packed.addfile(info)
        return
    info.type, info.linkname, info.size = tarfile.REGTYPE, "", item.stat().st_size
    with item.open("rb") as content:
        packed.addfile(info, content)


def _digests(path: Path) -> dict[str, str]:
    digests = {}
    for item in _items(path):
        if item.is_file() and not item.is_symlink():
            with item.open("rb") as content:
                digests[str(Path(path.name) / item.relative_to(path))] = _digest(content)
    return digests


def _packed_digests(file: Path) -> dict[str, str]:
    with tarfile.open(file, "r:gz") as packed:
        contents = ((member.name, packed.extractfile(member)) for member in packed if member.isreg())
        return {name: _digest(content) for name, content in contents if content is not None}


def _digest(content: IO[bytes]) -> str:
    return hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]


def _sync(folder: Path) -> None:
    """Bring a folder's names to the disk, where its file system can."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

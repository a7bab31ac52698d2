"""Small JSON files in the user's application directory: what was found once and is used again."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Any

import typer


def read(name: str) -> dict[str, Any]:
    """Return a file's content; empty where there is none, or none that can be read."""
    try:
        known = json.loads(_path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def write(name: str, known: dict[str, Any]) -> None:
    """Keep what is known; a directory that cannot be written costs another search, and no more."""
    with contextlib.suppress(OSError):
        path = _path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps(known, indent=1), encoding="utf-8")
        written.replace(path)  # whoever reads it meanwhile has the whole of one or the other


def add(name: str, found: dict[str, Any]) -> None:
    """Keep what was found beside what other processes found meanwhile, each on a board of its own."""
    with contextlib.suppress(OSError):
        path = _path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            write(name, {**read(name), **found})


def _path(name: str) -> Path:
    folder = Path(typer.get_app_dir("energyscope"))
    return (folder if folder.is_absolute() else Path.home() / ".energyscope") / name  # an empty XDG_CONFIG_HOME

"""Small JSON files in the user's application directory: what was found once and is used again."""

from __future__ import annotations

import contextlib
import json
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
        path.write_text(json.dumps(known, indent=1), encoding="utf-8")


def _path(name: str) -> Path:
    folder = Path(typer.get_app_dir("energyscope"))
    return (folder if folder.is_absolute() else Path.home() / ".energyscope") / name  # an empty XDG_CONFIG_HOME

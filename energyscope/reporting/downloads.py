"""The files of a run that its report carries, packed, so that a reader of the page alone can save them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from energyscope.runs import schema

MOST_BYTES = 1_000_000  # in the page, of all files together
_FILES = (
    (schema.RUN_FILE, "Settings, device and state of the run"),
    (schema.ENERGY_FILE, "Energy of every component"),
    (schema.BENCHMARK_FILE, "Benchmark, every trial"),
    (schema.MERGED_FILE, "Energy and impact in one table"),
    (schema.IMPACT_FILE, "Impact of every change"),
)
_ROWS = (schema.EnergyRow, schema.ImpactRow, schema.BenchmarkRow)


@dataclass(frozen=True)
class Download:
    """A file of the run: its name there, what it holds, and its bytes as zlib in base64.

    ``packed`` is None of a file for which the page has no room; it lies beside the page.
    """

    name: str
    title: str
    packed: str | None

    @property
    def formats(self) -> tuple[str, ...]:
        """The forms in which it can be saved; a table's own is CSV."""
        return ("csv", "json") if self.name.endswith(".csv") else ("json",)


def downloads(folder: Path, room: int = MOST_BYTES) -> list[Download]:
    """Return the files of a run's directory that a page of it carries, the ones it needs most first."""
    found = []
    for name, title in _FILES:
        file = folder / name
        if not file.is_file():
            continue
        packed = base64.b64encode(zlib.compress(file.read_bytes(), 9)).decode("ascii")
        fits = len(packed) <= room
        room -= len(packed) if fits else 0
        found.append(Download(name, title, packed if fits else None))
    return found


def download_payload(run: str, found: Iterable[Download]) -> dict[str, Any]:
    """Return what the script needs to save files: their bytes, and which columns are text whatever they hold."""
    return {
        "run": run,
        "files": {one.name: one.packed for one in found if one.packed is not None},
        "texts": sorted({field.name for row in _ROWS for field in fields(row) if "str" in str(field.type)}),
    }

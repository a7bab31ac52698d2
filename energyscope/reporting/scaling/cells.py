"""The cells that laws are made of, with links to their runs; what was not measured; and the method."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from energyscope.reporting.run.report import execution_name
from energyscope.reporting.scaling.laws import LAWS, Entry, Laws, fitted
from energyscope.reporting.section import Content
from energyscope.reporting.table import Column, Table
from energyscope.runs.files import with_home
from energyscope.runs.schema import REPORT_FILE


@LAWS.section(7, "cells", "Cells")
def section(laws: Laws) -> Content:
    """Return every cell, and those that sweeps could not measure."""
    return Content(tables={"cells": _cells(laws), "not-measured": _not_measured(laws)})


@LAWS.section(8, "method", "Method")
def method(laws: Laws) -> Content:
    """Return how the laws came about."""
    subjects = [subject for group in laws.groups for subject in group["subjects"]]
    data = {
        "command": laws.document.get("command"),
        "modelled": laws.modelled,
        "flops": laws.flops,
        "roofline": any(fitted(subject.get("roofline")) for subject in subjects),
        "sizes": bool(laws.settings),
    }
    return Content(data)


def _cells(laws: Laws) -> Table:
    """Return the runs that laws were made of, each with a link to its page where that is there."""
    columns = [
        Column("run", "Run"),
        Column("model", "Model"),
        Column("phase", "Phase"),
        Column("precision", "Precision"),
        Column("name", "Execution"),
        Column("batch_size", "Batch", "count"),
        Column("tokens", "Tokens", "count", "of a sequence, or in the cache"),
        Column("quality", "Grade", "grade", "of the whole model's energy"),
        Column("kv_cache", "KV cache"),
        Column("weights", "Weights"),
        Column("meter", "Meter"),
        Column("method", "Method"),
        Column("device", "Device"),
        Column("board", "Board", "code"),
        *([Column("limit", "Held to")] if any(source.get("limit") for source in laws.document["sources"]) else []),
    ]
    rows: list[dict[str, Any]] = [
        {**source, "name": execution_name(source.get("execution")), "href": _link(source, laws.folder)}
        for source in laws.document["sources"]
    ]
    return Table(columns, rows, "Cells")


def _link(source: Entry, folder: Path) -> str | None:
    """Return a relative link to a run's page, or to its directory; None where neither is there any more.

    A directory that was moved with its cells is found by the cells' names.
    """
    for path in filter(None, (source.get("path"), source.get("run"))):
        place = folder / with_home(str(path))
        try:
            if not place.is_dir() or place.resolve() == folder.resolve():
                continue
            page = place / REPORT_FILE
            target = Path(os.path.relpath(page if page.is_file() else place, folder)).as_posix()
        except (OSError, ValueError):  # a name that no file can have
            continue
        return quote(f"./{target}" if page.is_file() else f"./{target}/")
    return None


def _not_measured(laws: Laws) -> Table:
    """Return the cells of sweeps that were not measured, and why."""
    columns = [Column("cell", "Not measured"), Column("state", "State"), Column("reason", "Why", "reasons")]
    rows = [
        {**cell, "cell": "/".join(str(cell[name]) for name in ("sweep", "cell") if cell.get(name))}
        for cell in laws.document["not_measured"]
    ]
    return Table(columns, rows, "Cells that were not measured")

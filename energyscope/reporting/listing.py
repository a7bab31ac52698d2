"""The lists of runs, and of sweeps and laws: what they say of each, and which runs are asked for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyscope import format as fmt
from energyscope.errors import RunError
from energyscope.intervals import from_entry, serialize
from energyscope.reporting.table import Column, Table
from energyscope.runs.index import Indexed, indexed_runs
from energyscope.runs.laws import list_laws, load_laws
from energyscope.runs.locks import is_being_written
from energyscope.runs.sweeps import list_sweeps, load_sweep

KINDS = {"created": str, "state": str, "how": str, "tags": list, "summary": str}  # of what an entry holds
NEEDED = {*KINDS, "energy", "meter", "model", "device", "note"}
STATES = {True: "running", False: "broken off", None: "running or broken off"}  # by whether it is being written


@dataclass(frozen=True)
class Filters:
    """Which runs are listed: those that fit all that is given.

    ``model`` and ``device`` are parts of names, in any case; ``since`` and ``before`` are times (UTC) or the
    beginning of one, as 2026-11-28 is; ``tag`` is one of a run's tags.
    """

    model: str | None = None
    device: str | None = None
    since: str | None = None
    before: str | None = None
    tag: str | None = None

    def fit(self, entry: dict[str, Any]) -> bool:
        """Tell whether a run's entry fits."""
        created = str(entry["created"])
        return (
            _within(self.model, entry["model"])
            and _within(self.device, entry["device"])
            and (self.since is None or created >= self.since)
            and (self.before is None or created < self.before)
            and (self.tag is None or self.tag in entry["tags"])
        )


def _within(part: str | None, name: str | None) -> bool:
    return part is None or part.lower() in str(name or "").lower()


def list_of_runs(root: Path, filters: Filters) -> list[Indexed]:
    """Return the runs below a directory that fit, oldest first, and those that cannot be read."""
    return [run for run in indexed_runs(root, describe, _is_whole) if run.flaw or filters.fit(run.entry)]


def _is_whole(entry: dict[str, Any]) -> bool:
    """Tell whether an entry has what the list needs, of its type."""
    return entry.keys() >= NEEDED and all(isinstance(entry[name], kind) for name, kind in KINDS.items())


def describe(path: Path) -> dict[str, Any]:
    """Return what the list says of a run, as plain data, with its summary as JSON: few lists need it.

    Raises:
        RunError: it cannot be read, or holds something else than a run does.

    """
    try:
        return _described(path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{path} holds something else than a run does ({type(error).__name__}: {error})") from error


def _described(path: Path) -> dict[str, Any]:
    # only of runs that have changed: these read tables
    from energyscope.reporting.run.report import Report
    from energyscope.runs.store import load_run
    from energyscope.runs.summary import state, summary

    run = load_run(path)
    report = Report(run)
    settings, device = report.part("settings"), report.part("device")
    baseline = report.benchmark.get("baseline")
    base = next((cell for cell in report.cells if cell.get("precision") == baseline), {})
    energy = report.main.energy if report.main else from_entry(base.get("energy_mj"))
    how = [settings.get(key) for key in ("precision", "execution", "sampling") if settings.get(key) != "replay"]
    how += ["MODELLED"] if run.modelled else []
    return {
        "energy": serialize(energy),
        "meter": "MODELLED" if run.modelled else report.part("sensor").get("meter"),
        "model": report.part("model").get("name") or settings.get("model"),
        "device": device.get("name") or device.get("type"),
        "how": ", ".join(str(word) for word in how if word),
        "created": str(run.document.get("created") or ""),
        "state": state(run.document),
        "tags": [str(tag) for tag in tags] if isinstance(tags := run.document.get("tags"), list) else [],
        "note": run.document.get("note"),
        "summary": json.dumps(summary(run)),
    }


def runs_table(runs: Sequence[Indexed], *, more: int = 0) -> Table:
    """Return a line for each run: what was run, on what, how far it came, and what a pass or an inference took."""
    columns = [
        Column("name", "Run"),
        Column("energy", "Energy per pass", "mJ"),
        Column("meter", "Meter"),
        Column("model", "Model", rank=1),
        Column("device", "Device", rank=3),
        Column("how", "Measured", rank=4),
        Column("created", "Created", rank=5),
        Column("state", "State", rank=2),
        Column("tags", "Tags", rank=2),
        Column("note", "Note", rank=6),
    ]
    return Table(columns, [_row(run) for run in runs], "Runs", more=more)


def _row(run: Indexed) -> dict[str, Any]:
    entry = run.entry
    return {
        **entry,
        "name": run.path.name,
        "energy": from_entry(entry["energy"]),
        "created": entry["created"].replace("T", " ").removesuffix("Z"),
        "state": STATES[is_being_written(run.path)] if entry["state"] == "running" else entry["state"],
        "tags": ", ".join(entry["tags"]) or None,
    }


def summaries(runs: Sequence[Indexed]) -> Iterator[dict[str, Any]]:
    """Yield each run's summary, with tags and note, and its paths as they are now."""
    for run in runs:
        page = run.path / "report.html"
        yield {
            **json.loads(run.entry["summary"]),
            "path": str(run.path),
            "tags": run.entry["tags"],
            "note": run.entry["note"],
            "report": str(page) if page.exists() else None,
        }


def collections_table(root: Path, *, leave: Collection[str] = ()) -> Table:
    """Return a line for each sweep and for each laws below a root: models, and how many cells were measured.

    Directories of the names to ``leave`` are known to be neither.
    """
    columns = [
        Column("name", "Name"),
        Column("what", "What"),
        Column("models", "Model", rank=1),
        Column("cells", "Cells", "count"),
        Column("others", "Not measured"),
    ]
    rows = [*map(_sweep_row, list_sweeps(root, leave=leave)), *map(_laws_row, list_laws(root, leave=leave))]
    return Table(columns, rows, "Sweeps and laws")


def _sweep_row(path: Path) -> dict[str, Any]:
    try:
        sweep = load_sweep(path)
    except RunError as error:
        return {"name": path.name, "what": "sweep", "others": str(error)}
    states = Counter(cell.state for cell in sweep.cells)
    done = states.pop("done", 0)
    others = ", ".join(f"{number} {state}" for state, number in states.items())
    return {"name": path.name, "what": "sweep", "models": sweep.model, "cells": done, "others": others or None}


def _laws_row(path: Path) -> dict[str, Any]:
    try:
        document = load_laws(path)
    except RunError as error:
        return {"name": path.name, "what": "laws", "others": str(error)}
    models = list(dict.fromkeys(str(source.get("model")) for source in document["sources"]))
    return {"name": path.name, "what": "laws", "models": fmt.listed(models, 2), "cells": len(document["sources"])}

"""Laws: fit what runs and sweeps tell of lengths, batches, precisions and sizes, once, into one document."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from energyscope.errors import RunError, UsageError
from energyscope.reasons import Reason, join, reason, words
from energyscope.runs.laws import LAWS_VERSION, write_laws
from energyscope.runs.store import DEFAULT_ROOT, Run, RunStore, free_name, load_run, plain_name
from energyscope.runs.sweeps import Sweep, find_sweep, load_sweep
from energyscope.scaling.cells import Observation
from energyscope.scaling.from_runs import cells_of
from energyscope.scaling.law_document import law_document
from energyscope.stages.report import missing_packages

SOFTWARE = ("energyscope", "torch", "transformers", "cuda", "bitsandbytes")


@dataclass(frozen=True)
class MeasuredRuns:
    """The runs that laws are made of, what sweeps could not measure, and what a reader must know of either."""

    runs: Sequence[Run]
    not_measured: Sequence[Mapping[str, str | None]]
    notes: Sequence[Reason]


def laws(
    references: Sequence[str],
    *,
    name: str | None = None,
    root: Path = DEFAULT_ROOT,
    command: str | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Make a directory with the laws of runs and sweeps and their page; return it and the document.

    Raises:
        UsageError: no run was named, or the name is taken.
        RunError: a run cannot be read, or none of them measured components.

    """
    if not references:
        raise UsageError("laws are fitted to measurements: name runs or sweeps (`energyscope runs` lists runs)")
    if name is not None:
        RunStore.check_free(name, root)
    measured = gather(references, root)
    models = list(dict.fromkeys(str((run.document.get("model") or {}).get("name")) for run in measured.runs))
    chosen = name or free_name(f"{plain_name(models[0]) if len(models) == 1 else 'models'}-laws", root)
    document = document_of(measured, chosen, root / chosen, command)  # before a directory is made
    store = RunStore.create(chosen, root)
    _write(store.path, document)
    return store.path, document


def laws_of_sweep(sweep: Sweep) -> dict[str, Any]:
    """Write the laws of a sweep and their page into its directory, and return the document.

    Raises:
        RunError: nothing of it was measured, or a cell cannot be read.

    """
    document = document_of(_of_sweep(sweep), sweep.name, sweep.path, sweep.command)
    _write(sweep.path, document)
    return document


def gather(references: Sequence[str], root: Path = DEFAULT_ROOT) -> MeasuredRuns:
    """Read runs and sweeps; a run that is named twice counts once.

    Raises:
        RunError: there is no such run or sweep, or it cannot be read.

    """
    runs: dict[Path, Run] = {}
    not_measured: list[Mapping[str, str | None]] = []
    notes: list[Reason] = []
    for reference in dict.fromkeys(references):
        measured = _read(reference, root)
        runs |= {run.path.resolve(): run for run in measured.runs if run.path.resolve() not in runs}
        not_measured += [cell for cell in measured.not_measured if cell not in not_measured]
        notes += measured.notes
    return MeasuredRuns(list(runs.values()), not_measured, notes)


def document_of(measured: MeasuredRuns, name: str, path: Path, command: str | None) -> dict[str, Any]:
    """Return the whole document, as it will stand in the directory ``path``.

    Raises:
        RunError: no run measured components.

    """
    if len({run.modelled for run in measured.runs}) > 1:
        raise UsageError("some of these joules are measured and others modelled: make laws of each apart")
    observations: list[Observation] = []
    notes = list(measured.notes)
    for run in measured.runs:
        if run.energy is None or run.energy.empty:
            notes.append(reason("run-not-used", runs=[run.name], why=reason("no-component-energies")))
        else:
            observations += _observations(run, path)
    if not any(observation.cells for observation in observations):
        why = words(join(notes)) or "no cell was measured"
        raise RunError(f"nothing to fit laws to ({why}): run a sweep first")
    document = law_document(observations)
    return {
        "schema": LAWS_VERSION,
        "name": name,
        "created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "command": command,
        "energyscope": version("energyscope-llm"),
        "modelled": any(run.modelled for run in measured.runs),
        **document,
        "notes": [*notes, *document["notes"]],
        "not_measured": list(measured.not_measured),
    }


def _read(reference: str, root: Path) -> MeasuredRuns:
    try:
        path = find_sweep(reference, root)
    except RunError:  # of what is neither, a run's error says more
        return MeasuredRuns([load_run(reference, root)], [], [])
    return _of_sweep(load_sweep(path))


def _of_sweep(sweep: Sweep) -> MeasuredRuns:
    lacking = [
        {"sweep": sweep.name, "cell": cell.name, "state": cell.state, "reason": cell.reason}
        for cell in sweep.cells
        if cell.state != "done"
    ]
    runs = list(sweep.runs().values())
    return MeasuredRuns(runs, lacking, [] if runs else [reason("sweep-empty", sweep=sweep.name)])


def _observations(run: Run, path: Path) -> list[Observation]:
    """Return what a run measured, with its directory relative to ``path``."""
    model, device = run.document.get("model") or {}, run.document.get("device") or {}
    measured = len(device.get("measured") or ())
    name = device.get("name")
    return [
        replace(
            observation,
            path=Path(os.path.relpath(run.path.resolve(), path.resolve())).as_posix(),
            device=f"{measured} x {name}" if name and measured > 1 else name,
            parameters=model.get("parameters"),
            layers=model.get("layers"),
            software=_software(run),
        )
        for observation in cells_of(run)
    ]


def _software(run: Run) -> dict[str, str]:
    """Return what a run was measured with, as far as other versions may take other joules."""
    environment = run.document.get("environment") or {}
    versions = {name: environment.get(name) for name in SOFTWARE}
    versions["driver"] = (run.document.get("device") or {}).get("driver")
    return {name: str(value) for name, value in versions.items() if value is not None}


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """Write the document, and its page where it can be drawn: a measuring machine may lack what draws it."""
    write_laws(path, document)
    if not missing_packages():
        from energyscope.reporting.scaling.page import write_laws_page

        write_laws_page(path)

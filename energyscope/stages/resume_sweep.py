"""Resume: go on with a sweep that was interrupted, on the board and with the software of its finished cells.

Cells that are done stay; one that was stopped half-way is measured anew, since its windows and those after it
would be of two temperatures and two characterised sensors. Cells by an engine may be of several boards: each says
of which, and laws keep them apart.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from energyscope.errors import EnergyscopeError, RunError, UsageError
from energyscope.progress import Progress, silent
from energyscope.runs.method import FIELD, REVISION, changes_between, method_of
from energyscope.runs.schema import LAWS_JSON, REPORT_FILE, SWEEP_FILE
from energyscope.runs.store import RunStore, load_run, read_document
from energyscope.runs.sweeps import (
    TABLE_COLUMNS,
    TABLE_FILE,
    Sweep,
    SweepCell,
    is_being_measured,
    load_sweep,
    lock_message,
    sweep_lock,
    sweep_rows,
    write_sweep,
)
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.run import RunSettings
from energyscope.settings.sweep import SweepSettings
from energyscope.stages import facts
from energyscope.stages.laws import laws_of_sweep
from energyscope.stages.measured_devices import find_devices, open_meters
from energyscope.stages.resume_run import with_tuples
from energyscope.stages.sweep import measure_cells
from energyscope.stages.sweep_dry_run import SweepPlan, preview_sweep
from energyscope.stages.sweep_engine import check_engine
from energyscope.stages.sweep_limits import try_limits

RETRIED = ("failed", "does not fit")
SOFTWARE = ("torch", "transformers", "cuda", "bitsandbytes")  # other kernels, other joules


def resume(path: Path, *, retry: bool = False, progress: Progress = silent, command: str | None = None) -> Sweep:
    """Measure what a sweep lacks and return it; with ``retry`` what failed or did not fit is tried again.

    A sweep that lacks no cell is returned as it is, with its table and laws made if its end was cut off.

    Raises:
        RunError: there is no sweep, it cannot be read, or another process is measuring it.
        UsageError: the board, the meter or the software is another than that of its finished cells.
        EnergyscopeError: as `sweep`.
        KeyboardInterrupt: its note says where the finished cells are.

    """
    with sweep_lock(path):
        sweep = load_sweep(path)
        settings = settings_in(sweep)
        settings.check()
        lacking = lacking_cells(sweep, retry=retry)
        if not lacking:
            return _ended(sweep)
        if settings.by is None:
            _check_alike(sweep, lacking, settings)
            try_limits(settings.limits, find_devices(settings.run))
        else:
            check_engine(settings)
            _check_software(sweep, lacking)
        for file in (LAWS_JSON, REPORT_FILE, TABLE_FILE):  # they would lack cells
            (path / file).unlink(missing_ok=True)
        if (
            settings.by is None
        ):  # workers clear what they measure, and keep what was finished without being recorded
            for name in lacking:
                _clear(path / name)
        sweep.cells[:] = [
            replace(cell, state="waiting", reason=None, seconds=None) if cell.name in lacking else cell
            for cell in sweep.cells
        ]
        write_sweep(sweep)
        return measure_cells(settings, sweep, progress, command)


def preview_resume(path: Path, *, retry: bool = False) -> list[SweepPlan]:
    """Return what `resume` would measure of each model and execution.

    ``stopped`` is set where it would refuse this board, meter or software.

    The meter is opened for its name, and nothing is measured. It is left alone where another process measures the
    sweep, which `resume` would refuse as well.

    Raises:
        RunError: there is no sweep, or it cannot be read.
        EnergyscopeError: as `preview_sweep`.

    """
    sweep = load_sweep(path)
    settings, lacking = settings_in(sweep), lacking_cells(sweep, retry=retry)
    held = is_being_measured(path)
    plans = [
        replace(preview_sweep(one, waiting=lacking), held=held, stopped=lock_message(path) if held else None)
        for one in settings.subjects()
    ]
    try:
        if lacking and not held and settings.by is None:
            _check_alike(sweep, lacking, settings)
    except EnergyscopeError as error:
        return [replace(plan, stopped=str(error)) for plan in plans]
    return plans


def lacking_cells(sweep: Sweep, *, retry: bool) -> set[str]:
    """Return the names of the cells that are to be measured, with ``retry`` also of those that failed."""
    states = ("waiting", "interrupted", *(RETRIED if retry else ()))
    return {cell.name for cell in sweep.cells if cell.state in states or _lost(sweep, cell)}


def _lost(sweep: Sweep, cell: SweepCell) -> bool:
    """Tell whether a cell that was measured cannot be read any more."""
    if cell.state != "done":
        return False
    try:
        load_run(sweep.path / cell.name)
    except RunError:
        return True
    return False


def _ended(sweep: Sweep) -> Sweep:
    """Return a sweep of which every cell was tried, with its table and laws."""
    if not any(cell.state == "done" for cell in sweep.cells):
        raise RunError(f"no cell of {sweep.path} could be measured: --retry tries them again")
    if not (sweep.path / LAWS_JSON).is_file():
        RunStore(sweep.path).write_rows(TABLE_FILE, sweep_rows(sweep), TABLE_COLUMNS)
        laws_of_sweep(sweep)
    return sweep


def settings_in(sweep: Sweep) -> SweepSettings:
    """Return the settings that a sweep was begun with, as it keeps them.

    Raises:
        RunError: they cannot be read.

    """
    try:
        known = with_tuples(sweep.settings)
        run = with_tuples(known.pop("run"))
        run |= {"root": Path(run["root"]), "benchmark": BenchmarkSettings(**with_tuples(run["benchmark"]))}
        return SweepSettings(RunSettings.of(**run), **{**known, "name": None})
    except (KeyError, TypeError, AttributeError, UsageError) as error:
        where = sweep.path / SWEEP_FILE
        raise RunError(f"the settings in {where} cannot be read ({error}): start a new sweep") from error


def _clear(folder: Path) -> None:
    """Remove what a cell left that was not finished."""
    if folder.is_symlink():
        raise RunError(f"{folder} is a link: remove it, and its cell is measured again")
    if folder.exists():
        shutil.rmtree(folder)


def _check_alike(sweep: Sweep, lacking: Collection[str], settings: SweepSettings) -> None:
    """Refuse to add cells of another board, meter or software to those that are done and not ``lacking``."""
    done = [cell.name for cell in sweep.cells if cell.state == "done" and cell.name not in lacking]
    if not done:
        return
    versions = facts.environment()
    where = find_devices(settings.run)
    group = open_meters(settings.run, where.gpus)
    are = facts.measured_gpus(group) or _boards(facts.device_facts(where.device))
    for before in (read_document(sweep.path / name) for name in done):
        _check_one(sweep, before, versions, are, group.meters[0].name)


def _check_software(sweep: Sweep, lacking: Collection[str]) -> None:
    """Refuse to add cells by other versions than those of this process, which local workers share."""
    versions = facts.environment()
    for cell in sweep.cells:
        if cell.state == "done" and cell.name not in lacking:
            _check_versions(sweep, read_document(sweep.path / cell.name), versions)


def _check_versions(sweep: Sweep, before: Mapping[str, Any], versions: Mapping[str, Any]) -> None:
    for name in SOFTWARE:
        was, now = before["environment"].get(name), versions[name]
        if was != now:
            _refuse(sweep, f"with {name} {was}, not {now}", "install that version")


def _check_one(
    sweep: Sweep, before: Mapping[str, Any], versions: Mapping[str, Any], are: Sequence[str], meter: str
) -> None:
    _check_versions(sweep, before, versions)
    phase, execution = sweep.cells[0].phase, str(before["settings"].get("execution"))
    methods = method_of(before, phase, execution), method_of({FIELD: REVISION}, phase, execution)
    if methods[0] != methods[1]:
        difference = f"by method {changes_between(*methods, phase, execution).words}"
        _refuse(sweep, difference, "use that version of energyscope")
    were, by = _boards(before["device"]), before["sensor"]["meter"]
    if not set(were) <= set(are):  # of GPUs that a map may use, it may have left some empty
        _refuse(sweep, f"on {', '.join(were)}, not {', '.join(are)}", "use that board")
    if meter != by:
        _refuse(sweep, f"by the meter {by}, not {meter}", "see `energyscope doctor`")


def _boards(device: Mapping[str, Any]) -> list[str]:
    return list(device.get("measured") or [device["uuid"] or device["name"]])


def _refuse(sweep: Sweep, difference: str, remedy: str) -> None:
    raise UsageError(
        f"the cells in {sweep.path / SWEEP_FILE} were measured {difference}: {remedy}, or begin a new sweep"
    )

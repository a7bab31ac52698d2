"""Sweep: models over lengths, batch sizes, precisions and executions, each cell a run of its own in one directory.

One model is measured in this process, and what its cells share is done once for a precision: the model is loaded,
the sensor is started and characterised, and the board is warmed. An engine measures each cell in a process instead
(`sweep_engine`). A cell that fails is recorded with its reason, and the sweep goes on.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from energyscope.benchmarking.memory import release
from energyscope.errors import DeviceError, EnergyscopeError, UsageError
from energyscope.loading import LoadedModel, check_precision
from energyscope.loading.options import resolve_precision
from energyscope.metering.group import SharedGroup
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, reason
from energyscope.runs.store import RunStore
from energyscope.runs.sweeps import (
    TABLE_COLUMNS,
    TABLE_FILE,
    Sweep,
    SweepCell,
    load_sweep,
    require_a_cell,
    sweep_lock,
    sweep_rows,
    write_sweep,
)
from energyscope.settings.sweep import METERED, SweepSettings
from energyscope.stages.laws import laws_of_sweep
from energyscope.stages.measured_devices import find_devices, of_devices, open_meters
from energyscope.stages.preparing import load
from energyscope.stages.run import default_name, run_loaded
from energyscope.stages.sweep_engine import (
    cells_of,
    check_engine,
    lengths_refused,
    measure_by_engine,
    with_whole_paths,
)
from energyscope.stages.sweep_limits import limits_held, try_limits

STAGE = "sweep"


def sweep(settings: SweepSettings, *, progress: Progress = silent, command: str | None = None) -> Sweep:
    """Measure every cell and return the sweep; what was finished is kept whatever happens.

    Raises:
        EnergyscopeError: the model cannot be loaded in any precision, a length is beyond its positions, or no cell
            could be measured.
        KeyboardInterrupt: its note says where the finished cells are.

    """
    settings.check()
    if settings.by is None:
        settings = settings.subjects()[0]
        if refused := lengths_refused(settings):
            raise UsageError(next(iter(refused.values())))
        settings = resolve_precisions(settings)
        try_limits(settings.limits, find_devices(settings.run))
        cells = settings.cells()
    else:
        check_engine(settings)
        settings = with_whole_paths(settings)
        cells = cells_of(settings)
    models = list(dict.fromkeys(one.run.model for one in settings.subjects()))
    what = Path(models[0]).name if len(models) == 1 else "models"
    name = settings.name or default_name(f"{what}-sweep", settings.run.root)
    store = RunStore.create(name, settings.run.root)
    made = Sweep(
        path=store.path,
        name=name,
        model=", ".join(models),
        created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        command=command,
        settings=_plain(settings),
        cells=cells,
    )
    with sweep_lock(made.path):
        write_sweep(made)
        return measure_cells(settings, made, progress, command)


def measure_cells(settings: SweepSettings, made: Sweep, progress: Progress, command: str | None) -> Sweep:
    """Measure the waiting cells of a sweep, write its table and laws, and return it; `sweep` says its errors."""
    try:
        if settings.by is None:
            steps = SweepSteps(progress, sum(cell.state == "waiting" for cell in made.cells))
            with limits_held(settings.limits, find_devices(settings.run)) as hold:
                _Sweeping(settings.subjects()[0], made, steps, command, hold).run()
        else:
            measure_by_engine(settings, made, progress)
    except KeyboardInterrupt as error:
        more = f"`energyscope sweep --resume {shlex.quote(str(made.path))}` measures the others"
        error.__notes__ = [f"finished cells are in {made.path}; {more}"]
        raise
    finally:
        RunStore(made.path).write_rows(TABLE_FILE, sweep_rows(made), TABLE_COLUMNS)
    finished = load_sweep(made.path)
    laws_of_sweep(finished)
    return finished


def resolve_precisions(settings: SweepSettings) -> SweepSettings:
    """Return the settings with each ``auto`` precision as what it means on the device.

    Raises:
        UsageError: a precision is not known, or cannot be had here.

    """
    device = str(find_devices(settings.run).device)
    resolved = [resolve_precision(settings.run.model, name, device) for name in settings.precisions]
    for precision in resolved:
        check_precision(precision)
    return replace(settings, precisions=tuple(dict.fromkeys(resolved)))


def _plain(settings: SweepSettings) -> dict[str, Any]:
    document = asdict(settings)
    document["run"] = settings.run.document()
    return document


@dataclass
class _Sweeping:
    settings: SweepSettings
    made: Sweep
    steps: SweepSteps
    command: str | None
    hold: Callable[[str], None]  # the GPU to a cell's limit

    def run(self) -> None:
        failures: list[EnergyscopeError] = []
        for precision in dict.fromkeys(cell.precision for cell in self.made.cells if cell.state == "waiting"):
            try:
                self._precision(precision)
            except EnergyscopeError as error:
                failures.append(_without_frames(error))
                self._give_up(precision, error)
            release(find_devices(self.settings.run).device)
        if failures and not any(cell.state == "done" for cell in self.made.cells):
            raise failures[0]
        require_a_cell(self.made)

    def _give_up(self, precision: str, error: EnergyscopeError) -> None:
        left = self._waiting(precision)
        self.steps.skip(len(left))
        for cell in left:
            self._record(cell, "failed", reason("failed", error=error))

    def _waiting(self, precision: str) -> list[SweepCell]:
        return [cell for cell in self.made.cells if cell.precision == precision and cell.state == "waiting"]

    def _precision(self, precision: str) -> None:
        """Load the model once, start the meters once, and measure the cells."""
        base = replace(self.settings.run, precision=precision, stages=(METERED,))
        where = find_devices(base)
        base = replace(base, device=str(where.device))
        group = open_meters(
            base, where.gpus
        )  # before the model takes memory: its growth tells how much is used by others
        self.steps.loading(precision, len(self._waiting(precision)))
        loaded = load(base, where.devices)
        try:
            with of_devices(group, where, loaded.devices) as started:
                sensor: Mapping[str, Any] | None = None
                for cell in self._waiting(precision):
                    sensor = self._cell(cell, loaded, SharedGroup(started), sensor) or sensor
        finally:
            device = loaded.device
            del loaded
            release(device)

    def _cell(
        self, cell: SweepCell, loaded: LoadedModel, meter: SharedGroup, sensor: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """Measure one cell, and return what it knows of the sensor; None where it was not measured."""
        self.steps.begin(cell.name)
        chosen = replace(self.settings.settings_of(cell, self.made.path), device=str(loaded.device))
        began, sensor_now = time.monotonic(), None
        try:
            self.hold(cell.held_to)
            run = run_loaded(
                chosen, loaded, {METERED: meter}, progress=self.steps.step, command=self.command, sensor=sensor
            )
            sensor_now = run.document["sensor"]
        except KeyboardInterrupt:
            self._record(cell, "interrupted", reason("stopped-by-user"), time.monotonic() - began)
            raise
        except DeviceError as error:
            self._record(cell, "does not fit", reason("failed", error=error), time.monotonic() - began)
        except EnergyscopeError as error:
            self._record(cell, "failed", reason("failed", error=error), time.monotonic() - began)
        else:
            self._record(cell, "done", None, time.monotonic() - began)
        self.steps.end()
        with suppress(RuntimeError):  # a device that is lost fails the next cell, with its own message
            release(loaded.device)
        return None if sensor_now is None else dict(sensor_now)

    def _record(self, cell: SweepCell, state: str, why: Reason | None, seconds: float | None = None) -> None:
        self.made.record(replace(cell, state=state, reason=why, seconds=seconds))


class SweepSteps:
    """The progress of a sweep, made of the steps of its cells.

    Every cell has as many steps as the first one is planned to take windows, so that the total never changes: a
    bar whose total changes forgets its pace. Windows beyond these move it no further than the cell's end.
    """

    def __init__(self, progress: Progress, cells: int) -> None:
        self._progress = progress
        self._cells = cells
        self._number = 0  # of the cell that is being measured, from 1
        self._label = ""
        self._within = 0
        self._each = 0  # steps of a cell; 0 until the first one has said

    def loading(self, precision: str, cells: int) -> None:
        """Say that the model is loaded for so many cells."""
        self._say(f"loading in {precision} for {cells} {'cell' if cells == 1 else 'cells'}")

    def begin(self, name: str) -> None:
        """Say which cell is measured next."""
        self._number += 1
        self._within = 0
        self._label = f"{self._number}/{self._cells} {name}"
        self._say(self._label)

    def end(self) -> None:
        """Count all steps of the cell as behind, however it ended."""
        self._within = self._each
        self._say(self._label)

    def skip(self, cells: int) -> None:
        """Count cells that are not tried, since their model could not be loaded."""
        self._number += cells
        self._within = self._each

    def step(self, stage: str, label: str, done: int, total: int) -> None:  # noqa: ARG002 - a `Progress`
        """Record a step within the cell, without its label: the cell's name takes the room."""
        self._each = self._each or total
        self._within = max(self._within, min(self._each, self._each * done // max(total, 1)))
        self._say(self._label)

    def _say(self, label: str) -> None:
        if not self._each:
            self._progress(STAGE, label, 0, 1)
            return
        behind = max(self._number - 1, 0) * self._each + self._within
        self._progress(STAGE, label, behind, self._cells * self._each)


def _without_frames(error: EnergyscopeError) -> EnergyscopeError:
    """Return an error without the frames that it came through: they hold tensors of a model that did not fit."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)

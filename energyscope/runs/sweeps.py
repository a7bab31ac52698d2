"""A sweep as a directory: ``sweep.json`` says what its cells are and how they ended; each cell is a run in it."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Required, TypedDict

from energyscope.errors import DeviceError, RunError
from energyscope.reasons import words
from energyscope.runs.files import declared, read_json, write_text
from energyscope.runs.locks import is_locked
from energyscope.runs.schema import SWEEP_FILE
from energyscope.runs.store import DEFAULT_ROOT, Run, load_run
from energyscope.runs.summary import summary

if TYPE_CHECKING:
    import pandas as pd

TABLE_FILE = "sweep.csv"
LOCK_FILE = ".held"  # empty: sweep.json is replaced at each cell, and NFS locks no directory for other hosts
ASKING_S = 0.2  # in which `is_being_measured` releases its lock again
SCHEMA_VERSION = 1
TABLE_COLUMNS = (
    "cell", "model", "execution", "precision", "batch_size", "tokens", "phase", "held_to", "state", "reason",
    "seconds", "energy_mj", "energy_ci_low_mj", "energy_ci_high_mj", "time_us", "power_w", "quality", "closure",
    "modelled", "energy_per_token_mj", "board", "host", "run",
)  # fmt: skip
STATES = ("waiting", "done", "does not fit", "failed", "interrupted")


@dataclass(frozen=True)
class SweepCell:
    """One shape of a sweep: ``tokens`` of a sequence, or in the cache of a decode step; and how it ended.

    ``seconds`` is how long measuring it took; ``reason`` why it was not measured. ``label`` is what its name says
    where models, executions or GPUs vary; ``gpu`` the UUID of the one that it is for (None: any), ``host`` where
    it was measured (None: not told). ``held_to`` is the power limit or the SM clock that its GPU is held to
    (``400 W``, ``1200 MHz``), empty where it stays as it was found.
    """

    precision: str
    batch_size: int
    tokens: int
    phase: str
    state: str = "waiting"
    reason: str | None = None
    seconds: float | None = None
    model: str | None = None
    execution: str | None = None
    gpu: str | None = None
    label: str = ""
    host: str | None = None
    held_to: str = ""

    @property
    def name(self) -> str:
        """The name of its run directory: ``bf16-b4-s128``, for a decode step ``gpt2-bf16-b4-c1024-400W``."""
        shape = f"{self.precision}-b{self.batch_size}-{'c' if self.phase == 'decode' else 's'}{self.tokens}"
        return "-".join(filter(None, (self.label, shape, self.held_to.replace(" ", ""))))

    @property
    def tokens_per_pass(self) -> int:
        """How many tokens a pass reads, or a step makes, over the whole batch."""
        return self.batch_size if self.phase == "decode" else self.batch_size * self.tokens


SweepDocument = TypedDict("SweepDocument", {  # noqa: UP013  of a class, it is not known what is required
    "schema": Required[int], "name": Required[str], "model": Required[str], "created": Required[str],
    "command": str, "settings": dict[str, Any] | None, "cells": Required[list[SweepCell]],
}, total=False)  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """What a sweep was asked to do, and its cells in order."""

    path: Path
    name: str
    model: str
    created: str
    command: str | None
    settings: Mapping[str, Any]
    cells: list[SweepCell]

    def record(self, cell: SweepCell) -> None:
        """Put a cell in the place of the one of its name, and write sweep.json."""
        self.cells[[other.name for other in self.cells].index(cell.name)] = cell
        write_sweep(self)

    @property
    def table(self) -> pd.DataFrame:
        """A row for each cell, as sweep.csv has it."""
        import pandas as pd

        return pd.DataFrame(sweep_rows(self), columns=TABLE_COLUMNS)

    def __repr__(self) -> str:
        """Name the sweep's directory."""
        return f"<Sweep {self.path}>"

    def _repr_html_(self) -> str:
        """Show the table where a notebook shows the sweep."""
        return str(self.table.to_html(index=False))

    def runs(self) -> dict[str, Run]:
        """Return the runs of the cells that were measured, by the cells' names.

        Raises:
            RunError: a cell's directory cannot be read.

        """
        names = [cell.name for cell in self.cells if cell.state == "done"]
        linked = next((name for name in names if (self.path / name).is_symlink()), None)
        if linked is not None:
            raise RunError(f"{self.path / linked} is a link: put the run itself there")
        return {name: load_run(self.path / name) for name in names}


def write_sweep(sweep: Sweep) -> None:
    """Write sweep.json, atomically."""
    document = {"schema": SCHEMA_VERSION, **asdict(sweep)}
    del document["path"]
    write_text(sweep.path / SWEEP_FILE, json.dumps(document, indent=1, default=str) + "\n")


def require_a_cell(sweep: Sweep) -> None:
    """Raise DeviceError with the first cell's reason if no cell was measured."""
    if not any(cell.state == "done" for cell in sweep.cells):
        first = sweep.cells[0]
        raise DeviceError(f"no cell of the sweep was measured ({first.name}: {words(first.reason)})")


def is_sweep(path: Path) -> bool:
    """Tell whether a directory is a sweep's."""
    return (path / SWEEP_FILE).is_file()


def find_sweep(reference: str, root: Path = DEFAULT_ROOT) -> Path:
    """Return the directory of the sweep that a path or a name means.

    Raises:
        RunError: there is none.

    """
    path = _directory(reference, root)
    if path is None:
        raise RunError(
            f"no sweep {reference!r} here or in {root}/: give the directory that holds its {SWEEP_FILE}"
        )
    return path


def list_sweeps(root: Path = DEFAULT_ROOT, *, leave: Collection[str] = ()) -> list[Path]:
    """Return the directories of sweeps below ``root``, oldest first; those of the names to ``leave`` are none."""
    folders = root.iterdir() if root.is_dir() else ()
    sweeps = [path for path in folders if path.name not in leave and is_sweep(path)]
    return sorted(sweeps, key=lambda path: (path / SWEEP_FILE).stat().st_mtime)


def _directory(reference: str, root: Path) -> Path | None:
    direct = Path(reference)
    if direct.name == SWEEP_FILE:
        direct = direct.parent
    return next((path for path in (direct, root / direct) if is_sweep(path)), None)


@contextmanager
def sweep_lock(path: Path) -> Iterator[None]:
    """Lock a sweep against other processes, until the context or this process ends.

    On a file system without locks there is no protection: `is_being_measured` is None there.

    Raises:
        RunError: another process is measuring it, or it cannot be written.

    """
    try:
        file = (path / LOCK_FILE).open("a")
    except OSError as error:
        why = error.strerror or error
        raise RunError(f"{path} cannot be written ({why}): make it writable, or resume a copy of it") from error
    with file:
        try:
            _lock(file)
        except BlockingIOError as error:
            raise RunError(lock_message(path)) from error
        except OSError:
            pass  # some network disks know no locks
        yield


def _lock(file: IO[str]) -> None:
    """Lock a file, or raise BlockingIOError where another process holds it longer than a reader would."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(ASKING_S)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_being_measured(path: Path) -> bool | None:
    """Whether a process is measuring a sweep; None where that is not known."""
    return is_locked(path / LOCK_FILE)


def lock_message(path: Path) -> str:
    """Return the message that another process measures a sweep, and what to do."""
    return f"{path} is being measured by another process: wait for its end, or stop it"


def runs_of(reference: str, root: Path = DEFAULT_ROOT) -> list[Run]:
    """Return the run that a path, a name or its beginning means; of a sweep, those of its measured cells.

    Raises:
        RunError: there is no such run or sweep, it cannot be read, or nothing of the sweep was measured.

    """
    path = _directory(reference, root)
    if path is None:
        return [load_run(reference, root)]
    runs = list(load_sweep(path).runs().values())
    if not runs:
        raise RunError(f"no cell of the sweep {path} was measured: {path / SWEEP_FILE} says why")
    return runs


def load_sweep(path: Path) -> Sweep:
    """Read a sweep's directory.

    Raises:
        RunError: it holds no sweep, a broken one, or one of a newer version.

    """
    file = path / SWEEP_FILE
    document = read_json(file)
    if document is None:
        raise RunError(f"{file} cannot be read: give the directory of an `energyscope sweep`")
    if document.get("schema") != SCHEMA_VERSION:
        version = document.get("schema")
        raise RunError(f"{file} is of version {version}, and this energyscope reads {SCHEMA_VERSION}: update it")
    declared(file, document, SweepDocument)
    known = [field.name for field in fields(SweepCell)]
    cells = [
        SweepCell(**{name: value for name, value in cell.items() if name in known}) for cell in document["cells"]
    ]
    if bad := next((cell.name for cell in cells if Path(cell.name).name != cell.name), None):
        raise RunError(f"{file}: {bad!r} is no name of a run: measure the sweep again")
    return Sweep(
        path=path,
        name=document["name"],
        model=document["model"],
        created=document["created"],
        command=document.get("command"),
        settings=document.get("settings") or {},
        cells=cells,
    )


def sweep_rows(sweep: Sweep) -> list[dict[str, Any]]:
    """Return a row for each cell: its shape and how it ended, and what its whole model took, None if unknown.

    Energies are in mJ, of a pass or step, with their 95 % interval; ``energy_per_token_mj`` is by the tokens that
    it reads or makes, over the whole batch.
    """
    runs = sweep.runs()
    rows = []
    for cell in sweep.cells:
        measured = summary(runs[cell.name]) if cell.name in runs else {}
        energy = measured.get("energy_mj")
        board = (runs[cell.name].document.get("device") or {}).get("uuid") if measured else None
        rows.append({
            "cell": cell.name, "model": measured.get("model") or Path(cell.model or sweep.model).name,
            "execution": cell.execution,
            "precision": measured.get("precision") or cell.precision,
            "batch_size": cell.batch_size, "tokens": cell.tokens,
            "phase": cell.phase, "held_to": cell.held_to,
            "state": cell.state, "reason": cell.reason, "seconds": cell.seconds,
            **{key: measured.get(key) for key in ("energy_mj", "energy_ci_low_mj", "energy_ci_high_mj", "time_us",
                                               "power_w", "quality", "closure", "modelled")},
            "energy_per_token_mj": None if energy is None else energy / cell.tokens_per_pass,
            "board": board, "host": cell.host, "run": cell.name if measured else None,
        })  # fmt: skip
    return rows

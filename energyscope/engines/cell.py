"""One cell of a sweep: an `energyscope run` in a process of its own, on a GPU that no other cell has.

A cell is named by its directory. Whoever is asked for one that is finished returns it, so that a cell which is
given out twice is measured once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from energyscope.engines.gpus import NoGpuError, answers, take_gpu
from energyscope.errors import EnergyscopeError, RunError
from energyscope.runs.locks import BEING_MEASURED, is_being_written
from energyscope.runs.store import lacking_stages, load_run

LOGS = "logs"
LOOK_S = 0.1
STOPPING_S = 30.0  # in which a run that is told to stop writes what it has
STOPPED = (130, 143)  # exit codes of a run that somebody else stopped
BROKEN_S = 30.0  # of a worker without its GPU before it takes another cell: it would fail a whole queue
CHILD = "energyscope.engines.child"
SPEAKER = "energyscope: "


@dataclass(frozen=True)
class CellTask:
    """What a worker must know of a cell: plain values, since they travel.

    ``root`` is the directory of the sweep, which all workers share, ``options`` are those of `energyscope run`,
    the model first. ``gpus`` are the UUIDs of which one is to be taken; none: any that the worker sees. A cell
    without ``on_gpu`` takes none.
    """

    name: str
    root: str
    options: tuple[str, ...]
    on_gpu: bool
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class CellResult:
    """How a cell ended: ``done``, or ``failed`` with what its run said; and where it was measured.

    ``seconds`` are those of its process; None where it was found finished, or never began.
    """

    name: str
    state: str
    why: str | None = None
    seconds: float | None = None
    host: str | None = None
    gpu: str | None = None


class CellLostError(Exception):
    """The process of a cell, or its GPU, went away: the cell can be measured elsewhere."""

    def __init__(self, why: str, gpu: str | None = None, *, gpu_is_lost: bool = False) -> None:
        super().__init__(why)
        self.gpu, self.gpu_is_lost = gpu, gpu_is_lost

    def __reduce__(self) -> Any:
        """Travel with all that it says: engines pickle it."""
        return partial(CellLostError, str(self), self.gpu, gpu_is_lost=self.gpu_is_lost), ()


def measure_cell(task: CellTask, stop: threading.Event | None = None) -> CellResult:
    """Measure a cell where this process runs, and return how it ended; wait for a GPU where none is free.

    Whatever ends this call early (``stop``, a signal) tells the run to stop, which keeps what it finished.

    Raises:
        CellLostError: the process was killed, or its GPU does not answer any more.

    """
    folder, host = Path(task.root) / task.name, socket.gethostname()
    try:
        if folder.is_symlink():
            raise RunError(f"{folder} is a link: remove it, and its cell is measured again")
        if _is_finished(folder):
            return CellResult(task.name, "done", host=host)
        _clear(folder)
        with take_gpu(task.gpus, stop) if task.on_gpu else contextlib.nullcontext() as gpu:
            return _measured(task, host, gpu, stop)
    except NoGpuError as error:
        time.sleep(BROKEN_S)
        raise CellLostError(f"{error} ({host})", gpu_is_lost=True) from error
    except (EnergyscopeError, OSError) as error:
        return CellResult(task.name, "failed", str(error), host=host)


def _measured(task: CellTask, host: str, gpu: str | None, stop: threading.Event | None) -> CellResult:
    log = Path(task.root) / LOGS / f"{task.name}.txt"
    log.parent.mkdir(exist_ok=True)
    began = time.monotonic()
    with log.open("a", encoding="utf-8") as said, _process(task, gpu, said.fileno()) as process:
        while process.poll() is None and not (stop and stop.is_set()):
            time.sleep(LOOK_S)
        if process.poll() is None:
            return CellResult(task.name, "interrupted", host=host, gpu=gpu)
    seconds, code = time.monotonic() - began, process.returncode
    if code == 0:
        return CellResult(task.name, "done", None, seconds, host, gpu)
    if code < 0:
        raise CellLostError(f"its process was ended by {signal.Signals(-code).name}", gpu)
    if code in STOPPED:
        raise CellLostError("its process was told to stop", gpu)
    why = _last_words(log) or f"exit code {code}"
    if gpu is not None and not answers(gpu):
        raise CellLostError(f"{gpu} does not answer any more ({why})", gpu, gpu_is_lost=True)
    return CellResult(task.name, "failed", why, seconds, host, gpu)


def _last_words(log: Path) -> str:
    """Return what a run said last of its failure; how a run goes on is not how its cell does."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line.removeprefix(SPEAKER) for line in lines if line.startswith(SPEAKER)]
    words = said or [line for line in lines if line.strip()]
    return words[-1].split("; `energyscope run --resume", 1)[0].strip() if words else ""


@contextlib.contextmanager
def _process(task: CellTask, gpu: str | None, output: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start the run of a cell; it is stopped when the context ends, and when this process is killed."""
    words = ["run", *task.options, f"--root={task.root}", f"--name={task.name}", "--quiet"]
    environment = dict(os.environ)
    if gpu is not None:  # by UUID: Ray and containers number GPUs anew
        environment |= {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    process = subprocess.Popen(
        [sys.executable, "-m", CHILD, str(os.getpid()), *words],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment,
        start_new_session=True,  # Ctrl-C is for the sweep, which stops its cells
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOPPING_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_finished(folder: Path) -> bool:
    try:
        load_run(folder)
        return not lacking_stages(folder)
    except RunError:
        return False


def _clear(folder: Path) -> None:
    """Remove what was left of a cell that was not finished: its windows are of a board that is cold again."""
    if not folder.exists():
        return
    deadline = time.monotonic() + STOPPING_S  # of the run of a worker that was lost
    while is_being_written(folder):
        if time.monotonic() > deadline:
            raise RunError(f"{folder} {BEING_MEASURED}")
        time.sleep(LOOK_S)
    shutil.rmtree(folder)

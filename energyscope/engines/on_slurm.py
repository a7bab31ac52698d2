"""Cells as an array of Slurm jobs, a GPU each, by submitit."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from energyscope.engines import RETRIES, missing_extra
from energyscope.engines.cell import CellLostError, CellResult, CellTask, measure_cell
from energyscope.errors import UsageError

FOLDER = "slurm"
LOST = "lost"  # of a job, until it was submitted often enough: no state of a cell
TIMEOUT_MIN = 240  # of a cell, unless ``timeout_min`` says otherwise: submitit's own is 5
LOOK_S = 2.0
QUEUE_LOOK_S = 30.0  # asking the controller costs it time; a result may also be seen later than its job's end
ANSWER_S = 30.0


@dataclass(frozen=True)
class SlurmEngine:
    """Submits cells as one array, of which ``workers`` run at once.

    Args:
        workers: ``slurm_array_parallelism``.
        options: further ones of submitit, such as ``slurm_partition`` or ``timeout_min``.
        cluster: submitit's name of the scheduler; ``local`` runs jobs as processes here, for tests.

    """

    workers: int
    options: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = "slurm"

    def check(self) -> None:
        """Refuse where submitit is not installed, or there is no Slurm."""
        if find_spec("submitit") is None:
            raise UsageError(missing_extra("slurm"))
        if self.cluster == "slurm" and (shutil.which("sbatch") is None or shutil.which("squeue") is None):
            raise UsageError("--engine slurm needs sbatch and squeue, which are not here: use a login node")
        import submitit

        with tempfile.TemporaryDirectory() as folder, _in_words():
            self._executor(submitit, Path(folder), gpus=1)

    def measure(self, tasks: Sequence[CellTask]) -> Iterator[CellResult]:
        """Yield the result of each cell; one whose job is lost is submitted again.

        Raises:
            UsageError: submitit knows no such option.

        """
        import submitit

        left, lost = list(tasks), 0
        while left:
            again: list[CellTask] = []
            for task, result in self._round(submitit, left):
                if result.state != LOST:
                    yield result
                elif lost < RETRIES:
                    again.append(task)
                else:
                    yield replace(result, state="failed", why=f"lost {lost + 1} times: {result.why}")
            left, lost = again, lost + 1

    def _round(self, submitit: Any, tasks: Sequence[CellTask]) -> Iterator[tuple[CellTask, CellResult]]:
        """Submit cells once and yield how each ended, as it does; whatever ends this early cancels the others."""
        gpus = int(any(task.on_gpu for task in tasks))
        folder = Path(tasks[0].root) / FOLDER
        with _in_words():
            executor = self._executor(submitit, folder, gpus)
            jobs = dict(zip(executor.map_array(measure_cell, tasks), tasks, strict=True))
        queue = Queue() if self.cluster == "slurm" else None
        try:
            while jobs:
                gone = queue.left_by([job.job_id for job in jobs]) if queue else _done(jobs)
                files = _names_in(folder)
                for job in list(jobs):
                    if job.paths.result_pickle.name in files:
                        task = jobs.pop(job)
                        yield task, _result(job, task)
                    elif job.job_id in gone:
                        task = jobs.pop(job)
                        job.cancel(check=False)
                        yield task, _lost(task, f"see {job.paths.stderr}")
                time.sleep(LOOK_S if jobs else 0.0)
        finally:
            for job in jobs:
                job.cancel(check=False)

    def _executor(self, submitit: Any, folder: Path, gpus: int) -> Any:
        executor = submitit.AutoExecutor(folder=folder, cluster=self.cluster)
        known = {"timeout_min": TIMEOUT_MIN, "slurm_array_parallelism": self.workers}
        executor.update_parameters(name="energyscope", gpus_per_node=gpus, **{**known, **self.options})
        return executor


@dataclass
class Queue:
    """Which jobs Slurm has no more, by ``squeue``.

    submitit asks ``sacct`` instead, every ten minutes; clusters without accounting do not answer that.
    """

    command: Sequence[str] = ("squeue", "--me", "--all", "--noheader", "--array", "--format=%i")
    _absent: frozenset[str] = frozenset()  # at the last look
    _next_look_s: float = 0.0

    def left_by(self, jobs: Sequence[str]) -> set[str]:
        """Return the jobs that were absent at two looks, one after the other; none between looks.

        A controller that does not answer has told nothing: its jobs go on.
        """
        if time.monotonic() < self._next_look_s:
            return set()
        # users set filters of their own in SQUEUE_STATES and the like
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
        try:
            asked = subprocess.run(
                self.command, env=environment, capture_output=True, text=True, timeout=ANSWER_S, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return set()
        finally:
            self._next_look_s = time.monotonic() + QUEUE_LOOK_S
        absent = frozenset(jobs) - set(asked.stdout.split())
        gone, self._absent = set(absent & self._absent), absent
        return gone


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """Say what submitit or sbatch refuses in one line."""
    try:
        yield
    except (RuntimeError, ValueError, NameError, TypeError, AssertionError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(f"Slurm does not take the cells ({lines[-1]}): change --slurm") from error


def _names_in(folder: Path) -> set[str]:
    """Return the names of files; none where a shared file system fails for the moment.

    Whether one file is there, such a system may answer from memory; for a listing it asks.
    """
    try:
        return {path.name for path in folder.iterdir()}
    except OSError:
        return set()


def _done(jobs: Iterable[Any]) -> set[str]:
    """Return the ids of submitit's local jobs whose process has ended."""
    return {job.job_id for job in jobs if job.done()}


def _lost(task: CellTask, what: str) -> CellResult:
    return CellResult(task.name, LOST, f"its job ended without a result ({what})")


def _result(job: Any, task: CellTask) -> CellResult:
    """Return what a job made of its cell; ``lost`` where its process or its GPU went away."""
    try:
        return cast("CellResult", job.result())
    except CellLostError as error:
        return CellResult(task.name, LOST, str(error), gpu=error.gpu)
    except Exception as error:  # noqa: BLE001  submitit's are of many kinds; none says more than its first line
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return _lost(task, lines[-1])

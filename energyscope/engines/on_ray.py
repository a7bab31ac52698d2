"""Cells as tasks of Ray: on a cluster that exists, or on one that is started on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast

from energyscope.engines import RETRIES, missing_extra
from energyscope.engines.cell import CellLostError, CellResult, CellTask, measure_cell
from energyscope.errors import UsageError

PENDING_S = 1.0


@dataclass(frozen=True)
class RayEngine:
    """Gives each cell to a Ray task with a GPU or a CPU of its own, in a process of its own.

    Args:
        address: of the cluster; None starts one here.
        workers: how many cells at once in a cluster that is started here, on the CPU.
        gpus: how many GPUs that one has.

    """

    address: str | None
    workers: int
    gpus: int

    def check(self) -> None:
        """Refuse where Ray is not installed."""
        if find_spec("ray") is None:
            raise UsageError(missing_extra("ray"))

    def measure(self, tasks: Sequence[CellTask]) -> Iterator[CellResult]:
        """Yield the result of each cell; Ray gives a cell whose worker is lost to another one.

        Raises:
            UsageError: the cluster cannot be reached.

        """
        import ray

        self._connect(ray)
        try:
            if any(task.on_gpu for task in tasks) and not gpus_of_cluster(ray):
                raise UsageError("the Ray cluster has no GPU, and its cells would wait for ever: use --device cpu")
            yield from _results(ray, tasks)
        finally:
            ray.shutdown()

    def _connect(self, ray: Any) -> None:
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        own = {} if self.address else {"num_cpus": self.workers, "num_gpus": self.gpus, "include_dashboard": False}
        try:
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR", **own)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = self.address or "here"
            raise UsageError(
                f"no Ray cluster at {where} ({error}): give its --address, or leave it out"
            ) from error
        finally:
            for number, handler in handlers.items():  # Ray has handlers of its own
                signal.signal(number, handler)


def gpus_of_cluster(ray: Any) -> float:
    """Return how many GPUs the cluster has."""
    return float(ray.cluster_resources().get("GPU", 0.0))


def _results(ray: Any, tasks: Sequence[CellTask]) -> Iterator[CellResult]:
    """Yield results as they come; whatever ends this early stops the runs that are being measured."""
    remote = ray.remote(max_calls=1)(measure_cell)  # a process a cell: none keeps a GPU's memory
    pending = {
        remote.options(
            num_cpus=1,
            num_gpus=int(task.on_gpu),
            max_retries=RETRIES,
            retry_exceptions=[CellLostError],
            name=task.name,
        ).remote(task): task
        for task in tasks
    }
    try:
        while pending:
            ready, _ = ray.wait(list(pending), num_returns=1, timeout=PENDING_S)
            for reference in ready:
                yield _result(ray, reference, pending.pop(reference))
    finally:
        for reference in pending:
            ray.cancel(reference)
        ray.wait(list(pending), num_returns=len(pending), timeout=30.0) if pending else None


def _result(ray: Any, reference: Any, task: CellTask) -> CellResult:
    try:
        result = ray.get(reference)
    except (ray.exceptions.RayError, CellLostError) as error:
        cause = getattr(error, "cause", None) or error
        why = next(iter(str(cause).strip().split("\n")), type(cause).__name__)
        return CellResult(task.name, "failed", f"lost {RETRIES + 1} times: {why}")
    return cast("CellResult", result)

"""Cells on this machine: a thread for each GPU, or for each of several processes on the CPU."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from energyscope.engines import RETRIES
from energyscope.engines.cell import CellLostError, CellResult, CellTask, measure_cell

LOOK_S = 0.5  # a main thread that waits without end hears no signal


class LocalEngine:
    """Measures a cell at a time in each place: the UUID of a GPU, or None for the CPU."""

    def __init__(self, places: Sequence[str | None]) -> None:
        self._places = list(places)
        self._living = Counter(self._places)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._waiting: deque[CellTask] = deque()
        self._measuring = 0
        self._lost: Counter[str] = Counter()
        self._results: queue.Queue[CellResult] = queue.Queue()

    def check(self) -> None:
        """Refuse nothing: threads are always there."""

    def measure(self, tasks: Sequence[CellTask]) -> Iterator[CellResult]:
        """Yield the result of each cell; one whose process was lost waits again, for any place that is left."""
        self._waiting.extend(tasks)
        self._give_up_unreachable()
        left = {task.name for task in tasks}
        threads = [threading.Thread(target=self._work, args=[place]) for place in self._places]
        try:
            for thread in threads:
                thread.start()
            while left:
                with contextlib.suppress(queue.Empty):
                    result = self._results.get(timeout=LOOK_S)
                    left.discard(result.name)
                    yield result
        finally:
            self._stop.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()

    def _work(self, place: str | None) -> None:
        """Measure cells until all are measured, or the place is lost."""
        while not self._stop.is_set():
            with self._lock:
                task = self._next(place)
                self._measuring += task is not None
                ended = not self._waiting and not self._measuring  # else one that is lost may wait again
            if task is None:
                if ended:
                    return
                self._stop.wait(LOOK_S)
                continue
            place_is_lost = self._measure(task, place)
            with self._lock:
                self._measuring -= 1
                self._living[place] -= place_is_lost
                self._give_up_unreachable()
            if place_is_lost:
                return

    def _give_up_unreachable(self) -> None:
        """Fail the cells that no place can measure any more."""
        living = {place for place, count in self._living.items() if count}
        for task in list(self._waiting):
            if not living or (task.gpus and not living.intersection(task.gpus)):
                self._waiting.remove(task)
                why = (
                    f"{' and '.join(task.gpus)} is not visible here" if task.gpus and living else "no GPU is left"
                )
                self._results.put(CellResult(task.name, "failed", why))

    def _next(self, place: str | None) -> CellTask | None:
        """Take the next cell that may be measured at a place."""
        task = next((task for task in self._waiting if not task.gpus or place in task.gpus), None)
        if task is not None:
            self._waiting.remove(task)
        return task

    def _measure(self, task: CellTask, place: str | None) -> bool:
        """Measure a cell, and tell whether the place is lost."""
        try:
            self._results.put(measure_cell(replace(task, gpus=(place,)) if place else task, self._stop))
        except CellLostError as error:
            return self._again(task, error)
        except Exception as error:  # noqa: BLE001  a thread that ends without a result would be waited for
            self._results.put(CellResult(task.name, "failed", str(error) or type(error).__name__))
        return False

    def _again(self, task: CellTask, error: CellLostError) -> bool:
        """Let a lost cell wait again, if it was not lost too often; tell whether its GPU is lost as well."""
        with self._lock:
            self._lost[task.name] += 1
            if self._lost[task.name] > RETRIES or self._stop.is_set():
                times = f"lost {self._lost[task.name]} times"
                self._results.put(CellResult(task.name, "failed", f"{times}: {error}", gpu=error.gpu))
            else:
                self._waiting.append(task)
        return error.gpu_is_lost

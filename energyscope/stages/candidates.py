"""Which cells can be measured: each precision is loaded, judged, and tried at every batch size and length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from energyscope.benchmarking.context import BenchmarkCell, BenchmarkContext
from energyscope.benchmarking.loop import synchronize
from energyscope.benchmarking.memory import MemoryWatch, prepare_kernels, release, require_host_room
from energyscope.benchmarking.predictions import PredictionComparison
from energyscope.errors import EnergyscopeError
from energyscope.failures import ends_a_run, failure, no_memory_left
from energyscope.loading.variants import Variant
from energyscope.reasons import Reason, reason

STAGE = "benchmark"
TRIED_PASSES = 2


class Candidates:
    """Finds the cells that can be measured; what cannot is kept as skipped, or as a note, with the reason."""

    def __init__(self, context: BenchmarkContext) -> None:
        self.context = context
        self.failures: dict[str, Reason] = {}
        self.baseline: str | None = None
        self._batch_sizes = list(context.settings.batch_sizes)
        evaluation = context.evaluation
        beside = context.model_cache.together
        self._judge = (
            None if evaluation is None else PredictionComparison(evaluation, beside=beside, seed=context.seed)
        )

    def cells(self, precisions: Sequence[str]) -> list[BenchmarkCell]:
        """Return what fits; the first precision that can be measured is what the others are compared with."""
        cells: list[BenchmarkCell] = []
        prepare_kernels(self.context.device)
        for number, precision in enumerate(precisions, 1):  # no steps: the trials, which take longer, are these
            label = f"{precision} ({number} of {len(precisions)}): loading and trying"
            self.context.progress(STAGE, label, 0, 1)
            cells += self._cells_of(precision)
        self._judge = None  # it keeps logits on the device
        release(self.context.device)
        return cells

    def _cells_of(self, precision: str) -> list[BenchmarkCell]:
        self.context.model_cache.make_room(precision)
        watch = MemoryWatch(self.context.device)
        try:
            variant = self.context.model_cache.take(precision)
            given = variant.loaded is self.context.loaded
            cells = self._fitting_cells(variant, watch, given=given)
        except Exception as error:
            if ends_a_run(error):
                raise
            return self._skip(precision, failure(error))
        if not cells:
            return self._skip(precision, reason("no-batch-fits"))
        if self.baseline is None:
            self.baseline = precision
            self.context.keep({"baseline": precision})
            self._batch_sizes = sorted({*self._batch_sizes, *(cell.batch_size for cell in cells)})
        self.context.keep({"model": model_entry(variant, given=given)})
        self._judge_predictions(variant)
        return cells

    def _skip(self, precision: str, why: Reason) -> list[BenchmarkCell]:
        self.failures[precision] = why
        self.context.keep({"skipped": {"precision": precision, "reason": why}})
        self.context.model_cache.drop(precision)
        return []

    def _fitting_cells(self, variant: Variant, watch: MemoryWatch, *, given: bool) -> list[BenchmarkCell]:
        settings = self.context.settings
        cells: dict[tuple[int, int], BenchmarkCell] = {}
        for length in settings.sequence_lengths:
            for batch_size in self._batch_sizes:  # the baseline's halved batch too, for comparison
                cell = self._fitting_cell(variant, BenchmarkCell(variant.precision, batch_size, length), watch)
                if cell is not None:
                    own = variant.size_bytes if given else 0  # allocated before the watch began
                    memory = None if cell.memory is None else cell.memory.plus(own)
                    cells.setdefault((cell.batch_size, length), replace(cell, memory=memory))
        return list(cells.values())

    def _fitting_cell(
        self, variant: Variant, requested: BenchmarkCell, watch: MemoryWatch
    ) -> BenchmarkCell | None:
        """Try a cell, halving the batch until it fits; None where not even one sequence does."""
        cell = requested
        while True:
            try:
                tried = self._try_cell(variant, cell, watch)
            except Exception as error:
                if not no_memory_left(error):
                    raise
            else:
                if cell is not requested:
                    note = reason("smaller-batch-measured", **requested.labels, measured=cell.batch_size)
                    self.context.keep({"note": note})
                return tried
            self.context.inputs.pop((cell.batch_size, cell.sequence_length), None)
            release(self.context.device)
            if cell.batch_size == 1:
                self.context.keep({"note": reason("no-smaller-batch-fits", **requested.labels)})
                return None
            cell = replace(cell, batch_size=cell.batch_size // 2)

    @torch.no_grad()
    def _try_cell(self, variant: Variant, cell: BenchmarkCell, watch: MemoryWatch) -> BenchmarkCell:
        require_host_room(self.context.loaded, cell)
        watch.restart()
        calls = self.context.calls(variant.loaded.model, cell)
        for _ in range(TRIED_PASSES):
            calls[0]()
        synchronize(self.context.device)
        return replace(cell, memory=watch.read())

    def _judge_predictions(self, variant: Variant) -> None:
        if self._judge is None:
            return
        self.context.progress(STAGE, f"{variant.precision}: predictions", 0, 1)
        try:
            entry = self._judge.judge(variant.precision, variant.loaded.model)
        except Exception as error:
            if not (isinstance(error, EnergyscopeError) or no_memory_left(error)):
                raise
            why = failure(error)
            self.context.keep({"note": reason("predictions-not-judged", precision=variant.precision, why=why)})
        else:
            self.context.keep({"prediction": entry})


def model_entry(variant: Variant, *, given: bool) -> dict[str, Any]:
    """Return a precision's entry of ``models`` in benchmark.json.

    The model that was ``given`` has no time of loading: libraries were imported in it, and files were cold.
    """
    return {
        "precision": variant.precision,
        "implementation": variant.implementation,
        "num_parameters": variant.parameters,
        "model_size_mb": variant.size_bytes / 1e6,
        "dtype": variant.dtype,
        "load_seconds": None if given else variant.loaded.seconds,
        "notes": list(variant.notes),
    }

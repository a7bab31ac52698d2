"""The trials of a benchmark: blocks, each with every cell once in random order, and idle power around them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from energyscope.accounting import records
from energyscope.benchmarking import trial
from energyscope.benchmarking.context import BenchmarkCell, BenchmarkContext
from energyscope.benchmarking.loop import Timing, WarmUp, timed, warm_up
from energyscope.benchmarking.memory import GB
from energyscope.failures import ends_a_run, failure
from energyscope.loading.variants import Variant
from energyscope.metering.group import LOOK_BACK_S, sum_windows
from energyscope.metering.waiting import measure_idle, read_windows
from energyscope.reasons import join, reason
from energyscope.replay.marks import clock_for
from energyscope.replay.replayer import Replayer
from energyscope.runs.schema import BenchmarkRow
from energyscope.stages.candidates import STAGE

PREHEAT_S = 3.0
SPARE = 1.15  # a loop that should fill the meter's window is a little longer


class Trials:
    """Runs the blocks after those that are ``finished``; every finished trial is kept at once, as a row."""

    def __init__(self, context: BenchmarkContext, cells: Sequence[BenchmarkCell], finished: int = 0) -> None:
        self.context = context
        self.cells = list(cells)
        self.finished = finished
        self.idle_w: float | None = None
        self._shuffle = random.Random(context.seed)
        self._states: list[dict[str, Any]] = []
        self._short: set[BenchmarkCell] = set()

    def run(self) -> None:
        """Measure every cell in every block."""
        settings = self.context.settings
        done, total = 0, (settings.trials - self.finished) * len(self.cells)  # at the pace of those measured now
        self._preheat(total)
        for number in range(1, settings.trials + 1):
            order = self._order()
            if number <= self.finished:
                continue
            self._measure_idle(number)
            for cell in order:
                self.context.progress(STAGE, f"{cell}, trial {number}", done, total)
                self._measure_trial(cell, number)
                done += 1
        self._measure_idle(settings.trials + 1)

    def _order(self) -> list[BenchmarkCell]:
        """Return all cells shuffled; where models are loaded one at a time, each precision's together."""
        shuffled = self._shuffle.sample(self.cells, len(self.cells))
        if self.context.model_cache.together:
            return shuffled
        first = list(dict.fromkeys(cell.precision for cell in shuffled))
        return sorted(shuffled, key=lambda cell: first.index(cell.precision))

    def _preheat(self, total: int) -> None:
        """Bring the board to its working temperature before the first block."""
        if self.context.meter.modelled or not self.cells:
            return
        self.context.progress(STAGE, "preheating", 0, total)
        model = self.context.model_cache.take(self.cells[0].precision).loaded.model
        calls = self.context.calls(model, self.cells[0])
        timed(calls, self.context.device, iterations=1, batch_size=1, least_s=PREHEAT_S)

    def _measure_idle(self, number: int) -> None:
        """Measure the idle power before a block, and look for other processes while this one does nothing."""
        entry = measure_idle(self.context.meter, lambda: [Replayer(self.context.device).own_bytes()])
        if entry is None:
            return
        if not entry["bystanders"] or self.idle_w is None:  # beside others it is not the board's idle power
            self.idle_w = entry["idle_w"]
        self.context.keep({"pass": number, **entry, "idle_w": self.idle_w})

    def _measure_trial(self, cell: BenchmarkCell, number: int) -> None:
        try:
            variant = self.context.model_cache.take(cell.precision)
            warmed, timing = self._run_loop(variant, cell)
        except Exception as error:
            if ends_a_run(error):
                raise
            note = reason("trial-failed", **cell.labels, trial=number, why=failure(error))
            self.context.keep({"pass": number, "note": note})
            return
        steps = self.context.settings.warmup_steps
        if warmed.iterations < steps and cell not in self._short:
            self._short.add(cell)
            note = reason("short-warm-up", **cell.labels, passes=warmed.iterations, asked=steps)
            self.context.keep({"pass": number, "note": note})
        row = self._row(variant, cell, number, warmed, timing)
        self.context.keep({"pass": number, "row": asdict(row), "ran_s": timing.calls.span_s})

    def _run_loop(self, variant: Variant, cell: BenchmarkCell) -> tuple[WarmUp, Timing]:
        settings, meter = self.context.settings, self.context.meter
        calls = self.context.calls(variant.loaded.model, cell)
        limit = settings.trial_seconds
        warmed = warm_up(calls, self.context.device, steps=settings.warmup_steps, most_s=limit)
        timing = timed(
            calls,
            self.context.device,
            iterations=settings.num_iters,
            batch_size=cell.batch_size,
            least_s=meter.window_s * SPARE,
            most_s=limit,
            clock=clock_for(meter, self.context.device),
        )
        return warmed, timing

    def _row(
        self, variant: Variant, cell: BenchmarkCell, number: int, warmed: WarmUp, timing: Timing
    ) -> BenchmarkRow:
        meter = self.context.meter
        begin, end = timing.calls.span_s
        window = sum_windows(read_windows(meter, timing.calls))
        ticks = [] if meter.modelled else [board.ticks(begin - LOOK_BACK_S, end) for board in meter.meters]
        powers_w = trial.power_samples(ticks, begin, end, self.context.settings.power_sample_interval_s)
        tokens = self.context.inputs[cell.batch_size, cell.sequence_length][0].tokens_of_pass
        state = records.board(meter.states((begin + end) / 2, end))
        disturbances = records.contamination({**state, "window": asdict(window)}, self._states)
        self._states.append(state)
        memory = cell.memory
        return BenchmarkRow(
            precision=cell.precision,
            batch_size=cell.batch_size,
            sequence_length=cell.sequence_length,
            trial=number,
            **trial.latency_figures(timing, tokens),
            **trial.power_figures(window, powers_w),
            **trial.energy_figures(window, timing, tokens, self.idle_w, modelled=meter.modelled),
            accuracy=None,
            num_correct=None,
            num_samples_accuracy=None,
            perplexity=None,
            allocated_gb=None if memory is None else memory.allocated / GB,
            peak_allocated_gb=None if memory is None else memory.peak / GB,
            reserved_gb=None if memory is None else memory.reserved / GB,
            num_parameters=variant.parameters,
            model_size_mb=variant.size_bytes / 1e6,
            dtype=variant.dtype,
            implementation=variant.implementation,
            execution=self.context.settings.execution,
            device=str(self.context.device),
            meter=meter.name,
            warmup_iterations=warmed.iterations,
            stable=warmed.stable,
            clock_mhz=state["clock_mhz"],
            temperature_c=state["temperature_c"],
            reasons=join(disturbances),
        )


def whole_blocks(entries: Sequence[Mapping[str, Any]], cells: Sequence[BenchmarkCell]) -> int:
    """Return how many blocks of a benchmark that was cut off have a trial of each of these cells, and no others.

    The entries of a block's trials have its number as their ``pass``, and those of what is found before have none.
    """
    known = {tuple(cell.labels.values()) for cell in cells}

    def is_whole(number: int) -> bool:
        rows = [entry["row"] for entry in entries if entry.get("pass") == number and "row" in entry]
        return {(row["precision"], row["batch_size"], row["sequence_length"]) for row in rows} == known

    return sum(1 for _ in itertools.takewhile(is_whole, itertools.count(1)))

"""The forward pass that a run measured twice: as a cell of its benchmark, and as its profile's whole model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from energyscope.reporting.data.benchmark_cells import BenchmarkCell
from energyscope.reporting.data.execution import CUDA_GRAPH, EAGER, TRIGGERED, execution_of
from energyscope.runs.intervals import Interval, finite, interval
from energyscope.runs.tree import Node, energy_tree, slice_keys

if TYPE_CHECKING:
    from energyscope.runs.store import Run


@dataclass(frozen=True)
class MeasuredTwice:
    """A pass at one precision, batch size, length and execution: the benchmark's ``cell`` and the profile's value.

    ``clock_mhz`` of both are medians over trials and over windows. ``waits``: the device works by itself, so that
    waiting for it after each pass, as the benchmark does, is something else than queueing passes.
    """

    cell: BenchmarkCell
    execution: str
    energy: Interval
    time_us: Interval | None
    windows: int | None
    invalid: bool
    clock_mhz: tuple[float | None, float | None]
    waits: bool
    modelled: bool


def measured_twice(run: Run, cells: Sequence[BenchmarkCell]) -> MeasuredTwice | None:
    """Return the pass that both stages measured alike; None where there is none, or it was not replayed."""
    if run.energy is None or run.energy.empty or execution_of(run).sampling == TRIGGERED:
        return None
    execution = str(
        ((run.benchmark or {}).get("settings") or {}).get("execution") or EAGER
    )  # the first had no choice
    whole = run.energy[run.energy["level"] == "model"]
    roots = [root for key in slice_keys(whole) if (root := energy_tree(whole, key).root) is not None]
    for cell in cells:
        for root in roots:
            if cell.energy_mj is not None and root.energy is not None and _same(cell, root, execution):
                return _twice(run, cell, root, root.energy, execution)
    return None


def _same(cell: BenchmarkCell, root: Node, execution: str) -> bool:
    """Tell whether a profile's whole model is a cell's pass, which fills no KV cache and takes all logits."""
    cache = root.row.get("kv_cache")
    if isinstance(cache, str) and cache != "none":
        return False
    theirs = (root.row["precision"], root.row["phase"], root.row["execution"])
    shape = (root.number("batch_size"), root.number("context_length"))
    return theirs == (cell.precision, "prefill", execution) and shape == cell.shape


def _twice(run: Run, cell: BenchmarkCell, root: Node, energy: Interval, execution: str) -> MeasuredTwice:
    windows = root.number("windows")
    return MeasuredTwice(
        cell=cell,
        execution=execution,
        energy=energy,
        time_us=interval(root.number("time_us")),
        windows=None if windows is None else int(windows),
        invalid=root.invalid,
        clock_mhz=(_clock(run, cell), root.number("clock_mhz")),
        waits=(run.document.get("device") or {}).get("type") != "cpu",
        modelled=run.modelled,
    )


def _clock(run: Run, cell: BenchmarkCell) -> float | None:
    """Return the median clock of a cell's trials; None where none was read."""
    if run.trials is None or "clock_mhz" not in run.trials:
        return None
    ours = run.trials[
        (run.trials["precision"] == cell.precision)
        & (run.trials["batch_size"] == cell.batch_size)
        & (run.trials["sequence_length"] == cell.sequence_length)
    ]
    known = [value for one in ours["clock_mhz"] if (value := finite(one)) is not None]
    return median(known) if known else None


def in_graph(twice: MeasuredTwice) -> bool:
    """Tell whether both replayed a CUDA graph, each of one and the same input."""
    return twice.execution == CUDA_GRAPH

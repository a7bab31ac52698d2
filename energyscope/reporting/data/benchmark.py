"""The benchmark as plain data: every precision at every batch size and length, its predictions and its size."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.reporting.data.benchmark_cells import (
    INVALID,
    BenchmarkCell,
    Precision,
    Prediction,
    precision_title,
)
from energyscope.reporting.data.benchmark_pass import MeasuredTwice, measured_twice
from energyscope.runs.intervals import Interval, finite, interval, not_negative

if TYPE_CHECKING:
    from energyscope.runs.store import Run

__all__ = [
    "INVALID",
    "BenchmarkCell",
    "BenchmarkData",
    "Precision",
    "Prediction",
    "benchmark_data",
    "precision_title",
]


@dataclass(frozen=True)
class BenchmarkData:
    """Everything that the benchmark stage left, cells and predictions in the order of the precisions."""

    modelled: bool
    random: bool
    baseline: str | None
    settings: Mapping[str, Any]
    precisions: list[Precision]
    cells: list[BenchmarkCell]
    predictions: list[Prediction]
    predictions_reason: str | None
    skipped: list[tuple[str, str]]
    notes: list[str]
    evaluation: str | None  # what the predictions were judged on
    iterations: tuple[int, int] | None  # the fewest and the most inferences of a trial
    twice: MeasuredTwice | None = None  # the pass that the profile measured as well

    @property
    def foreign(self) -> bool:
        """Whether times and energies of any precision are not those of its kernels."""
        return any(cell.foreign for cell in self.cells)

    @property
    def order(self) -> list[str]:
        """The precisions that have a cell, in their order."""
        return list(dict.fromkeys(cell.precision for cell in self.cells))

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The batch sizes and lengths that were measured, in their order."""
        return list(dict.fromkeys(cell.shape for cell in self.cells))

    @property
    def first(self) -> list[BenchmarkCell]:
        """The cells of the first batch size and length."""
        return self.at(self.shapes[0])

    @property
    def metric(self) -> str | None:
        """``"accuracy"`` or ``"perplexity"``; None where nothing was predicted."""
        return self.predictions[0].metric if self.predictions else None

    def at(self, shape: tuple[int, int]) -> list[BenchmarkCell]:
        """Return the cells of one batch size and length."""
        return [cell for cell in self.cells if cell.shape == shape]

    def prediction(self, precision: str) -> Prediction | None:
        """Return how well a precision predicts."""
        return next((item for item in self.predictions if item.precision == precision), None)


def benchmark_data(run: Run) -> BenchmarkData | None:
    """Return what a run's benchmark measured; None where the stage left no cell."""
    found = run.benchmark or {}
    precisions = [_precision(entry) for entry in found.get("models") or []]
    foreign = {item.name for item in precisions if item.foreign}
    cells = [_cell(entry, foreign) for entry in found.get("cells") or []]
    if not cells:
        return None
    order = [str(entry.get("precision")) for entry in found.get("models") or []]
    order += [cell.precision for cell in cells if cell.precision not in order]
    ordered = sorted(cells, key=lambda cell: (cell.shape, order.index(cell.precision)))
    predictions = [item for entry in found.get("predictions") or [] if (item := _prediction(entry)) is not None]
    return BenchmarkData(
        modelled=run.modelled,
        random=(run.document.get("model") or {}).get("weights") == "random",
        baseline=found.get("baseline"),
        settings=found.get("settings") or {},
        precisions=precisions,
        cells=ordered,
        predictions=sorted(predictions, key=lambda item: _place(order, item.precision)),
        predictions_reason=found.get("predictions_reason"),
        skipped=[(str(entry.get("precision")), str(entry.get("reason"))) for entry in found.get("skipped") or []],
        notes=[str(note) for note in found.get("notes") or []],
        evaluation=_evaluation(run),
        iterations=_iterations(run),
        twice=measured_twice(run, ordered),
    )


def _evaluation(run: Run) -> str | None:
    workload = run.document.get("workload") or {}
    source = (workload.get("evaluation") or {}).get("source")
    return str(source) if source else None


def _iterations(run: Run) -> tuple[int, int] | None:
    if run.trials is None or "iterations" not in run.trials:
        return None
    known = [int(value) for item in run.trials["iterations"] if (value := finite(item)) is not None]
    return (min(known), max(known)) if known else None


def _place(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


_INTERVALS = (
    "latency_s", "median_latency_s", "p95_latency_s", "p99_latency_s", "throughput", "tokens_per_s", "power_w",
    "energy_mj", "dynamic_energy_mj", "inferences_per_joule", "tokens_per_joule", "energy_delay_product_js",
    "speedup", "energy_ratio",
)  # fmt: skip


def _cell(entry: Mapping[str, Any], foreign: Collection[str]) -> BenchmarkCell:
    known: dict[str, Any] = {key: _interval(entry.get(key)) for key in _INTERVALS}
    known |= {key: not_negative(item) for key, item in known.items() if key != "dynamic_energy_mj"}
    return BenchmarkCell(
        precision=str(entry["precision"]),
        batch_size=int(entry["batch_size"]),
        sequence_length=int(entry["sequence_length"]),
        trials=_whole(entry.get("trials")),
        peak_allocated_gb=finite(entry.get("peak_allocated_gb")),
        energy_spread=finite(entry.get("energy_spread")),
        quality=str(entry.get("quality") or INVALID),
        reasons=str(entry.get("reasons") or ""),
        foreign=str(entry["precision"]) in foreign,
        **known,
    )


def _precision(entry: Mapping[str, Any]) -> Precision:
    return Precision(
        name=str(entry.get("precision")),
        implementation=str(entry.get("implementation") or ""),
        dtype=str(entry.get("dtype") or ""),
        parameters=finite(entry.get("num_parameters")),
        size_mb=finite(entry.get("model_size_mb")),
        load_seconds=finite(entry.get("load_seconds")),
        notes=[str(note) for note in entry.get("notes") or []],
    )


def _prediction(entry: Mapping[str, Any]) -> Prediction | None:
    value = _interval(entry.get("value"))
    if value is None:
        return None
    return Prediction(
        precision=str(entry.get("precision")),
        metric=str(entry.get("metric")),
        value=value,
        examples=_whole(entry.get("examples")),
        correct=_whole(entry.get("correct")),
        difference=_interval(entry.get("difference")),
        kl=_interval(entry.get("kl")),
        agreement=_interval(entry.get("agreement")),
    )


def _interval(entry: object) -> Interval | None:
    if not isinstance(entry, Mapping):
        return None
    return interval(entry.get("value"), entry.get("low"), entry.get("high"))


def _whole(value: object) -> int | None:
    number = finite(value)
    return None if number is None else int(number)

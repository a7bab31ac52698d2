"""The benchmark as plain data: every precision at every batch size and length, its predictions and its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.runs.intervals import Interval, difference, finite, interval

if TYPE_CHECKING:
    from energyscope.runs.store import Run

INVALID = "invalid"
_TITLES = {"fp16-autocast": "FP16 autocast", "int8-static": "INT8 static"}


def precision_title(name: str) -> str:
    """Return what a precision is called in prose and charts, such as ``"FP16"`` for ``"fp16"``."""
    return _TITLES.get(name) or name.upper()


@dataclass(frozen=True)
class Precision:
    """One precision as it was loaded. ``size_mb`` is in 10^6 bytes; what is not known is None."""

    name: str
    implementation: str
    dtype: str
    parameters: float | None
    size_mb: float | None
    load_seconds: float | None
    notes: list[str]

    @property
    def title(self) -> str:
        return precision_title(self.name)


@dataclass(frozen=True)
class BenchmarkCell:
    """One precision at one batch size and length: means over the trials with 95 % intervals, None where unknown.

    Energies are in mJ for one inference (a forward pass over the batch), ``energy_delay_product_js`` in J s.
    ``speedup`` and ``energy_ratio`` (this / baseline) are against the baseline at the same batch size and length.
    """

    precision: str
    batch_size: int
    sequence_length: int
    trials: int | None
    latency_s: Interval | None
    median_latency_s: Interval | None
    p95_latency_s: Interval | None
    p99_latency_s: Interval | None
    throughput: Interval | None
    tokens_per_s: Interval | None
    power_w: Interval | None
    energy_mj: Interval | None
    dynamic_energy_mj: Interval | None
    inferences_per_joule: Interval | None
    tokens_per_joule: Interval | None
    energy_delay_product_js: Interval | None
    speedup: Interval | None
    energy_ratio: Interval | None
    peak_allocated_gb: float | None
    energy_spread: float | None
    quality: str
    reasons: str

    @property
    def title(self) -> str:
        return precision_title(self.precision)

    @property
    def shape(self) -> tuple[int, int]:
        """Its batch size and its length in tokens."""
        return self.batch_size, self.sequence_length

    @property
    def invalid(self) -> bool:
        """Whether its energy is known but did not reach grade C."""
        return self.quality == INVALID and self.energy_mj is not None

    @property
    def static_energy_mj(self) -> float | None:
        """The idle power's part of the energy, mJ; None where the two parts are not known."""
        if self.energy_mj is None or self.dynamic_energy_mj is None:
            return None
        return difference(self.energy_mj, self.dynamic_energy_mj).value


@dataclass(frozen=True)
class Prediction:
    """How well one precision predicts. ``difference`` (this - baseline, paired), ``kl`` (nats) and ``agreement``
    (share of equal answers) are against the baseline, None for the baseline itself.
    """

    precision: str
    metric: str
    value: Interval
    examples: int | None
    correct: int | None
    difference: Interval | None
    kl: Interval | None
    agreement: Interval | None

    @property
    def title(self) -> str:
        return precision_title(self.precision)

    @property
    def no_worse(self) -> bool:
        """Whether it is the baseline, or its interval shows no loss against the baseline."""
        if self.difference is not None and not self.difference.known:
            return False
        if self.difference is None or not self.difference.excludes(0.0):
            return True
        return (self.difference.value < 0) == (self.metric == "perplexity")


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
    cells = [_cell(entry) for entry in found.get("cells") or []]
    if not cells:
        return None
    order = [str(entry.get("precision")) for entry in found.get("models") or []]
    order += [cell.precision for cell in cells if cell.precision not in order]
    predictions = [item for entry in found.get("predictions") or [] if (item := _prediction(entry)) is not None]
    return BenchmarkData(
        modelled=run.modelled,
        random=(run.document.get("model") or {}).get("weights") == "random",
        baseline=found.get("baseline"),
        settings=found.get("settings") or {},
        precisions=[_precision(entry) for entry in found.get("models") or []],
        cells=sorted(cells, key=lambda cell: (cell.shape, order.index(cell.precision))),
        predictions=sorted(predictions, key=lambda item: _place(order, item.precision)),
        predictions_reason=found.get("predictions_reason"),
        skipped=[(str(entry.get("precision")), str(entry.get("reason"))) for entry in found.get("skipped") or []],
        notes=[str(note) for note in found.get("notes") or []],
    )


def _place(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


_INTERVALS = (
    "latency_s", "median_latency_s", "p95_latency_s", "p99_latency_s", "throughput", "tokens_per_s", "power_w",
    "energy_mj", "dynamic_energy_mj", "inferences_per_joule", "tokens_per_joule", "energy_delay_product_js",
    "speedup", "energy_ratio",
)  # fmt: skip


def _cell(entry: Mapping[str, Any]) -> BenchmarkCell:
    known: dict[str, Any] = {key: _interval(entry.get(key)) for key in _INTERVALS}
    return BenchmarkCell(
        precision=str(entry["precision"]),
        batch_size=int(entry["batch_size"]),
        sequence_length=int(entry["sequence_length"]),
        trials=_whole(entry.get("trials")),
        peak_allocated_gb=finite(entry.get("peak_allocated_gb")),
        energy_spread=finite(entry.get("energy_spread")),
        quality=str(entry.get("quality") or INVALID),
        reasons=str(entry.get("reasons") or ""),
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

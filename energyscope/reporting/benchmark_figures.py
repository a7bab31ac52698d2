"""The figures of the benchmark: six small ones, quality against speed, and what batch size and length change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from energyscope.reporting import text
from energyscope.reporting.charts import benchmark as charts
from energyscope.reporting.charts.benchmark import Bar
from energyscope.reporting.data.benchmark import (
    BenchmarkCell,
    BenchmarkData,
    precision_title,
)
from energyscope.reporting.data.benchmark_words import FOREIGN, clipped, energy_word, place_text
from energyscope.reporting.data.work import parts_said
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.plane_figures import plane_figures
from energyscope.reporting.quality_figures import quality_figure, size_figure
from energyscope.runs.intervals import Interval

SECTION = "benchmark"
WEAK = " Hollow with \u2020: the energy is below grade C, not to be relied on."
_GRADED = " Grades are of the energy; how sure a latency is, its own whiskers say."


def benchmark_figures(data: BenchmarkData | None) -> list[Figure]:
    """Draw what the benchmark measured: of the first batch size and length, and of all where there are several."""
    if data is None:
        return []
    small = [
        _latency(data),
        _speedup(data),
        _energy(data),
        _throughput(data),
        quality_figure(data),
        size_figure(data),
    ]
    return [*(figure for figure in small if figure is not None), *plane_figures(data)]


@dataclass(frozen=True)
class _Measure:
    """A quantity of the cells: ``factor`` brings it to the unit of ``scaled``, a unit of `text.scale_of`."""

    value: Callable[[BenchmarkCell], Interval | None]
    scaled: str
    factor: float = 1.0

    def of(self, cell: BenchmarkCell) -> Interval | None:
        found = self.value(cell)
        return None if found is None else found.scaled(self.factor)


_LATENCY = _Measure(lambda cell: cell.latency_s, "us", 1e6)
_ENERGY = _Measure(lambda cell: cell.energy_mj, "mJ")
_THROUGHPUT = _Measure(lambda cell: cell.throughput, "")
_SPEEDUP = _Measure(lambda cell: cell.speedup, "")


def _bars(data: BenchmarkData, measure: _Measure) -> tuple[list[Bar], str]:
    """Return a bar for each precision that has a value in the first cell, and the unit they are in."""
    known = [(cell, item) for cell in data.first if (item := measure.of(cell)) is not None]
    divisor, unit = text.scale_of(max((item.value for _, item in known), default=1.0), measure.scaled)
    return [
        Bar(
            precision=cell.precision, title=cell.marked_title, value=item.value / divisor,
            low=None if item.low is None else item.low / divisor,
            high=None if item.high is None else item.high / divisor,
            label=charts.values_label(item.value / divisor), said=text.amount(item, measure.scaled),
            work=_work(cell, divisor) if measure is _ENERGY else None,
            weak=measure is _ENERGY and cell.invalid, baseline=cell.precision == data.baseline,
        )
        for cell, item in known
    ], unit  # fmt: skip


def _clipped(data: BenchmarkData, measure: _Measure) -> str:
    return clipped(measure.of(cell) for cell in data.first)


def _titles(data: BenchmarkData, *lines: str) -> list[str]:
    """Return the title of an axis, with a line that explains marked names where there are any."""
    return [*lines, *([FOREIGN] if any(cell.foreign for cell in data.first) else [])]


def _work(cell: BenchmarkCell, divisor: float) -> float | None:
    return None if cell.work_mj is None else cell.work_mj / divisor


def _rows(data: BenchmarkData, *measures: _Measure) -> list[list[str]]:
    return [
        [cell.title, *(text.amount(measure.of(cell), measure.scaled) for measure in measures)]
        for cell in data.first
    ]


def _latency(data: BenchmarkData) -> Figure | None:
    bars, unit = _bars(data, _LATENCY)
    if not bars:
        return None
    summary = charts.described(bars, "Latency per inference", unit)
    percentiles = [
        _Measure(lambda cell, key=key: getattr(cell, key), "us", 1e6)  # type: ignore[misc]
        for key in ("median_latency_s", "p95_latency_s", "p99_latency_s")
    ]
    return Figure(
        name="benchmark-latency",
        section=SECTION,
        title="Latency",
        caption=f"{place_text(data)}Mean time of one inference."
        + (_GRADED if any(cell.invalid for cell in data.first) else "")
        + _clipped(data, _LATENCY),
        summary=summary,
        chart=charts.bars(bars, _titles(data, f"Latency per inference ({unit})"), summary),
        table=Table(["precision", "mean", "median", "p95", "p99"], _rows(data, _LATENCY, *percentiles)),
    )


def _speedup(data: BenchmarkData) -> Figure | None:
    bars, _ = _bars(data, _SPEEDUP)
    if not bars or data.baseline is None:
        return None
    base = precision_title(data.baseline)
    summary = charts.described(bars, f"Speed-up over {base}", "times")
    return Figure(
        name="benchmark-speedup",
        section=SECTION,
        title="Speed-up",
        caption=f"{place_text(data)}{base}'s latency divided by this one's: below 1 is slower."
        + _clipped(data, _SPEEDUP),
        summary=summary,
        chart=charts.bars(bars, _titles(data, f"Speed-up over {base} (\u00d7)"), summary, mark=1.0),
        table=Table(["precision", f"speed-up over {base}"], _rows(data, _SPEEDUP)),
    )


def _energy(data: BenchmarkData) -> Figure | None:
    bars, unit = _bars(data, _ENERGY)
    if not bars:
        return None
    word = energy_word(data)
    summary = charts.described(bars, f"{word} per inference", unit)
    split = any(bar.work is not None for bar in bars)
    undivided = [bar.title for bar in bars if bar.work is None]
    title = _titles(data, f"{word} per inference ({unit})", *(["solid dynamic, pale static"] if split else []))
    parts = f"{parts_said(undivided)} " if split else ""
    return Figure(
        name="benchmark-energy",
        section=SECTION,
        title=word,
        caption=f"{place_text(data)}{parts}".rstrip()
        + (WEAK if any(bar.weak for bar in bars) else "")
        + _clipped(data, _ENERGY),
        summary=summary,
        chart=charts.bars(bars, title, summary),
        table=Table(["precision", "energy", "static", "dynamic", "against the baseline", "quality"],
                    [_energy_row(cell) for cell in data.first]),
        notes=_without_energy(data),
    )  # fmt: skip


def _energy_row(cell: BenchmarkCell) -> list[str]:
    return [
        cell.title, text.amount(cell.energy_mj, "mJ"), text.quantity(cell.static_energy_mj, "mJ"),
        text.amount(cell.dynamic_energy_mj, "mJ"), text.amount(cell.energy_ratio, ""),
        cell.quality + (f" ({cell.reasons})" if cell.reasons else ""),
    ]  # fmt: skip


def _without_energy(data: BenchmarkData) -> list[str]:
    return [
        f"{cell.title} has no energy{': ' + cell.reasons if cell.reasons else ''}."
        for cell in data.first
        if cell.energy_mj is None
    ]


def _throughput(data: BenchmarkData) -> Figure | None:
    bars, _ = _bars(data, _THROUGHPUT)
    if not bars:
        return None
    summary = charts.described(bars, "Throughput", "sequences/s")
    tokens = _Measure(lambda cell: cell.tokens_per_s, "")
    return Figure(
        name="benchmark-throughput",
        section=SECTION,
        title="Throughput",
        caption=place_text(data).rstrip() + _clipped(data, _THROUGHPUT),
        summary=summary,
        chart=charts.bars(bars, _titles(data, "Throughput (sequences/s)"), summary),
        table=Table(["precision", "sequences/s", "tokens/s"], _rows(data, _THROUGHPUT, tokens)),
    )

"""The benchmark's figures: an overview of the precisions, and quality against speed."""

from __future__ import annotations

from dataclasses import replace

from energyscope.reporting import text
from energyscope.reporting.data.benchmark import BenchmarkCell, BenchmarkData, precision_title
from energyscope.reporting.data.benchmark_words import clipped, shape_text
from energyscope.reporting.publication import sweeps
from energyscope.reporting.publication.sheet import DOUBLE, SINGLE, Missing, Panel, Sheet
from energyscope.reporting.publication.source import Source, caveats, missing, sheet_of
from energyscope.runs.intervals import Interval

OVERVIEW = {
    "latency": "Latency",
    "speedup": "Speed-up",
    "energy": "Energy",
    "throughput": "Throughput",
    "quality": "Quality",
    "size": "Size",
}


def overview(of: Source) -> Sheet | Missing:
    """Return the six panels of the benchmark at its first batch size and length."""
    stem = "benchmark_overview"
    found = {name: of.figures.get(f"benchmark-{name}") for name in OVERVIEW}
    panels = [Panel(_overview_title(of, name), figure.chart) for name, figure in found.items() if figure]
    if not panels or of.data.benchmark is None:
        return missing(of, stem, "benchmark")
    rows = [panels[start : start + 3] for start in range(0, len(panels), 3)]
    without = [OVERVIEW[name].lower() for name, figure in found.items() if figure is None]
    left_out = [f"without {text.listed(without, 6)}: {_why_without(of)}"] if without else []
    sheet = sheet_of(of, stem, "Benchmark", rows, DOUBLE)
    notes = [*sheet.notes, _note(of.data.benchmark, lines=True)]
    return replace(sheet, notes=notes, left_out=[*left_out, *_shown_at(of.data.benchmark)])


def _overview_title(of: Source, name: str) -> str:
    metric = of.data.benchmark.metric if of.data.benchmark else None
    if name == "quality" and metric:
        return metric.capitalize()
    return of.word if name == "energy" else OVERVIEW[name]


def _why_without(of: Source) -> str:
    reason = of.data.benchmark.predictions_reason if of.data.benchmark else None
    return reason or "not measured"


def _shown_at(found: BenchmarkData) -> list[str]:
    """Say which of several batch sizes and lengths a figure shows, and where the others are."""
    if len(found.shapes) < 2:
        return []
    return [
        f"shows {shape_text(found.shapes[0])}, the first of {len(found.shapes)} combinations; see {sweeps.STEM}"
    ]


def _note(found: BenchmarkData, *, lines: bool) -> str:
    """Say at which shape the benchmark is shown, and what its marks mean.

    ``lines`` says whether the figure has the baseline's lines and the energies, whose invalid bars are hollow.
    """
    said = [shape_text(found.shapes[0]).capitalize() + "."]
    if any(item.known for item in _drawn(found, lines=lines)):
        said.append(f"Whiskers: 95 % intervals.{clipped(_drawn(found, lines=lines))}")
    if any(item.difference is not None and item.difference.known for item in found.predictions):
        said.append("Thick: that of the difference from the baseline, on the same examples.")
    if lines and found.baseline in {cell.precision for cell in found.first}:
        said.append(f"Dashed: {precision_title(str(found.baseline))}, the baseline.")
    if lines and any(cell.invalid for cell in found.first):
        said.append("Hollow with \u2020: below grade C.")
    return " ".join(said)


def _drawn(found: BenchmarkData, *, lines: bool) -> list[Interval]:
    """Return the values that a figure shows."""

    def of(cell: BenchmarkCell) -> list[Interval | None]:
        more = [cell.energy_mj, cell.speedup, cell.throughput] if lines else []
        return [cell.latency_s, *more]

    values = [item for cell in found.first for item in of(cell) if item is not None]
    return [*values, *(item.value for item in found.predictions)]


def tradeoff(of: Source) -> Sheet | Missing:
    """Return accuracy or perplexity against latency."""
    stem = "speed_accuracy_tradeoff"
    figure, found = of.figures.get("benchmark-tradeoff"), of.data.benchmark
    if found is None:
        return missing(of, stem, "benchmark")
    if not found.predictions:
        return Missing(stem, f"There are no predictions: {_why_without(of)}.")
    if figure is None:
        return Missing(stem, "Fewer than two precisions have both a latency and predictions.")
    sheet = sheet_of(of, stem, "Speed against accuracy", [[Panel("", figure.chart, height=250)]], SINGLE)
    corner = "Upper left is better." if found.metric == "accuracy" else "Lower left is better."
    notes = [*caveats(of.run, energy=False), f"{corner} {_note(found, lines=False)}"]
    return replace(sheet, notes=notes, left_out=_shown_at(found))

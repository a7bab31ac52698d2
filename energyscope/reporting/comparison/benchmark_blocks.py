"""Two benchmarks beside each other: a chart of ratios for each quantity, a table for each precision and shape."""

from __future__ import annotations

from dataclasses import dataclass, replace

from energyscope.reporting.comparison.figures import ratio_figure
from energyscope.reporting.comparison.source import Source
from energyscope.reporting.comparison.tables import DifferenceRow, difference_rows
from energyscope.reporting.figure import Figure
from energyscope.runs.compare_benchmark import ENERGY, BenchmarkComparison, said_of_shape

_DRAWN = (ENERGY, "latency", "mean power")
_MOST_ROWS = 12


@dataclass(frozen=True)
class BenchmarkBlock:
    """The benchmark of one other run: what stands in its way, charts of ratios, and all numbers by cell."""

    title: str
    obstacles: tuple[str, ...]
    notes: list[str]
    figures: list[Figure]
    rows: list[DifferenceRow]
    alone: list[str]


def benchmark_blocks(source: Source) -> list[BenchmarkBlock]:
    """Return a block for each other run that was benchmarked like the baseline."""
    return [_block(source, one, index) for index, one in enumerate(source.comparison.benchmarks)]


def _block(source: Source, one: BenchmarkComparison, index: int) -> BenchmarkBlock:
    kernels = [f"{cell.precision}: {cell.implementations}" for cell in one.cells if cell.implementations]
    notes = [*one.notes, *(f"other kernels, {said}" for said in dict.fromkeys(kernels))]
    rows = [
        replace(item, name=f"{_where(one, at)}: {item.name}")
        for at, cell in enumerate(one.cells)
        for item in cell.rows
    ]
    return BenchmarkBlock(
        title=source.title_of(one),
        obstacles=one.obstacles,
        notes=[note[:1].upper() + note[1:] for note in notes],
        figures=[figure for name in _DRAWN if (figure := _figure(one, name, f"benchmark-{index}"))],
        rows=difference_rows(rows, one.obstacles),
        alone=list(one.alone),
    )


def _where(one: BenchmarkComparison, at: int) -> str:
    """Name a cell by its precision, with the shape where there are several."""
    cell = one.cells[at]
    shapes = {(each.batch_size, each.sequence_length) for each in one.cells}
    if len(shapes) == 1:
        return cell.precision
    return said_of_shape((cell.precision, cell.batch_size, cell.sequence_length)).replace(" tokens", "")


def _figure(one: BenchmarkComparison, name: str, place: str) -> Figure | None:
    items = [
        replace(item, name=_where(one, at))
        for at, cell in enumerate(one.cells)
        for item in cell.rows
        if item.name == name
    ]
    shapes = {(cell.batch_size, cell.sequence_length) for cell in one.cells}
    said = "by precision" if len(shapes) == 1 else "by precision and shape"
    title = f"{name[:1].upper()}{name[1:]} {said}"
    return ratio_figure(f"{place}-{_DRAWN.index(name)}", title, items[:_MOST_ROWS], one.baseline, one.other)

"""The benchmark for the terminal: a table that fits 80 columns, and sentences that read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.reporting.data.benchmark import (
    INVALID,
    BenchmarkCell,
    BenchmarkData,
    Prediction,
    benchmark_data,
)
from energyscope.reporting.data.benchmark_tables import benchmark_page
from energyscope.reporting.data.benchmark_words import change_of, shape_text
from energyscope.reporting.data.stages import why_missing
from energyscope.runs.intervals import Interval

if TYPE_CHECKING:
    from energyscope.runs.store import Run

DASH = "\u2013"
MOST_SHAPES = 2


def benchmark_summary(run: Run) -> RenderableType:
    """Return the table, what it says in sentences, what was skipped, and why there are no predictions."""
    data = benchmark_data(run)
    if data is None:
        return Text(why_missing(run.document, "benchmark"), style="dim")
    page = benchmark_page(data)
    parts: list[RenderableType] = [benchmark_table(run)]
    parts += [Text(note.strip(), style="dim") for note in (page.foreign, page.judged) if note]
    parts += [Text(f"- {sentence}") for sentence in (*page.said, *([page.twice] if page.twice else []))]
    parts += [Text(f"- {page.unpredicted}", style="yellow")] if page.unpredicted else []
    parts += [Text(f"- Not measured: {name} ({reason}).", style="yellow") for name, reason in page.skipped]
    parts += [Text(f"- {sentence}", style="dim") for sentence in page.reasons]
    return Group(*parts)


def benchmark_table(run: Run) -> Table:
    """Return a few lines for each precision, 80 columns wide; of many batch sizes and lengths, the first and last.

    The limits below a speed-up, an energy ratio and a change of the predictions are 95 % intervals. A run without
    a benchmark has a table without rows.
    """
    data = benchmark_data(run)
    title = Text(f"Benchmark of {run.name}")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    power, energy = ("stated power", "MODELLED energy") if run.modelled else ("power", "energy")
    quality = (data.metric if data else None) or "quality"
    table.add_column("precision\nimplementation\nsize, grade\n(of the energy)", overflow="fold")
    table.add_column("latency\nsequences/s\nspeed-up\n[95 %]", justify="right", no_wrap=True)
    table.add_column(f"{energy}\n{power}\nratio\n[95 %]", justify="right", no_wrap=True)
    table.add_column(f"{quality}\n\nchange\n[95 %]", justify="right", no_wrap=True)
    if data is not None:
        _fill(table, data)
    return table


def _fill(table: Table, data: BenchmarkData) -> None:
    shapes = data.shapes if len(data.shapes) <= MOST_SHAPES else [data.shapes[0], data.shapes[-1]]
    for shape in shapes:
        cells = data.at(shape)
        if len(data.shapes) > 1:
            table.add_row(Text(shape_text(shape), style="bold underline"))
        for cell in cells:
            table.add_row(*_row(cell, data), end_section=cell is cells[-1])
    if len(shapes) < len(data.shapes):
        table.caption = f"{text.count(len(data.shapes) - len(shapes), 'more shape')} in the report"


def _row(cell: BenchmarkCell, data: BenchmarkData) -> list[RenderableType]:
    base = cell.precision == data.baseline
    latency = None if cell.latency_s is None else cell.latency_s.scaled(1e6)
    speed = [_value(latency, "us"), f"{_value(cell.throughput, '')} /s", *_against(cell.speedup, base=base)]
    energy = [_value(cell.energy_mj, "mJ"), _value(cell.power_w, "W"), *_against(cell.energy_ratio, base=base)]
    predicted = _predicted(data.prediction(cell.precision), base=base)
    return [_name(cell, data), *(Text("\n".join(lines)) for lines in (speed, energy, predicted))]


def _name(cell: BenchmarkCell, data: BenchmarkData) -> Text:
    loaded = next((item for item in data.precisions if item.name == cell.precision), None)
    size = DASH if loaded is None or loaded.size_mb is None else f"{text.number(loaded.size_mb)} MB"
    grade = "yellow" if cell.quality == INVALID else ""
    return Text.assemble(
        (cell.marked_title, "bold"), "\n", (f"{loaded.implementation}\n" if loaded else "", "dim"), f"{size}, ",
        (cell.quality, grade),
    )  # fmt: skip


def _value(item: Interval | None, unit: str) -> str:
    return DASH if item is None else text.quantity(item.value, unit)


def _against(item: Interval | None, *, base: bool) -> list[str]:
    """Return a ratio to the baseline with its limits, or that this is the baseline."""
    if base:
        return ["baseline"]
    if item is None:
        return [DASH]
    return [f"\u00d7 {text.number(item.value)}", *([text.amount_limits(item, "")] if item.known else [])]


def _predicted(item: Prediction | None, *, base: bool) -> list[str]:
    if item is None:
        return [DASH]
    accurate = item.metric == "accuracy"
    value = f"{item.value.value * 100:.1f} %" if accurate else text.number(item.value.value, 4)
    change = change_of(item)
    if base or change is None:
        return [value, "", "baseline" if base else DASH]
    unit = " points" if accurate else ""
    written = f"{change.value:+.{text.places(change)}f}{unit}"
    return [value, "", written, *([text.limits(change, "")] if change.known else [])]

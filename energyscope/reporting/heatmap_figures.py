"""The figure of every component of every layer: energy, and by a switch joules for a FLOP, power, or time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from energyscope.reporting import text
from energyscope.reporting.charts import profile
from energyscope.reporting.data.energy import Cell
from energyscope.reporting.data.measures import Key, Measure
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded
from energyscope.reporting.view_figures import MEASURE, with_views

LABELS: dict[Key, str] = {"per-flop": "J per FLOP", "power": "Power", "time": "Time"}
_SAID: dict[Key, str] = {
    "per-flop": "Energy for a FLOP of matrix work, static energy included.",
    "power": "Mean power while the component is replayed.",
    "time": "Time per forward pass of the model.",
}


def heatmap_figure(cells: list[Cell], measures: Sequence[Measure], word: str) -> Figure:
    """Draw every component of every layer, with a view for each other measure that is known."""
    own = _heatmap(cells, f"{word}", "mJ", "Blocks and the parts inside them, layer by layer.", [])
    views = [(one.key, LABELS[one.key], _view(one, word)) for one in measures]
    return with_views(own, MEASURE, "Energy", views)


def _view(measure: Measure, word: str) -> Figure:
    title = {"per-flop": f"{word} per FLOP", "power": "Power", "time": "Time"}[measure.key]
    names = text.listed(measure.left_out, 8)
    notes = [f"Left out, with {measure.lack}: {names}."] if names else []
    return _heatmap(measure.cells, title, measure.unit, _SAID[measure.key], notes)


def _heatmap(cells: list[Cell], title: str, unit: str, caption: str, notes: list[str]) -> Figure:
    table = by_row_and_layer(
        (cell.row, cell.layer, graded(text.with_limits(cell.energy, unit) + _not_own(cell), cell.invalid))
        for cell in cells
    )
    largest = max(
        (cell for cell in cells if cell.energy), key=lambda cell: cell.energy.value if cell.energy else 0
    )
    summary = (
        f"{title} of each component of each layer; the largest is {largest.component} with "
        f"{text.with_limits(largest.energy, unit)}"
    )
    stroke, cross = ("line along the lower edge of", "line along the upper edge of a cell") if profile.dense(
        len({cell.layer for cell in cells if cell.energy})
    ) else ("stroke across", "cross")  # fmt: skip
    if any(cell.reused for cell in cells):
        caption += f" A {stroke} a cell marks a mean, or the value of another layer."
    if any(cell.invalid for cell in cells):
        caption += f" A {cross} marks a value below grade C, which is not to be relied on."
    return Figure(
        name="energy-heatmap",
        section="profile",
        title=f"{title} by layer and component",
        caption=caption,
        summary=summary,
        chart=profile.heatmap(cells, summary, title, unit),
        table=table,
        notes=notes,
    )


def _not_own(cell: Cell) -> str:
    return " (not its own)" if cell.reused else ""


def by_row_and_layer(cells: Iterable[tuple[str, int | None, str]]) -> Table:
    """Lay cells out as the heatmap does: a row for each component, a column for each layer."""
    found: dict[str, dict[int | None, str]] = {}
    for row, layer, content in cells:
        found.setdefault(row, {})[layer] = content
    layers = sorted({layer for row in found.values() for layer in row if layer is not None})
    columns = ["component", *(f"layer {layer}" for layer in layers)]
    return Table(columns, [[row, *(of.get(layer, "\u2013") for layer in layers)] for row, of in found.items()])

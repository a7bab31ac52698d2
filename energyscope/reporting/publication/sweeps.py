"""What batch size and length change: latency, energy and tokens per joule, a line for each precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import benchmark_plane, theme
from energyscope.reporting.charts.benchmark_plane import Step
from energyscope.reporting.data.benchmark import BenchmarkCell, BenchmarkData
from energyscope.reporting.data.benchmark_words import FOREIGN, clipped
from energyscope.reporting.publication.sheet import DOUBLE, Key, Missing, Panel, Sheet
from energyscope.reporting.publication.source import Source, sheet_of

STEM = "benchmark_sweep"
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
_HEIGHT = 165.0
_AXES = (("batch", "Batch size"), ("length", "Length (tokens)"))


@dataclass(frozen=True)
class _Slice:
    """The cells along batch sizes (``along`` 0) or lengths (1), at the first value of the other one."""

    along: int
    cells: list[BenchmarkCell]
    held: str

    @property
    def over(self) -> str:
        return ("batch size", "length")[self.along]


def sweep(of: Source) -> Sheet | Missing | None:
    """Return the figure of several batch sizes or lengths; None where the run has one of each."""
    data = of.data.benchmark
    slices = [] if data is None else [found for along in (0, 1) if (found := _slice(data, along)) is not None]
    if data is None or not slices:
        return None
    rows, without = [], []
    for part in slices:
        panels = {name: _panel(of, data, part, name) for name in ("latency", "energy", "tokens per joule")}
        rows.append([panel for panel in panels.values() if panel is not None])
        without += [f"{name} by {part.over}" for name, panel in panels.items() if panel is None]
    said = f"without {text.listed(without, 6)}: fewer than two valid values" if without else ""
    if not any(rows):
        return Missing(STEM, said.capitalize() + ".")
    sheet = sheet_of(of, STEM, "Batch sizes and lengths", rows, DOUBLE)
    return replace(sheet, notes=[*sheet.notes, _note(slices)], keys=_keys(data), left_out=[said] if said else [])


def _slice(data: BenchmarkData, along: int) -> _Slice | None:
    fixed = data.shapes[0][1 - along]
    cells = [cell for cell in data.cells if cell.shape[1 - along] == fixed]
    if len({cell.shape[along] for cell in cells}) < 2:
        return None
    return _Slice(along, cells, text.count(fixed, "token") if along == 0 else f"Batch {fixed}")


def _panel(of: Source, data: BenchmarkData, part: _Slice, name: str) -> Panel | None:
    title = f"{of.word if name == 'energy' else name.capitalize()} by {part.over}"
    if name == "energy":
        chart = _energy(of, part, title)
    else:
        figure = of.figures.get(f"benchmark-sweep-{_AXES[part.along][0]}-{name.replace(' ', '-')}")
        chart = figure.chart.copy(deep=True) if figure else None
    if chart is None:
        return None
    return Panel(title, _with_shared_legend(chart, data), [f"{part.held}."], height=_HEIGHT)


def _energy(of: Source, part: _Slice, title: str) -> Any:
    known = [
        (cell, cell.energy_mj)
        for cell in part.cells
        if cell.energy_mj is not None and not cell.invalid and cell.energy_mj.value > 0
    ]
    if len({cell.shape[part.along] for cell, _ in known}) < 2:
        return None
    divisor, unit = text.scale_of(max(energy.value for _, energy in known), "mJ")
    steps = [
        Step(cell.precision, cell.marked_title, cell.shape[part.along], energy.scaled(1 / divisor), "")
        for cell, energy in known
    ]
    axis = _AXES[part.along][1]
    across = [axis, FOREIGN] if of.data.benchmark and of.data.benchmark.foreign else axis
    return benchmark_plane.sweep(steps, (across, f"{of.word} per inference ({unit})"), f"{title}, {part.held}")


def _with_shared_legend(chart: Any, data: BenchmarkData) -> Any:
    """Take a chart's own legend away, give each precision the shape that it has in all panels, and begin at 0."""
    alt = theme.altair()
    scale = alt.Scale(
        domain=list(_titles(data).values()),
        range=[_shape(index) for index in range(len(data.order))],
    )
    for layer in chart.layer:
        encoding = layer.encoding
        encoding.color["legend"] = None
        upright = encoding.y["scale"]
        if isinstance(upright, alt.Scale) and upright["zero"] is False:  # linear; logarithmic ones do not say
            encoding.y["scale"] = alt.Scale(zero=True, nice=True)
        if isinstance(encoding.shape, alt.Shape):
            encoding.shape["legend"], encoding.shape["scale"] = None, scale
    return chart


def _shape(index: int) -> str:
    return SHAPES[index % len(SHAPES)]


def _keys(data: BenchmarkData) -> list[Key]:
    return [
        Key(title, theme.precision_colour(name), _shape(index))
        for index, (name, title) in enumerate(_titles(data).items())
    ]


def _titles(data: BenchmarkData) -> dict[str, str]:
    """Return what the charts call each precision, marked where times and energies are not its kernels'."""
    return {name: next(cell.marked_title for cell in data.cells if cell.precision == name) for name in data.order}


def _note(slices: list[_Slice]) -> str:
    """Explain the marks that there are, and say which cells are not drawn."""
    cells = [cell for part in slices for cell in part.cells]
    said = []
    values = [item for cell in cells for item in (cell.latency_s, cell.energy_mj) if item is not None]
    if any(item.known for item in values):
        said.append(f"Whiskers: 95 % intervals.{clipped(values)}")
    if weak := sum(cell.invalid for cell in dict.fromkeys(cells)):
        said.append(f"Without {text.count(weak, 'energy', 'energies')} below grade C.")
    return " ".join(said)

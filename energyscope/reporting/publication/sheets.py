"""The six figures of a run, set together from the charts of its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from energyscope.reporting import text
from energyscope.reporting.charts import comparison
from energyscope.reporting.data import ReportData, report_data
from energyscope.reporting.data.benchmark import precision_title
from energyscope.reporting.data.benchmark_words import shape_text
from energyscope.reporting.data.correlate import Correlation
from energyscope.reporting.data.execution import TRIGGERED
from energyscope.reporting.data.relations import TITLES, coefficient
from energyscope.reporting.data.stages import why_missing
from energyscope.reporting.figure import Figure
from energyscope.reporting.figures import figures
from energyscope.reporting.publication.by_type import impact_rows
from energyscope.reporting.publication.costliest import costliest
from energyscope.reporting.publication.sheet import DOUBLE, SINGLE, Missing, Panel, Sheet
from energyscope.runs.intervals import finite
from energyscope.runs.store import Run
from energyscope.runs.tree import energy_tree

OVERVIEW = {
    "latency": "Latency",
    "speedup": "Speed-up",
    "energy": "Energy",
    "throughput": "Throughput",
    "quality": "Quality",
    "size": "Size",
}
_WIDE_MATRIX = 9  # columns, beyond which a matrix takes two columns of the page
_NOT_OWN = "A stroke marks a mean over layers, or another layer's value."


@dataclass(frozen=True)
class Source:
    """A run with what its report makes of it."""

    run: Run
    data: ReportData
    figures: dict[str, Figure]

    @property
    def word(self) -> str:
        """What the run's joules are called."""
        return "Modelled energy" if self.run.modelled else "Energy"

    @property
    def about(self) -> str:
        """The run in a few words, for the figures' titles."""
        model = self.run.document.get("model") or {}
        return str(model.get("name") or self.run.name)


def source(run: Run) -> Source:
    """Gather a run's data and draw the charts of its report."""
    data = report_data(run)
    return Source(run, data, {figure.name: figure for figure in figures(data)})


def sheets(of: Source) -> list[Sheet | Missing]:
    """Return the six figures of a run, or why one cannot be drawn."""
    return [_overview(of), _tradeoff(of), _energy(of), _impact(of), _scatter(of), _matrix(of)]


def caveats(run: Run) -> list[str]:
    """Return what has to stand in every figure that shows this run's energy."""
    found = []
    if run.modelled:
        watts = finite((run.document.get("sensor") or {}).get("watts"))
        stated = f"{watts:g} W, which were stated" if watts is not None else "stated watts"
        found.append(f"MODELLED: energy is time multiplied by {stated}; no power was measured.")
    if (run.document.get("model") or {}).get("weights") == "random":
        found.append("RANDOM WEIGHTS: the model has its true shape and no trained weights.")
    return found


def _sheet(of: Source, stem: str, title: str, rows: Sequence[list[Panel]], width: float) -> Sheet:
    return Sheet(stem, f"{title}: {of.about}", [row for row in rows if row], width, caveats(of.run))


def _missing(of: Source, stem: str, stage: str) -> Missing:
    return Missing(stem, why_missing(of.run.document, stage))


def _overview(of: Source) -> Sheet | Missing:
    stem = "benchmark_overview"
    found = {name: of.figures.get(f"benchmark-{name}") for name in OVERVIEW}
    panels = [Panel(_overview_title(of, name), figure.chart) for name, figure in found.items() if figure]
    if not panels:
        return _missing(of, stem, "benchmark")
    rows = [panels[start : start + 3] for start in range(0, len(panels), 3)]
    without = [OVERVIEW[name].lower() for name, figure in found.items() if figure is None]
    left_out = [f"without {text.listed(without, 6)}: {_why_without(of)}"] if without else []
    sheet = _sheet(of, stem, "Benchmark", rows, DOUBLE)
    return replace(sheet, notes=[*sheet.notes, _benchmark_note(of)], left_out=left_out)


def _overview_title(of: Source, name: str) -> str:
    metric = of.data.benchmark.metric if of.data.benchmark else None
    if name == "quality" and metric:
        return metric.capitalize()
    return of.word if name == "energy" else OVERVIEW[name]


def _why_without(of: Source) -> str:
    reason = of.data.benchmark.predictions_reason if of.data.benchmark else None
    return reason or "not measured"


def _benchmark_note(of: Source, *, lines: bool = True) -> str:
    """Say at which shape the benchmark is shown, and what its marks mean."""
    found = of.data.benchmark
    if found is None:
        return ""
    at = shape_text(found.shapes[0])
    base = f" Dashed: {precision_title(found.baseline)}, the baseline." if found.baseline else ""
    weak = " Hollow with \u2020: below grade C." if any(cell.invalid for cell in found.first) else ""
    paired = (
        " Thick: that of the difference from the baseline, on the same examples."
        if any(item.difference for item in found.predictions)
        else ""
    )
    return f"{at[:1].upper()}{at[1:]}. Whiskers: 95 % intervals.{paired}{base if lines else ''}{weak}"


def _tradeoff(of: Source) -> Sheet | Missing:
    stem = "speed_accuracy_tradeoff"
    figure, found = of.figures.get("benchmark-tradeoff"), of.data.benchmark
    if found is None:
        return _missing(of, stem, "benchmark")
    if not found.predictions:
        return Missing(stem, f"There are no predictions: {_why_without(of)}.")
    if figure is None:
        return Missing(stem, "Fewer than two precisions have both a latency and predictions.")
    sheet = _sheet(of, stem, "Speed against accuracy", [[Panel("", figure.chart, height=250)]], SINGLE)
    corner = "Upper left is better." if found.metric == "accuracy" else "Lower left is better."
    return replace(sheet, notes=[*caveats(of.run), f"{corner} {_benchmark_note(of, lines=False)}"])


def _energy(of: Source) -> Sheet | Missing:
    stem = "per_layer_energy_analysis"
    tree = energy_tree(of.run.energy) if of.run.energy is not None and not of.run.energy.empty else None
    if tree is None or of.data.energy is None:
        return _missing(of, stem, "profile")
    by_kind, by_layer, heatmap = (of.figures.get(f"energy-{name}") for name in ("by-kind", "by-layer", "heatmap"))
    most = costliest(tree)
    first = [Panel(f"{of.word} by type, share of the model", by_kind.chart)] if by_kind else []
    if most:
        chart = comparison.costliest(most, "the costliest components", of.word)
        first.append(Panel("Costliest components", chart))
    rows = [
        first,
        [Panel(f"{of.word} of each layer", by_layer.chart, height=110)] if by_layer else [],
        [Panel(f"{of.word} by layer and component", heatmap.chart)] if heatmap else [],
    ]
    if not any(rows):
        return Missing(stem, "No component has an energy.")
    without = [name for name, figure in (("each layer", by_layer), ("layer and component", heatmap)) if not figure]
    sheet = _sheet(of, stem, f"{of.word} by layer", rows, DOUBLE)
    return replace(
        sheet,
        notes=[*sheet.notes, *_energy_notes(of)],
        left_out=[f"without the panels by {text.listed(without)}: the run has no such values"] if without else [],
    )


def _energy_notes(of: Source) -> list[str]:
    """Explain the marks of the panels, those that appear, and say what stands in the way of the numbers."""
    energy = of.data.energy
    if energy is None:
        return []
    said = ["Whiskers: 95 % intervals."]
    if any(entry.static_mj is not None for entry in energy.kinds):
        said.append("Pale: static, solid: dynamic energy.")
    if any(cell.reused for cell in energy.cells):
        said.append(_NOT_OWN)
    if any(cell.invalid for cell in (*energy.cells, *energy.layers)):
        said.append("Hollow bars and crosses: below grade C.")
    if any(entry.invalid for entry in energy.kinds):
        said.append("\u2020 Some of it below grade C.")
    if of.data.execution.sampling == TRIGGERED:
        said.append("TRIGGERED SAMPLING: components were read in passing, never replayed.")
    return [" ".join(said)]


def _impact(of: Source) -> Sheet | Missing:
    stem = "prediction_impact_by_type"
    if of.data.impact is None:
        return _missing(of, stem, "ablate")
    rows, left_out = impact_rows(of.data.impact)
    if not rows:
        return Missing(stem, "No impact by type is valid.")
    widest = max(map(len, rows))
    note = (
        "Dots: means over the components of a type; lines: 95 % intervals of these means over the examples. "
        "Blocks and the parts inside them are both shown, so types do not add up."
    )
    return Sheet(stem, f"Impact by type: {of.about}", rows, SINGLE if widest == 1 else DOUBLE, [note],
                 left_out=left_out)  # fmt: skip


def _scatter(of: Source) -> Sheet | Missing:
    stem = "energy_vs_impact_scatter"
    figure, found = of.figures.get("energy-impact"), of.data.correlation
    if figure is None or found is None:
        nothing = "No component has both an energy of grade A to C and an impact."
        return _missing(of, stem, "correlate") if found is None else Missing(stem, nothing)
    chosen = {item.method: item for item in found.chosen if item.x == "energy_mj"}
    said = [
        f"{TITLES[method]} {_signed(chosen[method])}, n = {chosen[method].n}"
        for method in ("spearman", "pearson")
        if method in chosen
    ]
    sheet = _sheet(of, stem, "Energy against impact", [[Panel("", figure.chart, said, height=330)]], SINGLE)
    note = "Lines and brackets: 95 % intervals. Dashed: limits of the quadrants; hollow: quadrant undecided."
    return replace(sheet, notes=[*sheet.notes, note])


def _signed(item: Correlation) -> str:
    """Write a coefficient with the minus sign that the axes have."""
    said = coefficient(item.value, item.reason)
    return said if item.value is None else said.replace("-", "\u2212")


def _matrix(of: Source) -> Sheet | Missing:
    stem = "energy_impact_correlation_matrix"
    figure = of.figures.get("correlation-matrix")
    if figure is None or of.data.correlation is None or of.data.correlation.matrix is None:
        few = "correlation.json has no matrix: too few columns, or a version that made none."
        return _missing(of, stem, "correlate") if of.data.correlation is None else Missing(stem, few)
    many = len(of.data.correlation.matrix.columns) > _WIDE_MATRIX
    sheet = _sheet(of, stem, "Correlations", [[Panel("", figure.chart)]], DOUBLE if many else SINGLE)
    return replace(sheet, notes=[*sheet.notes, "Spearman's rank correlation over components; empty: not known."])

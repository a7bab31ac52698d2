"""The figures of a run, set together from the charts of its report."""

from __future__ import annotations

from dataclasses import replace

from energyscope.reporting import text
from energyscope.reporting.charts import comparison
from energyscope.reporting.data.correlate import UNDECIDED, Correlation, CorrelationData
from energyscope.reporting.data.execution import TRIGGERED
from energyscope.reporting.data.relations import TITLES, coefficient
from energyscope.reporting.publication import benchmarks, sweeps
from energyscope.reporting.publication.by_type import impact_rows
from energyscope.reporting.publication.costliest import costliest
from energyscope.reporting.publication.inference import inference_sheets
from energyscope.reporting.publication.sheet import DOUBLE, SINGLE, Missing, Panel, Sheet
from energyscope.reporting.publication.source import Source, missing, sheet_of
from energyscope.runs.tree import energy_tree

_WIDE_MATRIX = 9  # columns, beyond which a matrix takes two columns of the page
_NOT_OWN = "A stroke marks a mean over layers, or another layer's value."


def sheets(of: Source) -> list[Sheet | Missing]:
    """Return the six figures of a run, or why one cannot be drawn; then those of a whole inference."""
    sweep = sweeps.sweep(of)
    first = [benchmarks.overview(of), *([sweep] if sweep is not None else []), benchmarks.tradeoff(of)]
    return [*first, _energy(of), _impact(of), _scatter(of), _matrix(of), *inference_sheets(of)]


def _energy(of: Source) -> Sheet | Missing:
    stem = "per_layer_energy_analysis"
    tree = energy_tree(of.run.energy) if of.run.energy is not None and not of.run.energy.empty else None
    if tree is None or of.data.energy is None:
        return missing(of, stem, "profile")
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
    sheet = sheet_of(of, stem, f"{of.word} by layer", rows, DOUBLE)
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
    if any(entry.work_mj is not None for entry in energy.kinds):
        said.append("Solid: dynamic, pale: static energy.")
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
        return missing(of, stem, "ablate")
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
        return missing(of, stem, "correlate") if found is None else Missing(stem, nothing)
    chosen = {item.method: item for item in found.chosen if item.x == "energy_mj"}
    said = [
        f"{TITLES[method]} {_signed(chosen[method])}, n = {chosen[method].n}"
        for method in ("spearman", "pearson")
        if method in chosen
    ]
    sheet = sheet_of(of, stem, "Energy against impact", [[Panel("", figure.chart, said, height=330)]], SINGLE)
    note = _scatter_note(
        found, brackets=any(item.value is not None and item.value.known for item in chosen.values())
    )
    return replace(sheet, notes=[*sheet.notes, *note])


def _scatter_note(found: CorrelationData, *, brackets: bool) -> list[str]:
    """Explain the marks that the scatter has."""
    lines = any(item.known for point in found.points for item in (point.energy, point.impact))
    marks = [*(["Lines"] if lines else []), *(["brackets"] if brackets else [])]
    said = [" and ".join(marks).capitalize() + ": 95 % intervals."] if marks else []
    if found.energy_threshold_mj is not None or found.impact_threshold is not None:
        said.append("Dashed: limits of the quadrants.")
    if any(point.quadrant == UNDECIDED for point in found.points):
        said.append("Hollow: quadrant undecided.")
    return [" ".join(said)] if said else []


def _signed(item: Correlation) -> str:
    """Write a coefficient with the minus sign that the axes have."""
    said = coefficient(item.value, item.reason)
    return said if item.value is None else said.replace("-", "\u2212")


def _matrix(of: Source) -> Sheet | Missing:
    stem = "energy_impact_correlation_matrix"
    figure = of.figures.get("correlation-matrix")
    if figure is None or of.data.correlation is None or of.data.correlation.matrix is None:
        few = "correlation.json has no matrix: too few columns, or a version that made none."
        return missing(of, stem, "correlate") if of.data.correlation is None else Missing(stem, few)
    many = len(of.data.correlation.matrix.columns) > _WIDE_MATRIX
    sheet = sheet_of(of, stem, "Correlations", [[Panel("", figure.chart)]], DOUBLE if many else SINGLE)
    empty = any(cell.value is None for cell in of.data.correlation.matrix.cells)
    note = f"Spearman's rank correlation over components{'; empty: not known' if empty else ''}."
    return replace(sheet, notes=[*sheet.notes, note])

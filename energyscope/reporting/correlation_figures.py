"""The figures on energy against impact: every component, and every column with every other."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.charts import correlate, correlation_matrix
from energyscope.reporting.data.correlate import CorrelationData, impact_title, rank_text
from energyscope.reporting.data.matrix import Matrix
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded


def correlation_figures(found: CorrelationData | None, word: str) -> list[Figure]:
    """Return the scatter and the matrix; ``word`` is what the run's joules are called."""
    if found is None or not found.points:
        return []
    sizes = ", ".join(f"{len(points)} {name}" for name, points in found.quadrants.items())
    summary = f"Energy against {impact_title(found.impact)} of {len(found.points)} leaf components: {sizes}"
    rows = [
        [point.component, point.kind, graded(text.with_limits(point.energy, "mJ"), point.invalid),
         text.with_limits(point.impact, ""), rank_text(point.energy_rank), rank_text(point.impact_rank),
         text.percent(point.stability) if point.stability is not None else text.UNKNOWN, point.quadrant]
        for points in found.quadrants.values()
        for point in points
    ]  # fmt: skip
    rule = f" Dashed lines: {found.rule}." if found.rule else ""
    return [
        Figure(
            name="energy-impact",
            section="correlate",
            title="Each leaf component",
            caption=f"One point for each leaf component with both 95 % intervals.{rule} A hollow point's interval "
            "crosses a line: its quadrant is undecided. Names stand where they have room; the table has all."
            + (
                " A cross has an energy below grade C, not to be relied on."
                if any(point.invalid for point in found.points)
                else ""
            ),
            summary=summary,
            chart=correlate.scatter(found, summary, word),
            table=Table(
                ["component", "kind", "energy", "impact", "energy rank", "impact rank", "stays", "quadrant"], rows
            ),
            notes=[f"{text.count(found.left_out, 'component')} without a value left out."]
            if found.left_out
            else [],
        ),
        *_matrix(found.matrix),
    ]


def _matrix(found: Matrix | None) -> list[Figure]:
    if found is None:
        return []
    known = [cell for cell in found.cells if cell.value is not None]
    if not known:
        return []
    summary = f"Spearman's rank correlation of {text.count(len(found.columns), 'column')} of energy and impact"
    if strongest := max(known, key=lambda cell: abs(cell.value or 0), default=None):
        summary += f"; the strongest is {strongest.value:+.2f}, of {strongest.one} with {strongest.other}"
    left_out = f"{text.count(found.left_out, 'column')} more in correlation.json." if found.left_out else ""
    rows = [
        [cell.one, cell.other, str(cell.n), text.UNKNOWN if cell.value is None else f"{cell.value:+.2f}",
         cell.reason or ""]
        for cell in found.cells
    ]  # fmt: skip
    return [
        Figure(
            name="correlation-matrix",
            section="matrix",
            title="Every column with every other",
            caption="Spearman's rank correlation over the components compared (over the layers, where layers were "
            "skipped), without intervals: for what goes together, not for what is shown. Empty: too few "
            "components, or all alike.",
            summary=summary,
            chart=correlation_matrix.matrix(found, summary),
            table=Table(["column", "with", "n", "Spearman", "note"], rows),
            notes=[left_out] if left_out else [],
        )
    ]

"""What two benchmarks say against each other, in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.comparison.words import reasons_in_short, value_text
from energyscope.reporting.differences import by_how_much
from energyscope.runs.compare_benchmark import ENERGY, BenchmarkComparison, CellComparison, said_of_shape
from energyscope.runs.compare_difference import Difference


def benchmark_said(one: BenchmarkComparison) -> str:
    """Say how the benchmarks differ: the amounts of verdicts, and the widest difference."""
    items = [(cell, row) for cell in one.cells for row in cell.rows if row.name == ENERGY and row.relative]
    if not items:
        return ""
    judged = [(cell, row) for cell, row in items if row.verdict in {"less", "more"}]
    if not judged:
        return f"In the benchmark, no precision of {one.other} gets less or more: {text.listed(_reasons(items))}."
    cell, widest = max(judged, key=lambda pair: abs(pair[1].relative.value - 1) if pair[1].relative else 0.0)
    counted = [
        f"{verdict} at {amount}"
        for verdict in ("less", "more")
        if (amount := sum(row.verdict == verdict for _, row in judged))
    ]
    rest = len(items) - len(judged)
    amounts = f"{' and '.join(counted)} of {text.count(len(items), 'precision', 'precisions')}"
    where = said_of_shape((cell.precision, cell.batch_size, cell.sequence_length))
    much = by_how_much(widest.relative) if widest.relative else ""
    values = f"{value_text(widest.other, 'mJ')} against {value_text(widest.baseline, 'mJ')}"
    amounts += f", neither at {rest}" if rest else ""
    return (
        f"In the benchmark, {one.other} against {one.baseline} takes {amounts}; the widest is {where}: {much}, "
        f"{values} per inference."
    )


def _reasons(items: Sequence[tuple[CellComparison, Difference]]) -> list[str]:
    """Return why there is no verdict, each reason once; with its amount where it is not that of all."""
    each = [(reasons_in_short(row) or row.verdict).split(", ") for _, row in items]
    amounts = Counter(reason for reasons in each for reason in dict.fromkeys(reasons))
    return [
        reason if amount == len(each) else f"{reason} at {amount} of {len(each)}"
        for reason, amount in amounts.items()
    ]

"""Differences of measured servers, as a table."""

from __future__ import annotations

from energyscope.comparison.served import compare_served
from energyscope.reporting.comparison.differences import row
from energyscope.reporting.table import Column, Table
from energyscope.serving.run import ServingRun


def served_table(baseline: ServingRun, other: ServingRun) -> Table:
    """Return how one measurement of a server differs from another."""
    columns = [
        Column("name", "What"),
        Column("ratio", "Ratio", "ratio", "other / baseline, with 95 % interval"),
        Column("baseline", baseline.name, "", "with 95 % interval", rank=2),
        Column("other", other.name, "", "with 95 % interval", rank=1),
        Column("verdict", "Verdict", "text", "less, more: the 95 % interval of the difference excludes 0"),
        Column("reason", "Why not", "reasons", rank=3),
    ]
    rows = [row(item, reason=item.reason) for item in compare_served(baseline, other) if not item.missing]
    return Table(columns, rows, f"{other.name} against {baseline.name}")

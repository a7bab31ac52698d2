"""Comparisons and pooled runs in a notebook, as HTML without scripts or styles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from energyscope.reporting.comparison.answer import ComparisonAnswer, chips
from energyscope.reporting.comparison.pooled import pooled_table, sentences
from energyscope.reporting.comparison.source import ComparedRuns
from energyscope.reporting.comparison.terminal import tables_of
from energyscope.reporting.page import environment
from energyscope.reporting.table import Table

if TYPE_CHECKING:
    from energyscope.comparison.compare import Comparison
    from energyscope.comparison.pooling import Pooled


def comparison_screen(comparison: Comparison) -> str:
    """Return what changed against the baseline, by how much, and whether to trust it."""
    source = ComparedRuns(comparison)
    answers = [ComparisonAnswer(against) for against in source.others]
    lines = [line for answer in answers for line in (answer.sentence, answer.cause)]
    return _screen(
        f"{' and '.join(source.names[1:])} against {source.names[0]}",
        [" · ".join(chip.text for chip in chips(source)), *lines],
        [table for table in tables_of(source, answers[0]) if table],
        trust=answers[0].trust,
    )


def pooled_screen(pooled: Pooled) -> str:
    """Return what the whole pass and each component take over all runs."""
    return _screen(f"{pooled.model} on {pooled.device}", sentences(pooled), [pooled_table(pooled)])


def _screen(heading: str, lines: Iterable[str], tables: Iterable[Table], trust: str = "") -> str:
    template = environment().get_template("compare/notebook.html.j2")
    return template.render(heading=heading, lines=lines, tables=tables, trust=trust)

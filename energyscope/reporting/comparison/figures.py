"""The charts of differences: ratios of whole models, and the components that changed most."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.comparison.drawing import Row, changes, forest
from energyscope.reporting.comparison.source import Source
from energyscope.reporting.comparison.tables import numbers
from energyscope.reporting.comparison.words import intervals_said, lower, mark_of, ratio_text, verdict_text
from energyscope.reporting.differences import change_text
from energyscope.reporting.figure import Figure
from energyscope.runs.compare import PairComparison
from energyscope.runs.compare_difference import Difference

MOST_CHANGES = 15
_MOST_LETTERS = 26


def ratio_figure(name: str, title: str, found: Sequence[Difference], baseline: str, other: str) -> Figure | None:
    """Draw the ratios of quantities, other / baseline; None where fewer than two are known."""
    drawn = [item for item in found if item.relative is not None]
    if len(drawn) < 2:
        return None
    rows = [
        Row(item.name, item.relative, mark_of(item), ratio_text(item.relative), weak=item.invalid)
        for item in drawn
        if item.relative is not None
    ]
    summary = f"{title}: " + "; ".join(
        f"{item.name} {ratio_text(item.relative)} ({item.verdict})" for item in drawn
    )
    return Figure(
        name=name,
        section="whole",
        title=title,
        caption=f"{other} / {baseline}, {intervals_said(item.relative for item in drawn)}. "
        f"Dashed: as much as {baseline}."
        + (" Hollow: no verdict." if any(item.verdict == "not comparable" for item in drawn) else ""),
        summary=summary,
        chart=forest(rows, "Ratio to the baseline", summary),
        table=numbers(drawn),
    )


def change_figure(source: Source, pair: PairComparison, index: int) -> Figure | None:
    """Draw what changed most, largest first; None where no part can be compared."""
    known = [item for item in pair.largest if item.change is not None]
    if not known:
        return None
    shown = known[:MOST_CHANGES]
    divisor, unit = text.scale_of(max(abs(item.together.value) for item in shown if item.together), "mJ")
    labels = _labels(shown)
    rows = [
        Row(label, item.together.scaled(1 / divisor), mark_of(item), _said(item), item.invalid)
        for label, item in zip(labels, shown, strict=True)
        if item.together is not None
    ]
    title = source.title_of(pair) or "Largest changes"
    summary = f"What changed most, {title}: " + "; ".join(
        f"{item.name} {change_text(item)[0]} ({verdict_text(item)})" for item in shown[:5]
    )
    return Figure(
        name=f"changes-{index}",
        section="changes",
        title=title,
        caption=_caption(pair, shown, len(known) - len(shown)),
        summary=summary,
        chart=changes(rows, f"Change of {lower(source.word)} ({unit})", summary),
        table=numbers(shown),
    )


def _said(item: Difference) -> str:
    return " ".join(change_text(item)).strip() + (f", each of {item.count}" if item.count > 1 else "")


def _caption(pair: PairComparison, shown: Sequence[Difference], hidden: int) -> str:
    by = (
        "Components that both have, parents with their children in them; one bar is all that were measured "
        "together, such as a mean over the layers."
        if pair.alignment == "component"
        else "The components differ, so each kind is added up over its components; a parent holds its children."
    )
    more = f" {text.count(hidden, 'smaller one')} in the table of all numbers." if hidden else ""
    weak = "; dashed as well: below grade C" if any(item.invalid for item in shown) else ""
    hollow = f" Hollow: no verdict{weak}." if any(item.verdict == "not comparable" for item in shown) else ""
    return f"Other - baseline, {intervals_said(part.change for part in pair.parts)}. {by}{hollow}{more}"


def _labels(found: Sequence[Difference]) -> list[str]:
    """Return names that fit beside a bar: without what all begin with, the end of a long one."""
    names = [item.name for item in found]
    first = names[0].split(".")[0] + "."
    if len(names) > 1 and sum(name.startswith(first) for name in names) > len(names) / 2:
        names = [name.removeprefix(first) for name in names]
    names = [name if len(name) <= _MOST_LETTERS else name.rpartition("*.")[2] for name in names]
    labels = [name if len(name) <= _MOST_LETTERS else f"\u2026{name[-_MOST_LETTERS + 1 :]}" for name in names]
    if len(set(labels)) < len(labels):
        labels = [item.name for item in found]
    return [
        f"{item.count}\u00d7 {label}" if item.count > 1 else label
        for label, item in zip(labels, found, strict=True)
    ]

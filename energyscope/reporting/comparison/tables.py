"""Differences as rows of tables: each with its verdict, and why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from energyscope.reporting.comparison.source import Source, moment
from energyscope.reporting.comparison.words import ratio_text, value_text, value_with_limits, verdict_text
from energyscope.reporting.differences import change_text
from energyscope.reporting.figure import Table
from energyscope.reporting.rows import Column, TableCell
from energyscope.runs.compare import PairComparison
from energyscope.runs.compare_difference import NO_INTERVAL, Difference

_TONES = {"less": "less", "more": "more", "no difference shown": "plain", "not comparable": "warn"}


@dataclass(frozen=True)
class DifferenceRow:
    """A row of a table for people: ``tone`` colours the verdict, ``reason`` stands below it."""

    name: str
    detail: str
    baseline: str
    other: str
    change: str
    limits: str
    ratio: str
    verdict: str
    tone: str
    reason: str


def difference_rows(found: Iterable[Difference], standing: Sequence[str] = ()) -> list[DifferenceRow]:
    """Return a row for each difference; reasons that stand above the table are not repeated."""
    return [_row(item, "; ".join(standing)) for item in found]


def _row(item: Difference, standing: str) -> DifferenceRow:
    change, limits = change_text(item)
    return DifferenceRow(
        name=item.name,
        detail=_detail(item),
        baseline=value_text(item.baseline, item.unit),
        other=value_text(item.other, item.unit),
        change=change,
        limits=limits,
        ratio=ratio_text(item.relative),
        verdict=verdict_text(item),
        tone=_TONES[item.verdict],
        reason=_reason(item, standing),
    )


def _detail(item: Difference) -> str:
    said = [f"each of {item.count}"] if item.count > 1 else []
    return ", ".join([*said, *([item.origin] if item.origin else [])])


def _reason(item: Difference, standing: str) -> str:
    """Return what the verdict does not say by itself."""
    reason = item.reason or ""
    if item.verdict == "no difference shown" or reason in {standing, NO_INTERVAL}:
        return ""
    return reason.removeprefix(f"{standing}; ") if standing else reason


ALL_COLUMNS = (
    Column("Component", numeric=False),
    Column("Kind", numeric=False),
    Column("Run", numeric=False),
    Column("Moment", numeric=False),
    Column("Verdict", numeric=False),
    Column("Difference", numeric=True, hint="other - baseline, with its 95 % interval"),
    Column("Ratio", numeric=True, hint="other / baseline, with its 95 % interval"),
    Column("Baseline", numeric=True, hint="with its 95 % interval"),
    Column("Other", numeric=True, hint="with its 95 % interval"),
)


def all_columns(source: Source) -> list[Column]:
    """Return the columns of the table of all components; run and moment where there are several."""
    hidden = {"Run"} if not source.several else set[str]()
    hidden |= {"Moment"} if len(source.scenes) < 2 else set[str]()
    return [column for column in ALL_COLUMNS if column.title not in hidden]


def all_rows(source: Source) -> list[list[TableCell]]:
    """Return every component of every comparison, the largest change first within each."""
    titles = [column.title for column in all_columns(source)]
    found = []
    for pair in source.pairs:
        for item in pair.largest:
            cells = _cells(pair, item)
            found.append([cells[title] for title in titles])
    return found


def _cells(pair: PairComparison, item: Difference) -> dict[str, TableCell]:
    change = " ".join(change_text(item)).strip()
    numbered = {
        "Difference": (change, item.change),
        "Ratio": (ratio_text(item.relative), item.relative),
        "Baseline": (value_with_limits(item.baseline, item.unit), item.baseline),
        "Other": (value_with_limits(item.other, item.unit), item.other),
    }
    return {
        "Component": TableCell(item.name, detail=_detail(item)),
        "Kind": TableCell(item.kind or ""),
        "Run": TableCell(pair.other),
        "Moment": TableCell(moment(pair.scene)),
        "Verdict": TableCell(verdict_text(item), detail=_reason(item, "; ".join(pair.obstacles))),
        **{title: TableCell(said, value.value if value else None) for title, (said, value) in numbered.items()},
    }


def numbers(found: Iterable[Difference]) -> Table:
    """Return the numbers behind a chart of differences."""
    rows = []
    for item in found:
        change, limits = change_text(item)
        rows.append(
            [item.name, value_with_limits(item.baseline, item.unit), value_with_limits(item.other, item.unit),
             f"{change} {limits}".rstrip(), ratio_text(item.relative), verdict_text(item)]
        )  # fmt: skip
    return Table(["what", "baseline [95 %]", "other [95 %]", "difference [95 %]", "ratio [95 %]", "verdict"], rows)

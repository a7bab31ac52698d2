"""Differences as a table and as a chart of ratios: the same everywhere on a page and in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from energyscope import reasons
from energyscope.comparison.conditions import BOARD, NAMES
from energyscope.comparison.difference import LATENCY, LESS, POWER, SHOWN, TOKENS_PER_JOULE, Difference
from energyscope.comparison.difference import NOT_COMPARABLE as UNDECIDED
from energyscope.reporting.charts.bars import bars, dots
from energyscope.reporting.charts.theme import COSTS, SAVES, UNCLEAR, title_of
from energyscope.reporting.comparison.source import Sides
from energyscope.reporting.section import View
from energyscope.reporting.table import Amount, Column, Row, Table

_TITLES = {LATENCY: "time"}
_UNITS = {"tokens/J": "", "accuracy": "share"}
_BETTER_LARGER = frozenset({TOKENS_PER_JOULE, "accuracy"})
NOT_COMPARABLE = "not comparable"
_VERDICTS = {"less": "less", "more": "more", "no-difference-shown": "not shown"}
_WHY = {"too-noisy": "too noisy", "interval-unknown": "no interval", "in-one-run": "in one run only",
        "in-neither-run": "in neither run", "eager-total": "eager total"}  # fmt: skip
_OTHER_BOARD = "other board"
CHANGE = Column("change", "Difference", "", "other - baseline, with 95 % interval")
_SPREAD = 12.0  # ratios that differ by more stand on a logarithmic axis


def row(item: Difference, share: Difference | None = None, **more: Any) -> dict[str, Any]:
    """Return a difference as a row; ``judged`` is the colour of its verdict, ``decided`` whether it has one.

    ``share`` is the difference of the same part's shares of the model's work.
    """
    good = (item.verdict == LESS) != (item.name in _BETTER_LARGER)
    judged = item.verdict in SHOWN and item.name != POWER
    unit = _UNITS.get(item.name, _UNITS.get(item.unit, item.unit))
    name = title_of(item.kind) if item.kind and item.kind == item.name else _TITLES.get(item.name, item.name)
    return {
        "name": capital(name),
        "kind": item.kind,
        "baseline": Amount.of(item.baseline, unit),
        "other": Amount.of(item.other, unit),
        "change": Amount.of(item.change, unit),
        "ratio": item.relative,
        "verdict": _verdict(item),
        "noisy": item.verdict not in SHOWN,
        "decided": item.verdict != UNDECIDED,
        "judged": (SAVES if good else COSTS) if judged else UNCLEAR,
        **(_share(share) if share else {}),
        **more,
    }


def _share(item: Difference) -> dict[str, Any]:
    return {"share": item.baseline, "other_share": item.other, "share_verdict": _verdict(item)}


def capital(name: str) -> str:
    """Return a name as it begins a row."""
    return name[:1].upper() + name[1:]


def _verdict(item: Difference) -> str:
    """Return a verdict in words; where there is none, its reason if that is a single one of this difference."""
    if item.verdict in _VERDICTS:
        return _VERDICTS[item.verdict]
    every = reasons.split(item.reason)
    if len(every) != 1:
        return NOT_COMPARABLE
    (why,) = every
    return _OTHER_BOARD if why.values.get("names") == [NAMES[BOARD]] else _WHY.get(str(why.code), NOT_COMPARABLE)


def table(against: Sides, rows: Iterable[Row], heading: str, first: str = "What") -> Table:
    """Return rows of differences as a table, with columns of shares where rows have them."""
    rows = list(rows)
    shared = any("share_verdict" in each for each in rows)
    columns = [
        Column("name", first),
        Column("ratio", "Ratio", "ratio", "other / baseline, with 95 % interval"),
        Column(
            "baseline",
            against.heads[0],
            "",
            f"baseline: {against.names[0]}, with 95 % interval",
            rank=4 if shared else 2,
        ),
        Column("other", against.heads[1], "", f"{against.names[1]}, with 95 % interval", rank=3 if shared else 1),
        Column("verdict", "Verdict", "text", "less, more: the 95 % interval of the difference excludes 0"),
    ]
    if shared:
        columns += [
            Column("share", "Share", "share", f"of the model's work in {against.names[0]}", rank=2),
            Column("other_share", "Other share", "share", f"of the model's work in {against.names[1]}", rank=1),
            Column("share_verdict", "Of shares", "text", "the shares' verdict; another board is not in its way"),
        ]
    return Table(columns, rows, heading)


def ratios(table: Table, when: Mapping[str, str], *, kinds: bool = False) -> list[View]:
    """Draw the ratios of a table, coloured by kind or by verdict; nothing where there are none."""
    rows = [
        item if kinds else {**item, "colour": item["judged"]} for item in table.rows if item["ratio"] is not None
    ]
    if not rows:
        return []
    values, known = [1.0, *(item["ratio"].value for item in rows)], Table(table.columns, rows, table.title)
    if max(values) > _SPREAD * min(values):
        chart = dots(known, "name", "ratio", log=True, reference=1.0, title="Ratio to baseline")
    else:
        chart = bars(known, "name", "ratio", reference=1.0)
    return [View(chart, table, when)]

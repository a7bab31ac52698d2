"""The same work in two executions or two precisions: energy in the first over that in the second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from energyscope import format as fmt
from energyscope.grouping import group_by
from energyscope.intervals import from_entry
from energyscope.reporting.charts.bars import dots
from energyscope.reporting.charts.plane import Axis, curves
from energyscope.reporting.run.report import GRAPH, execution_name, precision_name
from energyscope.reporting.scaling.laws import LAWS, WHOLE, Entry, Laws, cells_of, named, shape_name, shape_of
from energyscope.reporting.section import Content, Figure, View
from energyscope.reporting.table import Column, Table

RATIOS = "contrast-ratios"
_KEY = ("field", "first", "second", "model", "phase", "precision", "execution", "kv_cache", "board", "limit")
_MOST = 5  # parts of a chart
_IN_SENTENCE = {GRAPH: "a CUDA graph"}


@LAWS.section(3, "contrasts", "Contrasts")
def section(laws: Laws) -> Content | None:
    """Return the ratio of two settings at every shape, one view for each pair."""
    pairs = pairs_of(laws)
    if not pairs:
        return None
    views = [_view(_ratios(laws, pair), str(index)) for index, pair in enumerate(pairs)]
    caption = "Below 1: the first takes less. Bands and whiskers: 95 % intervals."
    tables = {
        f"ratios-of-{index}": _by_shape(laws, pair, label)
        for index, (pair, label) in enumerate(zip(pairs, pair_labels(laws), strict=True))
    }
    names = {_pair_name(pair[0]) for pair in pairs}
    over = f"{laws.energy}, {names.pop() if len(names) == 1 else 'one setting over another'}"
    return Content(figures=[Figure(RATIOS, over, views, caption)], tables=tables)


def pairs_of(laws: Laws) -> list[list[Entry]]:
    """Return the contrasts of each pair of settings by work; first the pair whose whole models differ most."""
    contrasts = sorted(laws.document["contrasts"], key=lambda contrast: (_work(contrast), shape_of(contrast)))
    pairs = group_by(contrasts, lambda contrast: tuple(str(contrast.get(field)) for field in _KEY))

    def gap(pair: Sequence[Entry]) -> float:
        ratios = [from_entry(contrast.get("ratio")) for contrast in pair if contrast["subject"] == WHOLE]
        return max((abs(math.log(item.value)) for item in ratios if item and item.value > 0), default=-1.0)

    return sorted(pairs.values(), key=gap, reverse=True)


def pair_labels(laws: Laws) -> list[str]:
    """Return the name of each pair of settings, with what else distinguishes it from others of its name."""
    firsts = [pair[0] for pair in pairs_of(laws)]
    names = [_pair_name(contrast) for contrast in firsts]
    rest = laws.distinct_labels(
        [{key: value for key, value in contrast.items() if key != contrast["field"]} for contrast in firsts]
    )
    several = len(set(names)) < len(names)
    return [f"{name}, {more}" if several else name for name, more in zip(names, rest, strict=True)]


def contrast_facts(laws: Laws) -> dict[str, Any]:
    """Return the numbers of a sentence about the whole model: what the first setting saves where."""
    wholes = [contrast for contrast in pairs_of(laws)[0] if contrast["subject"] == WHOLE]
    verdicts = [_verdict(contrast) for contrast in wholes]
    return {
        "first": _in_sentence(wholes[0], "first"),
        "second": _in_sentence(wholes[0], "second"),
        "cells": [
            (shape_name(contrast, contrast.get("phase")), from_entry(contrast.get("ratio"))) for contrast in wholes
        ],
        "less": verdicts.count("less"),
        "more": verdicts.count("more"),
        "older": any(any((contrast.get("lacking") or {}).values()) for contrast in wholes),
    }


def _ratios(laws: Laws, pair: Sequence[Entry]) -> Table:
    """Return the ratios of a pair by subject and shape."""
    columns = [
        Column("part", "Part"),
        Column("shape", "Shape"),
        Column("work", "Batch x tokens", "count"),
        Column("ratio", "Ratio (MODELLED)" if laws.modelled else "Ratio", "ratio"),
        Column("verdict", "Verdict"),
        Column("older", "Older method", "reasons"),
    ]
    rows = [
        cells_of(
            contrast,
            **named(contrast),
            shape=shape_name(contrast, contrast.get("phase")),
            work=_work(contrast),
            verdict=_verdict(contrast),
            older=next((why for why in (contrast.get("lacking") or {}).values() if why), None),
        )
        for contrast in pair
    ]
    return Table(columns, rows, "One setting against another")


def _by_shape(laws: Laws, pair: Sequence[Entry], label: str) -> Table:
    """Return the ratios of a pair, a row for each part and a column for each shape."""
    shapes = {str(shape_of(contrast)): shape_name(contrast, contrast.get("phase")) for contrast in pair}
    last = len(shapes) - 1  # in a narrow terminal, the first and the last shape stay
    columns = [
        Column(key, name, "ratio", rank=index % last if last else 0)
        for index, (key, name) in enumerate(shapes.items())
    ]
    rows: dict[str, dict[str, Any]] = {}
    for contrast in pair:
        row = rows.setdefault(contrast["subject"], named(contrast))
        row[str(shape_of(contrast))] = from_entry(contrast.get("ratio"))
    title = f"Energy of {label}{' (MODELLED)' if laws.modelled else ''}"
    return Table([Column("part", _pair_name(pair[0])), *columns], list(rows.values()), title)


def _view(table: Table, index: str) -> View:
    """Draw ratios over the work of a pass; of one shape, by part."""
    if len({row["work"] for row in table.rows}) < 2:
        return View(dots(table, "part", "ratio", reference=1.0), table, {"contrast": index})
    kinds = list(dict.fromkeys(row["kind"] for row in table.rows))[:_MOST]
    shown = Table(table.columns, [row for row in table.rows if row["kind"] in kinds])
    chart = curves(shown, Axis("work", log=True), Axis("ratio", guides=(1.0,)), series="kind", height=250)
    return View(chart, table, {"contrast": index})


def _name(contrast: Entry, side: str) -> str:
    return (precision_name if contrast["field"] == "precision" else execution_name)(contrast[side])


def _pair_name(contrast: Entry) -> str:
    return f"{_name(contrast, 'first')} / {_name(contrast, 'second')}"


def _in_sentence(contrast: Entry, side: str) -> str:
    return _IN_SENTENCE.get(str(contrast[side])) or _name(contrast, side)


def _verdict(contrast: Entry) -> str:
    item = from_entry(contrast.get("ratio"))
    if item is None:
        return fmt.UNKNOWN
    return "unclear, includes 1" if not item.excludes(1.0) else "less" if item.value < 1 else "more"


def _work(contrast: Entry) -> int:
    return math.prod(shape_of(contrast))

"""Can these laws be trusted: how well they predict cells and models that they have not seen, and weak cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from energyscope import format as fmt
from energyscope.intervals import finite
from energyscope.reporting.charts.bars import bars
from energyscope.reporting.scaling.laws import LAWS, SUM, WAYS, WHOLE, Entry, Laws, cells_of, medians
from energyscope.reporting.section import Content, Figure, View
from energyscope.reporting.table import Column, Table

HELD_OUT = "held-out-cells"
_GOOD, _FAIR, _WORST = 0.05, 0.10, 0.30  # held-out errors
_FEW, _MANY = 0.1, 0.5  # shares of cells that are too noisy
_WHAT = {"whole": "whole model", "components": "components"}


@LAWS.section(6, "trust", "Trust")
def section(laws: Laws) -> Content:
    """Return the errors of cells left out by group, and what must be known of the cells."""
    errors = _held_out(laws)
    title = "Held-out error: cells that the laws have not seen"
    views = [View(bars(errors, "group", "median", series="what"), errors)] if errors else []
    figure = Figure(HELD_OUT, title, views, "Median over cells and parts. Less is better.")
    return Content({"notes": laws.document["notes"]}, [figure], {"held-out": errors})


def trust_facts(laws: Laws) -> dict[str, Any]:
    """Return a verdict in one word, and the facts behind it.

    ``cells`` and ``sizes`` hold the least and the largest median of the whole model's errors, and the worst error.
    """
    cells = _range([errors for group in laws.groups for what, _, errors in medians(group) if what == "whole"])
    left_out = laws.document["sizes_held_out"]
    sizes = _range([model for model in left_out if model.get("subject") == WHOLE and model.get("law") != SUM])
    sources = laws.document["sources"]
    weak = sum(source.get("quality") == "invalid" for source in sources)
    noise, main = weak / max(len(sources), 1), sizes if laws.case == "sizes" else cells
    if laws.case in {"contrast", "efficiency"}:  # what is said there was measured, and no law is needed for it
        level = "yes" if noise <= _FEW else "mostly" if noise < _MANY else "partly"
    elif main is None or main["high"] > _FAIR or noise >= _MANY:
        level = "partly"
    else:
        level = "yes" if main["high"] <= _GOOD and main["worst"] <= _WORST and noise <= _FEW else "mostly"
    facts = {"level": level, "modelled": laws.modelled, "weak": weak, "sources": len(sources)}
    return {**facts, "cells": cells, "sizes": sizes}


def error_label(errors: Entry) -> str:
    """Write a median error with the worst one."""
    median, worst = (fmt.quantity(finite(errors.get(name)), "share") for name in ("median", "worst"))
    return f"{median} (worst {worst})"


def _range(errors: Sequence[Entry]) -> dict[str, float] | None:
    median = [value for error in errors if (value := finite(error.get("median"))) is not None]
    worst = [value for error in errors if (value := finite(error.get("worst"))) is not None]
    return {"low": min(median), "high": max(median), "worst": max(worst, default=max(median))} if median else None


def _held_out(laws: Laws) -> Table:
    """Return the errors of the whole model and of all components, by group and by what was left out."""
    columns = [
        Column("group", "Left out"),
        Column("what", "Of"),
        Column("median", "Held-out error", "share"),
        Column("worst", "Worst", "share"),
        Column("cells", "Errors", "count"),
    ]
    several = len(laws.groups) > 1
    rows = [
        cells_of(
            errors,
            group=f"{label}: {WAYS.get(by, by)}" if several else WAYS.get(by, by),
            what=_WHAT[what],
            label=error_label(errors),
        )
        for group, label in zip(laws.groups, laws.labels, strict=True)
        for what, by, errors in medians(group)
    ]
    return Table(columns, rows, "Cells left out and predicted from the others")

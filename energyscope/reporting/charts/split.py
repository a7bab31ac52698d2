"""Bars of an energy in two parts, in every chart alike: solid from zero the work, then, pale, the waiting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import grades


def split_bar(
    shared: Mapping[str, Any], whole_mj: float, work_mj: float, divisor: float, fills: tuple[float, float]
) -> list[dict[str, Any]]:
    """Return the records of a bar's dynamic and static part, each with its joules in words.

    ``fills`` are how opaque the two are; ``divisor`` brings mJ to the unit of the axis.
    """
    work, end = work_mj / divisor, whole_mj / divisor
    solid, pale = fills
    return [
        {**shared, "part": f"dynamic {text.quantity(work_mj, 'mJ')}", "start": 0.0, "end": work, "fill": solid},
        {**shared, "part": f"static {text.quantity(whole_mj - work_mj, 'mJ')}", "start": work, "end": end,
         "fill": pale},
    ]  # fmt: skip


def fills(*, hollow: bool) -> tuple[float, float]:
    """Return how opaque the dynamic and the static part of a component's bar are."""
    return (grades.HOLLOW, grades.HOLLOW_PALE) if hollow else (grades.FULL, grades.PALE)

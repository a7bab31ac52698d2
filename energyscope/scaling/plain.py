"""Laws and cells as plain data, as laws.json holds them."""

from __future__ import annotations

from typing import Any

from energyscope.intervals import Interval, finite
from energyscope.scaling.cell import Cell

Plain = dict[str, Any]


def plain(item: Interval | None) -> dict[str, float | None] | None:
    """Return value and limits; None for what is not known, also where a value is no finite number."""
    if item is None or finite(item.value) is None:
        return None
    return {"value": item.value, "low": finite(item.low), "high": finite(item.high)}


def shape_of(cell: Cell) -> dict[str, int]:
    """Return the batch and the tokens of a cell."""
    return {"batch_size": cell.batch_size, "tokens": cell.tokens}

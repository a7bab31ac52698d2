"""Numbers with their 95 % intervals as plain data, and arithmetic with them. Pure functions.

An interval is ``{"value", "low", "high"}``, the bounds None where one value alone was seen; None is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from energyscope.metering.interval import combine
from energyscope.unknown import times

Figure = dict[str, float | None]


def figure(value: float | None, half: float | None) -> Figure | None:
    """Return a value with its half-width."""
    if value is None:
        return None
    bounds = (None, None) if half is None else (value - half, value + half)
    return {"value": value, "low": bounds[0], "high": bounds[1]}


def mean_of(values: Sequence[float | None], *, floor: float = 0.0) -> Figure | None:
    """Return the mean of independent values with Student's interval (see `combine`)."""
    average = combine(values, floor=floor)
    return None if average.mean is None else {"value": average.mean, "low": average.low, "high": average.high}


def value_of(item: Figure | None) -> float | None:
    """Return the value alone."""
    return None if item is None else item["value"]


def scaled(item: Figure | None, factor: float) -> Figure | None:
    """Return a figure times a positive number that is known."""
    return None if item is None else {name: times(bound, factor) for name, bound in item.items()}


def inverse(item: Figure | None, factor: float = 1.0) -> Figure | None:
    """Return a positive number over a figure; the bounds are None where the interval reaches 0."""
    value = value_of(item)
    if item is None or value is None or value <= 0:
        return None
    low, high = item["low"], item["high"]
    known = low is not None and high is not None and low > 0
    return {
        "value": factor / value,
        "low": factor / high if known and high is not None else None,
        "high": factor / low if known and low is not None else None,
    }


def half_width(item: Figure | None) -> float | None:
    """Return half of the interval's width."""
    if item is None or item["low"] is None or item["high"] is None:
        return None
    return (item["high"] - item["low"]) / 2


def widened(value: float | None, half: float | None, seconds: Figure | None) -> Figure | None:
    """Return an energy, of powers known to ``half`` over mean seconds that have an interval of their own."""
    own, mean = half_width(seconds), value_of(seconds)
    if value is None or half is None:
        return figure(value, half)
    return figure(value, math.hypot(half, value * own / mean) if own is not None and mean else None)


def phase(name: str, **known: Any) -> dict[str, Any]:
    """Return a phase of the document; what is not given is None."""
    empty = dict.fromkeys(("method", "seconds", "energy_j", "static_j", "dynamic_j", "power_w", "tokens",
                           "joules_per_token", "devices_j", "reason"))  # fmt: skip
    return {"phase": name, **empty, **known}

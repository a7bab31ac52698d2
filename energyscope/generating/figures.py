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
    found = combine(values, floor=floor)
    return None if found.mean is None else {"value": found.mean, "low": found.low, "high": found.high}


def value_of(one: Figure | None) -> float | None:
    """Return the value alone."""
    return None if one is None else one["value"]


def scaled(one: Figure | None, factor: float) -> Figure | None:
    """Return a figure times a positive number that is known."""
    return None if one is None else {name: times(bound, factor) for name, bound in one.items()}


def inverse(one: Figure | None, factor: float = 1.0) -> Figure | None:
    """Return a positive number over a figure; the bounds are None where the interval reaches 0."""
    value = value_of(one)
    if one is None or value is None or value <= 0:
        return None
    low, high = one["low"], one["high"]
    known = low is not None and high is not None and low > 0
    return {
        "value": factor / value,
        "low": factor / high if known and high is not None else None,
        "high": factor / low if known and low is not None else None,
    }


def half_width(one: Figure | None) -> float | None:
    """Return half of the interval's width."""
    if one is None or one["low"] is None or one["high"] is None:
        return None
    return (one["high"] - one["low"]) / 2


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

"""Axes for values of very different size, and ticks that can be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from energyscope.reporting.charts.records import altair

PLAIN = ",~r"  # ticks without powers of ten, which "~g" writes on logarithmic scales, and of 500 on others
# What stands at a tick: 2e-7, where zeros behind a point would have to be counted.
LABEL = "datum.value !== 0 && abs(datum.value) < 1e-4 ? format(datum.value, '~e') : datum.label"
_LOG_ROOM = 10.0


@dataclass(frozen=True)
class Magnitude:
    """An axis for values of very different size: linear, logarithmic, or linear only around zero.

    ``ticks`` are None where the scale's own will do; ``constant`` is where a ``symlog`` scale turns linear.
    """

    type: Literal["linear", "log", "symlog"]
    ticks: list[float] | None
    constant: float = 1.0

    def scale(self) -> Any:
        """Return the Altair scale."""
        alt = altair()
        if self.type == "linear":
            return alt.Scale(zero=False, nice=True, padding=12)
        if self.type == "log":
            return alt.Scale(type="log", nice=False, padding=14)
        return alt.Scale(type="symlog", constant=self.constant, nice=False, padding=14)

    def axis(self) -> Any:
        """Return the Altair axis with ticks that can be read."""
        alt = altair()
        chosen = {"values": self.ticks, "labelOverlap": True} if self.ticks else {"tickCount": 6}
        return alt.Axis(format=PLAIN, labelExpr=LABEL, **chosen)

    def position(self, value: float) -> float:
        """Return where a value lies along the axis, up to a shift and a factor."""
        if self.type == "linear":
            return value
        if self.type == "log":
            return math.log(value)
        return math.copysign(math.log1p(abs(value) / self.constant), value)

    def value(self, position: float) -> float:
        """Return what lies at a position: the inverse of `position`."""
        if self.type == "linear":
            return position
        if self.type == "log":
            return math.exp(position)
        return math.copysign(math.expm1(abs(position)) * self.constant, position)


def magnitude(values: list[float]) -> Magnitude:
    """Choose an axis: linear where the values lie within a factor of thirty, else by their sign."""
    sizes = sorted(abs(value) for value in values if value)
    if not sizes or sizes[-1] / sizes[0] <= 30:
        return Magnitude("linear", None)
    if min(values) > 0:
        return Magnitude("log", log_ticks(sizes[0], sizes[-1]))
    smallest = max(sizes[len(sizes) // 10], sizes[-1] * 1e-4)
    positive = _powers(smallest, sizes[-1])
    ticks = [-tick for tick in reversed(positive)] + [0.0, *positive]
    return Magnitude("symlog", [tick for tick in ticks if min(values) <= tick <= max(values)], smallest)


def log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten between two sizes; the powers alone where that is too many."""
    ticks = [power * factor for power in _powers(low, high) for factor in (1, 2, 5)]
    inside = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
    return inside if len(inside) <= 10 else [tick for tick in _powers(low, high) if low <= tick <= high]


def log_domain(values: Sequence[float], limits: Sequence[float | None]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis for positive values and the limits of their intervals.

    A limit at or below 0 has no place on it: `on_log` draws such an interval from the lower end, which leaves room
    for that; an interval that reaches down by more than a factor of `_LOG_ROOM` is cut off there as well.
    """
    known = [limit for limit in limits if limit is not None]
    lowest = min(values)
    low = max(min([lowest, *(limit for limit in known if limit > 0)]), lowest / _LOG_ROOM)
    cut = any(limit < low for limit in known)
    return (low / 2 if cut else low), max([*values, *known])


def on_log(limit: float | None, domain: tuple[float, float]) -> float | None:
    """Return where a limit is drawn on a logarithmic axis: no lower than the axis begins."""
    return None if limit is None else max(limit, domain[0])


def _powers(low: float, high: float) -> list[float]:
    """Return the powers of ten from just below one size to just above another."""
    return [10.0**exponent for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]

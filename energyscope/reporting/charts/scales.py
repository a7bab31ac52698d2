"""Axes for values of very different size, and ticks that can be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from energyscope.reporting.charts.theme import altair

_PLAIN = ",~r"  # ticks without powers of ten, which "~g" writes on logarithmic scales, and of 500 on others
# What stands at a tick: 2e-7, where zeros behind a point would have to be counted.
_LABEL = "datum.value !== 0 && abs(datum.value) < 1e-3 ? format(datum.value, '~e') : datum.label"
_SPAN = 30  # values within such a factor of each other stand on a linear axis
_ROOM = 10.0  # how far below the least value an interval is drawn on a logarithmic axis, as a factor


@dataclass(frozen=True)
class Magnitude:
    """An axis for some values: linear, logarithmic, or (``symlog``) linear only around zero.

    ``ticks`` are None where the scale's own will do; ``constant`` is where a ``symlog`` scale turns linear. On a
    logarithmic axis ``low`` is its beginning, below which intervals are cut off.
    """

    type: Literal["linear", "log", "symlog"]
    ticks: list[float] | None = None
    constant: float = 1.0
    low: float | None = None
    zero: bool = False

    def scale(self, **options: Any) -> Any:
        """Return the Altair scale."""
        alt = altair()
        if self.type == "linear":
            return alt.Scale(zero=self.zero, nice=True, **{"padding": 0 if self.zero else 12, **options})
        constant = {"constant": self.constant} if self.type == "symlog" else {}
        return alt.Scale(type=self.type, nice=False, **{"padding": 14, **constant, **options})

    def axis(self) -> Any:
        """Return the Altair axis with ticks that can be read."""
        ticks = {"values": self.ticks, "labelOverlap": True} if self.ticks else {"tickCount": 6}
        return altair().Axis(format=_PLAIN, labelExpr=_LABEL, **ticks)

    def limit(self, value: float | None) -> float | None:
        """Return where a limit of an interval is drawn: no lower than a logarithmic axis begins."""
        return value if value is None or self.low is None else max(value, self.low)

    def position(self, value: float) -> float:
        """Return where a value lies along the axis, up to a shift and a factor."""
        if self.type == "linear":
            return value
        if self.type == "log":
            return math.log(value)
        return math.copysign(math.log1p(abs(value) / self.constant), value)


def magnitude(
    values: Sequence[float], limits: Sequence[float | None] = (), *, log: bool | None = None, zero: bool = False
) -> Magnitude:
    """Choose an axis for values and the limits of their intervals: linear where the values lie close together.

    ``log`` True or False decides it; ``zero`` lets a linear axis begin at 0.
    """
    sizes = sorted(abs(value) for value in values if value)
    spread = bool(sizes) and sizes[-1] / sizes[0] > _SPAN
    if not sizes or not (spread if log is None else log):
        return Magnitude("linear", zero=zero)
    if min(values) > 0:
        known = [limit for limit in limits if limit is not None and limit > 0]
        low = max(min([sizes[0], *known]), sizes[0] / _ROOM)
        return Magnitude("log", _log_ticks(low, max([sizes[-1], *known])), low=low)
    smallest = max(sizes[len(sizes) // 10], sizes[-1] * 1e-4)
    positive = _powers(smallest, sizes[-1])
    ticks = [-tick for tick in reversed(positive)] + [0.0, *positive]
    return Magnitude("symlog", [tick for tick in ticks if min(values) <= tick <= max(values)], smallest)


def _log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten between two sizes; the powers alone where that is too many."""
    ticks = [power * factor for power in _powers(low, high) for factor in (1, 2, 5)]
    inside = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
    return inside if len(inside) <= 10 else [tick for tick in _powers(low, high) if low <= tick <= high]


def _powers(low: float, high: float) -> list[float]:
    return [10.0**exponent for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]

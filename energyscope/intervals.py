"""Values with an interval, and what becomes of the interval when values are added, subtracted or divided.

The limits are combined by MOVER, the method of variance estimates recovery (Zou and Donner, Statistics in
Medicine 27 (2008), 1693-1702): it needs only each value's own limits and keeps them asymmetric where they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ROUNDING = 1e-6  # of a whole


@dataclass(frozen=True)
class Interval:
    """A value with the limits of its 95 % interval; limits are None where no interval is known."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def known(self) -> bool:
        """Whether both limits are known."""
        return self.low is not None and self.high is not None

    @property
    def below(self) -> float:
        """The distance from the value down to its lower limit; NaN where that is not known."""
        return math.nan if self.low is None else max(self.value - self.low, 0.0)

    @property
    def above(self) -> float:
        """The distance from the value up to its upper limit; NaN where that is not known."""
        return math.nan if self.high is None else max(self.high - self.value, 0.0)

    def scaled(self, factor: float) -> Interval:
        """Return this interval in another unit; ``factor`` is positive and exact."""
        low = None if self.low is None else self.low * factor
        high = None if self.high is None else self.high * factor
        return Interval(self.value * factor, low, high)

    def with_or_without(self, part: float) -> Interval:
        """Return this interval reaching from where it is to where it is without a ``part`` of the value."""
        low = None if self.low is None else self.low - max(part, 0.0)
        high = None if self.high is None else self.high - min(part, 0.0)
        return Interval(self.value, low, high)

    def excludes(self, number: float) -> bool:
        """Whether the limits are known and ``number`` lies outside them."""
        return self.low is not None and self.high is not None and not self.low <= number <= self.high


def interval(value: object, low: object = None, high: object = None) -> Interval | None:
    """Make an interval of table cells; None where the value is missing, no limits where a limit is."""
    number = finite(value)
    if number is None:
        return None
    return Interval(number, finite(low), finite(high))


def from_entry(entry: object, scale: float = 1.0) -> Interval | None:
    """Return an entry of a document, ``{value, low, high}``, times a scale; None where it holds no number."""
    if not isinstance(entry, Mapping):
        return None
    item = interval(entry.get("value"), entry.get("low"), entry.get("high"))
    return item if item is None or scale == 1.0 else item.scaled(scale)


def serialize(item: Interval | None) -> dict[str, float | None] | None:
    """Return an interval as an entry of a document; None for what is not known or no finite number."""
    if item is None or finite(item.value) is None:
        return None
    return {"value": item.value, "low": finite(item.low), "high": finite(item.high)}


def less(ratio: Interval | None) -> Interval | None:
    """Return what is saved where so much is taken of what was."""
    if ratio is None:
        return None
    low, high = (None if limit is None else 1 - limit for limit in (ratio.high, ratio.low))
    return Interval(1 - ratio.value, low, high)


def not_negative(item: Interval | None) -> Interval | None:
    """Return a quantity that cannot be negative with limits that are not.

    The means of two or three noisy trials have Student limits below 0. What cannot be may be left out of an
    interval: it covers the true value as often as before.
    """
    if item is None or item.value < 0 or item.low is None or item.low >= 0:
        return item
    return Interval(item.value, 0.0, item.high)


def finite(value: object) -> float | None:
    """Return a table cell as a float, or None where it is missing, NaN or infinite."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def total(values: Iterable[Interval]) -> Interval:
    """Add values measured independently of each other."""
    items = list(values)
    below = math.hypot(*(item.below for item in items))
    above = math.hypot(*(item.above for item in items))
    return _around(sum(item.value for item in items), below, above)


def total_of_same(values: Iterable[Interval]) -> Interval:
    """Add values that stem from one measurement, so that their errors point the same way."""
    items = list(values)
    value = sum(item.value for item in items)
    return _around(value, sum(item.below for item in items), sum(item.above for item in items))


def difference(first: Interval, second: Interval) -> Interval:
    """Return ``first - second``, measured independently of each other."""
    below = math.hypot(first.below, second.above)
    above = math.hypot(first.above, second.below)
    return _around(first.value - second.value, below, above)


def is_rounding(rest: Interval, whole: Interval | None) -> bool:
    """Tell whether what is left of a whole is the rounding of numbers that add up to it."""
    return whole is not None and abs(rest.value) <= ROUNDING * abs(whole.value)


def ratio(first: Interval, second: Interval) -> Interval | None:
    """Return ``first / second`` of independent, positive values; None where a value is not positive.

    MOVER on the logarithms; without limits where a limit is unknown or not positive.
    """
    if first.value <= 0 or second.value <= 0:
        return None
    value = first.value / second.value
    limits = (first.low, first.high, second.low, second.high)
    if any(limit is None or limit <= 0 for limit in limits):
        return Interval(value)
    logs = [Interval(math.log(x.value), math.log(x.low or 1), math.log(x.high or 1)) for x in (first, second)]
    shift = difference(*logs)
    return Interval(value, math.exp(shift.low or 0.0), math.exp(shift.high or 0.0))


def _around(value: float, below: float, above: float) -> Interval:
    return Interval(value, finite(value - below), finite(value + above))

"""A difference of two measured values in words: its amount, its limits, and by how much one is more."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.runs.compare_difference import Difference
from energyscope.runs.intervals import Interval

_TWICE = 2.0  # from here on a ratio is read as a factor
_MOST_PLACES = 6
# what is a remainder of others, and may be negative itself: no limit of its difference is impossible
_REMAINDERS = {"dynamic energy", "generate's loop per step", "glue", "unexplained", "unattributed"}


def change_text(item: Difference) -> tuple[str, str]:
    """Write the difference with its percentage, and its limits, in the unit of the larger of the two values.

    So a small difference does not change its unit; the limits are empty where they are not known. A lower limit
    of more than the whole baseline less says nothing of what cannot be negative. Then only the upper one stands;
    but below a saving, where "up to" would read as the most that is saved, the lower one is the whole baseline.
    """
    if item.change is None or item.baseline is None:
        return text.UNKNOWN, ""
    if item.unit == "share":
        points = item.change.scaled(100.0)
        return f"{signed(points.value, text.places(points))} points", text.limits(
            points, ""
        ) if points.known else ""
    divisor, unit = text.scale_of(_larger(item), item.unit)
    change = item.change.scaled(1 / divisor)
    percent = None if item.relative is None else signed((item.relative.value - 1) * 100, 1)
    places = text.places(change)
    while percent != "0" and places < _MOST_PLACES and signed(change.value, places) == "0":
        places += 1  # below wide limits, a change that is no rounding error must not read as none
    written = f"{signed(change.value, places)} {unit}".rstrip()
    relative = "" if percent is None else f" ({percent} %)"
    return f"{written}{relative}", _limits_of_change(item, change, divisor)


def _larger(item: Difference) -> float:
    return max((abs(one.value) for one in (item.baseline, item.other) if one is not None), default=0.0)


def _limits_of_change(item: Difference, change: Interval, divisor: float) -> str:
    if change.low is None or change.high is None:
        return ""
    whole = item.baseline.value / divisor if item.baseline else 0.0
    if change.low >= -whole or item.relative is None or _may_be_negative(item):
        return text.limits(change, "")
    if change.high < 0:
        return text.limits(Interval(change.value, -whole, change.high), "")
    return f"[up to {text.limits(change, '').rpartition(', ')[2]}"


def _may_be_negative(item: Difference) -> bool:
    """Tell whether a quantity is a remainder; its name may stand behind that of its cell (``"fp16: ..."``)."""
    return item.name.rpartition(": ")[2] in _REMAINDERS


def signed(value: float, places: int) -> str:
    """Write a number with its sign; one that rounds to zero has none."""
    written = f"{value:+.{places}f}"
    return "0" if float(written) == 0 else written


def by_how_much(relative: Interval) -> str:
    """Write a ratio as a sentence does: ``"10 % [9, 11] less"`` or ``"2.4 x [2.3, 2.5] as much"``."""
    if relative.value >= _TWICE or relative.value <= 1 / _TWICE:
        limits = f" {text.limits(relative, '')}" if relative.known else ""
        return f"{text.number(relative.value)}\u00a0\u00d7{limits} as much"
    less = relative.value < 1
    share = _flipped(relative) if less else _lowered(relative)
    return f"{bound(text.percent_with_limits(share))} {'less' if less else 'more'}"


def _flipped(relative: Interval) -> Interval:
    """Return by which share a ratio below 1 is less."""
    low, high = (None if end is None else 1 - end for end in (relative.high, relative.low))
    return Interval(1 - relative.value, low, high)


def _lowered(relative: Interval) -> Interval:
    """Return by which share a ratio above 1 is more."""
    low, high = (None if end is None else end - 1 for end in (relative.low, relative.high))
    return Interval(relative.value - 1, low, high)


def bound(sentence: str) -> str:
    """Keep a number and its percent sign on one line."""
    return sentence.replace(" %", "\u00a0%")

"""Differences as people read them: values, changes with their limits, and verdicts."""

from __future__ import annotations

from collections.abc import Iterable

from energyscope.reporting import text
from energyscope.runs.compare_difference import NO_INTERVAL, Difference
from energyscope.runs.intervals import Interval

_TWICE = 2.0  # from here on a ratio is read as a factor
_MOST_PLACES = 6


def value_text(item: Interval | None, unit: str) -> str:
    """Write a value; a share as a percentage."""
    if item is not None and unit == "share":
        return text.percent(item.value)
    return text.UNKNOWN if item is None else text.quantity(item.value, unit)


def value_with_limits(item: Interval | None, unit: str) -> str:
    """Write a value with its limits; a share as a percentage."""
    return text.percent_with_limits(item) if unit == "share" else text.amount(item, unit)


def change_text(item: Difference) -> tuple[str, str]:
    """Write the difference with its percentage, and its limits, in the unit of the baseline.

    So a small difference does not change its unit; the limits are empty where they are not known. A lower limit
    of more than the whole baseline less says nothing of what cannot be negative: then only the upper one stands.
    """
    if item.change is None or item.baseline is None:
        return text.UNKNOWN, ""
    if item.unit == "share":
        points = item.change.scaled(100.0)
        return f"{signed(points.value, text.places(points))} points", text.limits(
            points, ""
        ) if points.known else ""
    divisor, unit = text.scale_of(item.baseline.value, item.unit)
    change = item.change.scaled(1 / divisor)
    percent = None if item.relative is None else signed((item.relative.value - 1) * 100, 1)
    places = text.places(change)
    while percent != "0" and places < _MOST_PLACES and signed(change.value, places) == "0":
        places += 1  # below wide limits, a change that is no rounding error must not read as none
    written = f"{signed(change.value, places)} {unit}".rstrip()
    relative = "" if percent is None else f" ({percent} %)"
    return f"{written}{relative}", _limits_of_change(item, change, divisor)


def _limits_of_change(item: Difference, change: Interval, divisor: float) -> str:
    if not change.known:
        return ""
    written = text.limits(change, "")
    whole = item.baseline.value / divisor if item.baseline else 0.0
    endless = item.relative is not None and change.low is not None and change.low < -whole
    return f"[up to {written.rpartition(', ')[2]}" if endless else written


def signed(value: float, places: int) -> str:
    """Write a number with its sign; one that rounds to zero has none."""
    written = f"{value:+.{places}f}"
    return "0" if float(written) == 0 else written


def ratio_text(item: Interval | None) -> str:
    """Write other / baseline with its limits."""
    return "\u2013" if item is None else text.with_limits(item, "")


def verdict_text(item: Difference) -> str:
    """Return the verdict in words; where only an interval or a grade is missing, that."""
    if item.reason == NO_INTERVAL:
        return "cannot be told: no interval"
    only_grade = item.invalid and str(item.reason).startswith("graded")
    return "cannot be told: graded invalid" if only_grade else item.verdict


def intervals_said(items: Iterable[Interval | None]) -> str:
    """Say what a caption's chart shows beside the values; that there is no interval where none is known."""
    known = any(item is not None and item.known for item in items)
    return "with 95\u00a0% intervals" if known else "without intervals, which none of them has"


def untold(item: Difference) -> str | None:
    """Return why two values that both runs have tell nothing of a difference; None where they tell something.

    An obstacle to comparing is none of these reasons: it stands above, and the values are worth reading beside it.
    """
    if item.invalid:
        return "graded invalid"
    return "without an interval" if item.change is not None and not item.change.known else None


def reasons_in_short(item: Difference) -> str:
    """Return why there is no verdict, without the values: ``"another GPU board"``."""
    said = [part.strip() for part in (item.reason or "").split(";")]
    return ", ".join(f"other {part.partition(':')[0]}" if ":" in part else part for part in said if part)


def mark_of(item: Difference) -> str:
    """Return by which mark a chart shows a difference: its verdict, or that only a number's quality is missing."""
    said = verdict_text(item)
    return "cannot be told" if said.startswith("cannot be told") else said


def lower(word: str) -> str:
    """Write a title's first word inside a sentence."""
    return word[:1].lower() + word[1:]


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

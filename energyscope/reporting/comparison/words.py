"""Differences as people read them: values, changes with their limits, and verdicts."""

from __future__ import annotations

from collections.abc import Iterable

from energyscope.reporting import text
from energyscope.runs.compare_difference import NO_INTERVAL, Difference
from energyscope.runs.intervals import Interval

_FEWEST_DIGITS, _MOST_DIGITS = 3, 7  # more would tell apart what only rounding does


def digits_apart(values: Iterable[float]) -> int:
    """Return with how many digits different values do not look equal; no more than the usual where none can."""
    known = list(values)
    most = len({text.number(value, _MOST_DIGITS) for value in known})
    enough = range(_FEWEST_DIGITS, _MOST_DIGITS + 1)
    return next(digits for digits in enough if len({text.number(value, digits) for value in known}) == most)


def value_text(item: Interval | None, unit: str) -> str:
    """Write a value; a share as a percentage."""
    if item is not None and unit == "share":
        return text.percent(item.value)
    return text.UNKNOWN if item is None else text.quantity(item.value, unit)


def value_with_limits(item: Interval | None, unit: str) -> str:
    """Write a value with its limits; a share as a percentage."""
    return text.percent_with_limits(item) if unit == "share" else text.amount(item, unit)


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
    """Return why two values tell nothing of a difference; None where they tell something.

    That a run has no value comes before the quality of the other's. An obstacle to comparing is none of these
    reasons: it stands above, and the values are worth reading beside it.
    """
    if item.change is None:
        return "in neither run" if item.missing else "only in one run"
    if item.invalid:
        return "graded invalid"
    return None if item.change.known else "without an interval"


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

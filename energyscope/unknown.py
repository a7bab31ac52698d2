"""Arithmetic with values that may be unknown: what is computed from None is None, and never 0."""

from __future__ import annotations

from collections.abc import Sequence


def minus(a: float | None, b: float | None) -> float | None:
    """Return a - b."""
    return None if a is None or b is None else a - b


def times(value: float | None, factor: float) -> float | None:
    """Return a value times a known factor."""
    return None if value is None else value * factor


def quotient(part: float | None, whole: float | None) -> float | None:
    """Return part / whole; None also where the whole is 0."""
    return None if part is None or not whole else part / whole


def total(values: Sequence[float | None]) -> float | None:
    """Return the sum, None if any part is unknown: a part is not the sum."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of what is known, None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None

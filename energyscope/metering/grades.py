"""Grades: how far a number can be trusted, by its interval, its windows and what disturbed them."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.reasons import reason

GRADES = {"A": 0.01, "B": 0.03, "C": 0.10}  # the widest relative half-width of each
INVALID = "invalid"  # of what is wider, or was disturbed
QUALITIES = (*GRADES, INVALID)  # the best first


def grade(relative_half_width: float | None, windows: int, guard: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Grade a number: A (half-width <= 1 %, five windows), B (<= 3 %), C (<= 10 %), else invalid.

    A raised guard, or several, lowers A and B to C: it names a disturbance and not how much it did, which the
    half-width shows.

    Returns:
        The grade and the reasons that kept it from being better.

    """
    reasons = list(guard)
    if relative_half_width is None:
        return INVALID, [*reasons, reason("no-interval", windows=windows)]
    if windows < 5:
        reasons.append(reason("few-windows", windows=windows))
    if relative_half_width > GRADES["A"]:
        reasons.append(reason("wide-interval", half_width=relative_half_width))
    for name, limit in GRADES.items():
        clean = not guard or name == "C"
        if relative_half_width <= limit and clean and (name != "A" or windows >= 5) and windows >= 3:
            return name, reasons
    return INVALID, reasons

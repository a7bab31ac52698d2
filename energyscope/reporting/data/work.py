"""The part of an energy that is work: what it takes beyond idle power times time."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.runs.intervals import Interval


def work_in(whole: Interval | None, dynamic_mj: float | None) -> float | None:
    """Return the dynamic energy (mJ) where it is a part of the ``whole``; None where unknown or no part of it.

    Measured parts may be negative, since each is a difference: a bar cannot be split at such a value.
    """
    if whole is None or dynamic_mj is None or not 0 <= dynamic_mj <= whole.value:
        return None
    return dynamic_mj


def parts_said(undivided: Sequence[str]) -> str:
    """Say what the two parts of bars are, and which bars are ``undivided``."""
    rest = f" In one piece, as a part is unknown or negative: {text.listed(undivided, len(undivided))}."
    said = "Solid, from zero, is dynamic energy, the work; pale is static, idle power times time."
    return said + (rest if undivided else "")

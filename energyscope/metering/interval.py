"""From the windows of one component to its mean, its 95 % interval and its grade. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """A mean over windows with its 95 % interval; all None where no window was usable."""

    mean: float | None
    low: float | None
    high: float | None
    windows: int

    @property
    def relative_half_width(self) -> float | None:
        if self.mean is None or self.low is None or self.high is None or self.mean == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.mean)


def combine(values: Sequence[float | None]) -> Estimate:
    """Return the mean of independent windows with Student's 95 % interval (None: windows without a value)."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if len(known) == 0:
        return Estimate(None, None, None, 0)
    mean = float(known.mean())
    if len(known) == 1:
        return Estimate(mean, None, None, 1)
    half = student_t(len(known) - 1) * float(known.std(ddof=1)) / np.sqrt(len(known))
    return Estimate(mean, mean - float(half), mean + float(half), len(known))


def student_t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t; from tables to 30 degrees, then Cornish-Fisher's expansion.

    scipy.stats has it too, but takes 0.6 s to import.
    """
    table = (
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    )  # fmt: skip
    if freedom < 1:
        raise ValueError("an interval needs at least two windows")
    if freedom <= len(table):
        return table[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def spread(values: Sequence[float | None]) -> float | None:
    """Return the coefficient of variation between windows (one a pass), None for fewer than two."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if len(known) < 2 or known.mean() == 0:
        return None
    return float(known.std(ddof=1) / abs(known.mean()))


def grade(relative_half_width: float | None, windows: int, guard: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Grade a number: A (<= 1 %, five windows, guards clean), B (<= 3 %), C (<= 10 %), else invalid.

    Returns:
        The grade and the reasons that kept it from being better.

    """
    reasons = list(guard)
    if relative_half_width is None:
        return "invalid", [*reasons, f"{windows} usable windows: no interval"]
    if windows < 5:
        reasons.append(f"{windows} windows (A needs 5)")
    if relative_half_width > 0.01:
        reasons.append(f"95 % half-width {relative_half_width:.1%}")
    for name, limit in (("A", 0.01), ("B", 0.03), ("C", 0.10)):
        clean = not guard or name == "C"
        if relative_half_width <= limit and clean and (name != "A" or windows >= 5) and windows >= 3:
            return name, reasons
    return "invalid", reasons

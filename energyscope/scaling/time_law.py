"""Time of one subject from its work: the larger of compute and memory, and what a launch takes.

Two forms, each with FLOPs, bytes and calls summed over the pass, so that t0 is per call (the roofline of
S. Williams, A. Waterman and D. Patterson, Communications of the ACM 52 (2009), 65-76, with a floor):

- ``sum``: t = calls t0 + max(FLOPs / F, bytes / B); each call waits for its launch.
- ``floor``: t = max(calls t0, FLOPs / F, bytes / B); launches hide behind work that is long enough.

Which term is the largest makes a cell's regime. Given the regimes, the law is linear in t0, 1 / F and 1 / B, which
are found by non-negative least squares on relative residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from energyscope.intervals import Interval
from energyscope.scaling.cell import FLOOR, Cell, Work, column
from energyscope.scaling.least_squares import Fit, weighted
from energyscope.scaling.regimes import COMPUTE, LAUNCH, MEMORY, Form, design_of, explain, regimes_of


@dataclass(frozen=True)
class TimeLaw:
    """A fitted time law: columns calls (t0, us), FLOPs (us/FLOP), bytes (us/byte).

    ``regimes`` (cells,) are 0 where a launch, 1 where compute and 2 where memory sets the time (the sum form has
    no 0). Intervals are those of the linear law within the regimes found. ``told`` is False where the cells do not
    tell whether launches or memory set the time: a law of either foretells the same shapes.
    """

    form: Form
    fit: Fit
    regimes: tuple[int, ...]
    told: bool

    @property
    def launch_us(self) -> Interval:
        """T0, time of a launch in us; 0 without limits where no launch was seen."""
        return self.fit.coefficient(LAUNCH)

    @property
    def tflops(self) -> Interval | None:
        """F in TFLOP/s; None where compute limits no cell."""
        return _rate(self.fit, COMPUTE, 1e6)

    @property
    def gb_per_s(self) -> Interval | None:
        """B in GB/s; None where memory limits no cell."""
        return _rate(self.fit, MEMORY, 1e3)

    def row(self, work: Work) -> tuple[float, float, float]:
        """Return the row of the design for this work: its columns in the regime that the law puts it in."""
        columns = np.array([[work.calls, work.flops, work.bytes]], dtype=float)
        regimes = regimes_of(columns, np.array([self.fit.coefficients]), self.form)
        launch, compute, memory = design_of(columns, regimes, self.form)[0, 0].tolist()
        return launch, compute, memory

    def time_us(self, work: Work) -> Interval:
        """Return the time of a further measurement of this work with its 95 % prediction interval."""
        row = self.row(work)
        return self.fit.interval(row, FLOOR * self.fit.value(row))


def time_law(cells: Sequence[Cell], form: Form) -> TimeLaw | None:
    """Fit the times of some cells; None where there are too few of them, or no work in them."""
    columns = np.column_stack([column(cells, name) for name in ("calls", "flops", "bytes")])
    times = column(cells, "time_us")
    (_, regimes, fitted), told = explain(
        columns, times, form, eager=any(cell.execution == "eager" for cell in cells)
    )
    design = design_of(columns, regimes[None], form)[0]
    fit = weighted(design, times, FLOOR * times, fitted > 0)
    return None if fit is None or not fitted.any() else TimeLaw(form, fit, tuple(regimes.tolist()), told)


def _rate(fit: Fit, index: int, unit: float) -> Interval | None:
    slowness = fit.coefficient(index)
    if slowness.value <= 0:
        return None
    low = None if slowness.high is None else 1 / slowness.high / unit
    high = None if slowness.low is None or slowness.low <= 0 else 1 / slowness.low / unit
    return Interval(1 / slowness.value / unit, low, high)

"""Time of one subject from its work: t = max(calls t0, FLOPs / F, bytes / B), by the largest of three limits.

FLOPs, bytes and calls are summed over the pass, so that t0 is per call: a launch hides behind work that is long
enough (the roofline of S. Williams, A. Waterman and D. Patterson, Communications of the ACM 52 (2009), 65-76, with
a floor). Which limit is the largest makes a cell's regime. Given the regimes (`regimes`), the law is linear in t0,
1 / F and 1 / B, which are found by least squares on relative residuals.

Small models' components wait for launches: their cells do not show how fast the board computes or reads memory,
and a law of theirs predicts a large model as if it waited for launches too. But other components of the same
passes show it, such as the head, which reads more weights than any other: no component can be faster than that.
These best rates are the `Ceilings` of a law over several models.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from energyscope.grouping import group_by
from energyscope.intervals import Interval
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason
from energyscope.scaling.cells import FLOOR, Cell, Work, column
from energyscope.scaling.least_squares import Fit, weighted
from energyscope.scaling.regimes import COMPUTE, LAUNCH, MEMORY, design_of, explain

LIMITS = {"a launch": LAUNCH, "compute": COMPUTE, "memory": MEMORY}  # as flags name them
SAME_PASS = (
    "phase", "precision", "execution", "board", "limit", "meter", "method", "model", "batch_size", "tokens",
)  # fmt: skip


@dataclass(frozen=True)
class Ceilings:
    """The least time for a FLOP (us) and for a byte (us) that any cell shows; infinite where none has any."""

    us_per_flop: float = math.inf
    us_per_byte: float = math.inf

    def least_us(self, work: Work) -> float:
        """Return the time that this work takes at least."""
        pairs = ((self.us_per_flop, work.flops), (self.us_per_byte, work.bytes))
        return max((rate * amount for rate, amount in pairs if amount and math.isfinite(rate)), default=0.0)


Rates = Mapping[tuple[object, ...], Ceilings]


@dataclass(frozen=True)
class TimeLaw:
    """A fitted time law: columns calls (t0, us), FLOPs (us/FLOP), bytes (us/byte), and the board's ``ceilings``.

    ``regimes`` (cells,) are 0 where a launch, 1 where compute and 2 where memory sets the time. Intervals are
    those of the linear law within the regimes. ``flags`` note what the cells do not show: a limit that sets no
    cell's time, and that launches or memory may explain the same times.
    """

    fit: Fit
    regimes: tuple[int, ...]
    flags: tuple[Reason, ...] = ()
    ceilings: Ceilings | None = None

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

    def values(self, works: Sequence[Work]) -> Array:
        """Return the times in us, shape (works,), without the ceilings."""
        result: Array = np.max(_columns(works) * self.fit.coefficients, axis=1)
        return result

    def variance(self, work: Work) -> float | None:
        """Return the variance of the time (us squared); None where it is not known."""
        return self.fit.variance(self._row(work))

    def interval(self, work: Work) -> Interval:
        """Return the time of a further measurement of this work with its 95 % prediction interval."""
        row = self._row(work)
        return self.fit.interval(row, FLOOR * self.fit.value(row))

    def missing_us(self, work: Work) -> float:
        """Return by how much the time lies below the ceilings, which no component of the board beats."""
        return 0.0 if self.ceilings is None else max(0.0, self.ceilings.least_us(work) - self.interval(work).value)

    def _row(self, work: Work) -> list[float]:
        """Return the columns of this work in the regime that the law puts it in, the others 0."""
        columns = [float(work.calls), float(work.flops), float(work.bytes)]
        terms = [column * by for column, by in zip(columns, self.fit.coefficients, strict=True)]
        largest = terms.index(max(terms))
        return [column if regime == largest else 0.0 for regime, column in enumerate(columns)]


def time_law(cells: Sequence[Cell], ceilings: Ceilings | None = None) -> TimeLaw | None:
    """Fit the times of some cells; None where there are too few of them, or no work in them."""
    law = _time_law(tuple(cells))
    return law and replace(law, ceilings=ceilings)


@functools.lru_cache(maxsize=512)
def _time_law(cells: tuple[Cell, ...]) -> TimeLaw | None:
    """Fit without ceilings, once: of two models left out one after the other, either may be the first."""
    columns, times = _columns(cells), column(cells, "time_us")
    split, apart = explain(columns, times, eager=any(cell.execution == "eager" for cell in cells))
    fit = weighted(design_of(columns, split.regimes), times, FLOOR * times, np.array(split.used))
    if fit is None or not any(split.used):
        return None
    flags = [reason("limit-not-seen", limit=name) for name, index in LIMITS.items() if not fit.active[index]]
    if not apart:
        flags.append(reason("launch-or-memory"))
    return TimeLaw(fit, tuple(split.regimes.tolist()), tuple(flags))


def time_at_board_rates(cells: Sequence[Cell], ceilings: Ceilings, freedom: int) -> TimeLaw:
    """Fit the launches alone to times of some cells: FLOPs and bytes go at the board's best rates.

    Models that wait for launches do not show how fast their components would compute or read memory: a slope
    through their times, which hardly differ, would be a rate that no board has. The interval is that of the times'
    scatter, with ``freedom`` degrees of freedom.
    """
    least = np.array([ceilings.least_us(cell) for cell in cells])
    calls, times = column(cells, "calls"), column(cells, "time_us")
    launch = _launch_us(calls, least, times)
    residuals = 1 - np.maximum(launch * calls, least) / times
    scatter = math.sqrt(float(residuals @ residuals) / freedom) if freedom > 0 else None
    rates = (rate if math.isfinite(rate) else 0.0 for rate in (ceilings.us_per_flop, ceilings.us_per_byte))
    coefficients = (launch, *rates)
    fit = Fit(
        coefficients=coefficients,
        covariance=None if scatter is None else ((0.0,) * 3,) * 3,
        scale=None if scatter is None else scatter / FLOOR,
        freedom=freedom,
        leverages=(),
        residuals=tuple((residuals * times).tolist()),
        active=(True, True, True),
        separable=(True, True, True),
    )
    regimes = np.argmax(_columns(cells) * coefficients, axis=1)
    return TimeLaw(fit, tuple(regimes.tolist()))


def rates_by_pass(cells: Iterable[Cell]) -> Rates:
    """Return the best rates by pass (`pass_of`), of cells of all subjects.

    A cell's time over its FLOPs is no less than the board's best, whatever else it waited for.
    """
    return {key: ceilings_of(own) for key, own in group_by(cells, pass_of).items()}


def ceilings_of(cells: Sequence[Cell], rates: Rates | None = None) -> Ceilings:
    """Return the best rates of some cells and, in ``rates``, of their passes.

    Other passes do not count, so that a fit without some passes knows nothing of them.
    """
    known = [rates[key] for key in set(map(pass_of, cells)) if key in rates] if rates else []
    per_flop = [cell.time_us / cell.flops for cell in cells if cell.flops]
    per_byte = [cell.time_us / cell.bytes for cell in cells if cell.bytes]
    return Ceilings(
        min([*per_flop, *(ceilings.us_per_flop for ceilings in known)], default=math.inf),
        min([*per_byte, *(ceilings.us_per_byte for ceilings in known)], default=math.inf),
    )


def pass_of(cell: Cell) -> tuple[object, ...]:
    """Return what two subjects of one measured pass have in common."""
    return tuple(getattr(cell, name) for name in SAME_PASS)


def _launch_us(calls: Array, least: Array, times: Array) -> float:
    """Return t0 of least squared relative residuals of max(calls t0, least): exact, by the set that t0 sets.

    All arrays have shape (cells,). Sorted by the t0 from which on launches set a cell's time, the cells of a
    launch are the first ones; each such set gives a t0 by linear least squares.
    """
    paces = (calls / times)[np.argsort(least / calls)]
    launches = [0.0, *(np.cumsum(paces) / np.cumsum(paces**2)).tolist()]
    losses = [float(np.sum((np.maximum(calls * launch, least) / times - 1) ** 2)) for launch in launches]
    return float(launches[int(np.argmin(losses))])


def _columns(works: Sequence[Work]) -> Array:
    return np.column_stack([column(works, name) for name in ("calls", "flops", "bytes")])


def _rate(fit: Fit, index: int, unit: float) -> Interval | None:
    slowness = fit.coefficient(index)
    if slowness.value <= 0:
        return None
    low = None if slowness.high is None else 1 / slowness.high / unit
    high = None if slowness.low is None or slowness.low <= 0 else 1 / slowness.low / unit
    return Interval(1 / slowness.value / unit, low, high)

"""A roofline law whose compute and memory run at the board's best rates, so that only launches are fitted.

E = P_static x t + c x calls + a x FLOPs + b x bytes with t = max(calls t0, FLOPs / F, bytes / B), as in a
`roofline`, but F and B are the board's (`ceilings`), not the subject's own. Models that wait for launches do not
tell how fast their components would compute or read memory: a slope through their times, which hardly differ,
would be a rate that no board has.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from energyscope.intervals import Interval
from energyscope.metering.interval import student_t
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason
from energyscope.scaling.ceilings import Ceilings, Rates, ceilings_of
from energyscope.scaling.cell import FLOOR, Cell, Work, check_alike, column, deviations
from energyscope.scaling.least_squares import Fit, held, non_negative
from energyscope.scaling.prediction import LawName, NoLaw, Prediction, Span, span_of
from energyscope.scaling.roofline import MJ_PER_US
from energyscope.scaling.two_term import PJ_PER_MJ


@dataclass(frozen=True)
class BoardRates:
    """The fitted law: P_static (W), t0 (us per call), the ceilings, and c, a and b in ``fit`` (see `Roofline`).

    ``scale`` is the residuals' relative deviation, ``time_scale`` that of the times; None where no cell is left
    over to tell them from. ``flags`` name coefficients that are held at 0.
    """

    subject: str
    cells: int
    static_w: float
    launch_us: float
    ceilings: Ceilings
    fit: Fit
    scale: float | None
    time_scale: float | None
    freedom: int
    flags: tuple[Reason, ...]
    span: Span

    name: LawName = "roofline-board-rates"

    @property
    def call_mj(self) -> Interval:
        """Energy of a call beyond static power (c)."""
        return self.fit.coefficient(0)

    @property
    def pj_per_flop(self) -> Interval | None:
        """Energy of a FLOP beyond static power (a); None where no cell has FLOPs."""
        return self.fit.coefficient(1).scaled(PJ_PER_MJ) if self.span.flops[1] else None

    @property
    def pj_per_byte(self) -> Interval | None:
        """Energy of a byte beyond static power (b); None where no cell has bytes."""
        return self.fit.coefficient(2).scaled(PJ_PER_MJ) if self.span.bytes[1] else None

    def time_us(self, work: Work) -> float:
        """Return the time that the law says."""
        return max(self.launch_us * work.calls, self.ceilings.least_us(work))

    def energy_mj(self, work: Work) -> float:
        """Return the energy that the law says."""
        return self.static_w / MJ_PER_US * self.time_us(work) + self.fit.value(_row(work))

    def predict(self, work: Work) -> Prediction:
        """Return energy and time of a further measurement of this work, with 95 % prediction intervals."""
        why = self.span.outside(work)
        energy, time = self.energy_mj(work), self.time_us(work)
        of_work = self.fit.variance(_row(work))
        known = None not in (self.scale, of_work)
        half = math.hypot(math.sqrt(of_work or 0.0), (self.scale or 0.0) * energy) if known else None
        late = None if self.time_scale is None else self.time_scale * time
        return Prediction(
            subject=self.subject,
            law=self.name,
            energy_mj=_around(energy, half, self.freedom),
            time_us=_around(time, late, self.freedom),
            extrapolated=why is not None,
            why=why,
        )


def board_rates(
    cells: Sequence[Cell], *, rates: Rates | None = None, mixed: Collection[str] = ()
) -> BoardRates | NoLaw:
    """Fit the law to one subject's cells, with the ceilings of their passes (`ceilings_of`).

    Raises:
        UsageError: the cells differ in a field that is not in ``mixed``.

    """
    remarks = check_alike(cells, mixed)
    subject = cells[0].subject if cells else ""
    static = [cell.static_mj for cell in cells if cell.static_mj is not None]
    if len(cells) < 2:
        return NoLaw(subject, reason("few-cells", cells=len(cells), needed=2))
    if len(static) < len(cells):
        return NoLaw(subject, reason("no-static-power"))
    times, work = column(cells, "time_us"), np.array([_row(cell) for cell in cells])
    fit = non_negative(work, column(cells, "energy_mj") - np.array(static), deviations(cells, FLOOR))
    if fit is None:
        return NoLaw(subject, reason("too-few-or-alike", cells=len(cells)))
    ceilings = ceilings_of(cells, rates)
    least = np.array([ceilings.least_us(cell) for cell in cells])
    launch = _launch(column(cells, "calls"), least, times)
    power = float(np.median(np.array(static) / times)) * MJ_PER_US
    said = np.maximum(launch * column(cells, "calls"), least)
    energies = power / MJ_PER_US * said + work @ np.array(fit.coefficients)
    freedom = min(fit.freedom, len(cells) - 1)
    return BoardRates(
        subject=subject,
        cells=len(cells),
        static_w=power,
        launch_us=launch,
        ceilings=ceilings,
        fit=fit,
        scale=_scale(1 - energies / column(cells, "energy_mj"), freedom),
        time_scale=_scale(1 - said / times, freedom),
        freedom=freedom,
        flags=(*held(fit, ("energy per call", "J/FLOP", "J/byte"), work), *remarks),
        span=span_of(cells),
    )


def _launch(calls: Array, least: Array, times: Array) -> float:
    """Return t0 of least squared relative residuals of max(calls t0, least): exact, by the set that t0 sets.

    All arrays have shape (cells,). Sorted by the t0 from which on launches set a cell's time, the cells of a
    launch are the first ones; each such set gives a t0 by linear least squares.
    """
    order = np.argsort(least / calls)
    paces = (calls / times)[order]
    found = [0.0, *(np.cumsum(paces) / np.cumsum(paces**2)).tolist()]
    losses = [float(np.sum((np.maximum(calls * one, least) / times - 1) ** 2)) for one in found]
    return float(found[int(np.argmin(losses))])


def _scale(residuals: Array, freedom: int) -> float | None:
    return math.sqrt(float(residuals @ residuals) / freedom) if freedom > 0 else None


def _around(value: float, deviation: float | None, freedom: int) -> Interval:
    if deviation is None or freedom < 1:
        return Interval(value)
    half = student_t(freedom) * deviation
    return Interval(value, value - half, value + half)


def _row(work: Work) -> tuple[float, float, float]:
    return float(work.calls), float(work.flops), float(work.bytes)

"""The alternative to two terms: E = P_static x t + c x calls + a x FLOPs + b x bytes, with t from a `TimeLaw`.

P_static is measured (each cell's static energy over its time); c, a and b are fitted to the rest and may not be
negative: work gives no joules back. c is what a call costs beyond static power, such as its launch; it may be left
out. In mJ, pJ/FLOP and pJ/byte (1 mJ = 1e9 pJ).
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
from energyscope.scaling.cell import FLOOR, Cell, Work, check_alike, column, deviations
from energyscope.scaling.least_squares import Fit, held, non_negative
from energyscope.scaling.prediction import LawName, NoLaw, Prediction, Span, span_of
from energyscope.scaling.regimes import COMPUTE, LAUNCH, MEMORY, Form
from energyscope.scaling.time_law import TimeLaw, time_law
from energyscope.scaling.two_term import PJ_PER_MJ

MJ_PER_US = 1e3  # in W


@dataclass(frozen=True)
class Roofline:
    """A fitted roofline law of one subject.

    ``call_mj``, ``pj_per_flop`` and ``pj_per_byte`` are None where left out or where the cells have none of these;
    0 without limits, and a flag, where the bound at 0 is active. ``residuals`` (cells,) are (measured - law) /
    measured, with the law's own times. ``scale`` is their deviation, from which the prediction interval takes a
    new cell's noise; None where no cell is left over to tell it from.
    """

    subject: str
    cells: int
    static_w: float
    time: TimeLaw
    call_mj: Interval | None
    pj_per_flop: Interval | None
    pj_per_byte: Interval | None
    residuals: tuple[float, ...]
    scale: float | None
    freedom: int
    flags: tuple[Reason, ...]
    span: Span
    fit: Fit

    @property
    def name(self) -> LawName:
        """The law's name, with the form of its time law."""
        return "roofline-floor" if self.time.form == "floor" else "roofline-sum"

    def predict(self, work: Work) -> Prediction:
        """Return energy and time of a further measurement of this work, with 95 % prediction intervals.

        The variances of the time law, of a and b, and of a new measurement are added.
        """
        why = self.span.outside(work)
        energy = self.energy_mj(work)
        limits = self._half_width(work, energy)
        interval = Interval(energy) if limits is None else Interval(energy, energy - limits, energy + limits)
        return Prediction(self.subject, self.name, interval, self.time.time_us(work), why is not None, why)

    def energy_mj(self, work: Work) -> float:
        """Return the energy that the law says."""
        return _energy(self.static_w, self.time, self.fit, work)

    def _half_width(self, work: Work, energy: float) -> float | None:
        of_time = self.time.fit.variance(self.time.row(work))
        of_work = self.fit.variance(_row(work))
        if of_time is None or of_work is None or self.scale is None:
            return None
        static = self.static_w / MJ_PER_US * math.sqrt(of_time)
        return student_t(self.freedom) * math.sqrt(static**2 + of_work + (self.scale * energy) ** 2)


def roofline(
    cells: Sequence[Cell],
    form: Form = "floor",
    *,
    call_energy: bool = True,
    mixed: Collection[str] = (),
    floor: float = FLOOR,
) -> Roofline | NoLaw:
    """Fit the roofline law to the cells of one subject; without ``call_energy``, c is 0.

    On eager runs of linear layers on an H200, the floor form and c foretold left-out cells better than their
    alternatives, so they are the defaults.

    Raises:
        UsageError: the cells differ in a field that is not in ``mixed`` (see `check_alike`).

    """
    remarks = check_alike(cells, mixed)
    subject = cells[0].subject if cells else ""
    static = [cell.static_mj for cell in cells if cell.static_mj is not None]
    if len(cells) < 2:
        return NoLaw(subject, reason("few-cells", cells=len(cells), needed=2))
    if len(static) < len(cells):
        return NoLaw(subject, reason("no-static-power"))
    time = time_law(cells, form)
    work = np.array([_row(cell) for cell in cells]) * (call_energy, True, True)
    dynamic = column(cells, "energy_mj") - np.array(static)
    fit = non_negative(work, dynamic, deviations(cells, floor))
    if time is None or fit is None:
        return NoLaw(subject, reason("too-few-or-alike", cells=len(cells)))
    power = float(np.median(np.array(static) / column(cells, "time_us"))) * MJ_PER_US
    residuals = np.array([1 - _energy(power, time, fit, cell) / cell.energy_mj for cell in cells])
    freedom = min(fit.freedom, time.fit.freedom)
    return Roofline(
        subject=subject,
        cells=len(cells),
        static_w=power,
        time=time,
        call_mj=_coefficient(fit, work, 0),
        pj_per_flop=_coefficient(fit, work, 1, PJ_PER_MJ),
        pj_per_byte=_coefficient(fit, work, 2, PJ_PER_MJ),
        residuals=tuple(residuals.tolist()),
        scale=math.sqrt(float(residuals @ residuals) / freedom) if freedom else None,
        freedom=freedom,
        flags=(*held(fit, ("energy per call", "J/FLOP", "J/byte"), work), *_unseen(time), *remarks),
        span=span_of(cells),
        fit=fit,
    )


def _row(work: Work) -> tuple[float, float, float]:
    return float(work.calls), float(work.flops), float(work.bytes)


def _coefficient(fit: Fit, work: Array, index: int, unit: float = 1.0) -> Interval | None:
    return fit.coefficient(index).scaled(unit) if work[:, index].any() else None


def _energy(static_w: float, time: TimeLaw, fit: Fit, work: Work) -> float:
    static = static_w / MJ_PER_US * time.fit.value(time.row(work))
    return static + fit.value(_row(work))


def _unseen(time: TimeLaw) -> list[Reason]:
    """Return a flag for each limit of time that no cell shows, since beyond the cells it would be missed."""
    shown = (("a launch", LAUNCH), ("compute", COMPUTE), ("memory", MEMORY))
    flags = [reason("limit-not-seen", limit=name) for name, index in shown if not time.fit.active[index]]
    return flags if time.told else [*flags, reason("launch-or-memory")]

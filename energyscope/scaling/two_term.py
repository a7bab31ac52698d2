"""The two-term law of one subject, E = E0 + k x FLOPs (the CLEAR study, arXiv 2510.02810).

Energies are in mJ. k is told in pJ/FLOP: 1 mJ/FLOP = 1e9 pJ/FLOP.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from energyscope.intervals import Interval
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason
from energyscope.scaling.cell import FLOOR, Cell, Work, check_alike, column, deviations
from energyscope.scaling.least_squares import Fit, weighted
from energyscope.scaling.prediction import LawName, NoLaw, Prediction, Span, span_of

PJ_PER_MJ = 1e9


@dataclass(frozen=True)
class TwoTerm:
    """E0 (mJ) and k (pJ/FLOP) of a subject with 95 % intervals; ``cells`` counts those that they come from.

    ``r2`` is the share of the energies' weighted variance that the law explains (None for two cells, through which
    any line goes). ``residuals`` (cells,) are (measured - law) / measured, in the order of the cells given.
    ``noise`` is the relative deviation that a further cell is given in the fit. ``flags`` say what a reader must
    know: a negative E0 or k, which is shown as it is, and what was mixed.
    """

    subject: str
    cells: int
    fixed_mj: Interval
    marginal_pj_per_flop: Interval
    r2: float | None
    residuals: tuple[float, ...]
    flags: tuple[Reason, ...]
    span: Span
    noise: float
    fit: Fit

    name: LawName = "two-term"

    def predict(self, work: Work) -> Prediction:
        """Return the energy of a further measurement of this work, with its 95 % prediction interval."""
        row = (1.0, work.flops)
        energy = self.fit.interval(row, self.noise * abs(self.fit.value(row)))
        why = self.span.outside(work)
        return Prediction(self.subject, self.name, energy, None, why is not None, why)


def two_term(
    cells: Sequence[Cell], *, mixed: Collection[str] = (), floor: float = FLOOR, measure: str = "FLOPs"
) -> TwoTerm | NoLaw:
    """Fit the two-term law to the cells of one subject by least squares, weighted as in `deviations`.

    Intervals are Student's, with the scale of the residuals, so that a law that does not hold gets wide ones. They
    need three cells. ``mixed`` names the fields in which cells may differ (see `check_alike`), ``measure``
    what stands in their FLOPs.

    Raises:
        UsageError: the cells differ in a field that is not in ``mixed``.

    """
    remarks = check_alike(cells, mixed)
    subject = cells[0].subject if cells else ""
    if len(cells) < 2:
        return NoLaw(subject, reason("few-cells", cells=len(cells), needed=2))
    flops, energy = column(cells, "flops"), column(cells, "energy_mj")
    spread = deviations(cells, floor)
    fit = weighted(np.column_stack([np.ones(len(cells)), flops]), energy, spread)
    if fit is None:
        return NoLaw(subject, reason("same-amount", cells=len(cells), measure=measure))
    fixed, marginal = fit.coefficient(0), fit.coefficient(1).scaled(PJ_PER_MJ)
    return TwoTerm(
        subject=subject,
        cells=len(cells),
        fixed_mj=fixed,
        marginal_pj_per_flop=marginal,
        r2=explained(energy, np.array(fit.residuals), spread) if fit.freedom else None,
        residuals=tuple((np.array(fit.residuals) / energy).tolist()),
        flags=(*_negative({"E0": fixed, "k": marginal}), *remarks),
        span=span_of(cells),
        noise=float(np.median(spread / np.abs(energy))),
        fit=fit,
    )


def explained(values: Array, residuals: Array, spread: Array) -> float | None:
    """Return the weighted R2: 1 - residuals' against values' sum of squares about their weighted mean."""
    weights = spread**-2
    mean = float(np.average(values, weights=weights))
    whole = float(weights @ (values - mean) ** 2)
    return 1 - float(weights @ residuals**2) / whole if whole else None


def _negative(terms: Mapping[str, Interval]) -> list[Reason]:
    found = []
    for term, item in terms.items():
        if item.value < 0:
            code = "term-negative-holds-zero" if item.known else "term-negative"
            found.append(reason("term-significantly-negative" if item.excludes(0.0) else code, term=term))
    return found

"""E0 and k from the architecture alone: one law per kind, shared over models of different sizes.

A call costs E = c0 + c1 x FLOPs + c2 x bytes. Hidden size, heads, layers and vocabulary come in through the
calls, FLOPs and bytes of a kind, which a configuration gives without any measurement.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from energyscope.intervals import Interval
from energyscope.reasons import Reason, join, reason, split
from energyscope.scaling.cell import FLOOR, Cell, Work, check_alike, column, deviations
from energyscope.scaling.least_squares import Fit, held, non_negative
from energyscope.scaling.prediction import LawName, NoLaw, Prediction, Span, span_of
from energyscope.scaling.two_term import PJ_PER_MJ

NAMES = ("energy per call", "J/FLOP", "J/byte")
SHARED = ("model",)


@dataclass(frozen=True)
class PerCall:
    """The law of a kind over models: c0 (mJ), c1 (pJ/FLOP) and c2 (pJ/byte) with 95 % intervals.

    c1 and c2 are None where no cell has FLOPs or bytes; a coefficient that a bound holds at 0 has no limits, and a
    flag. ``residuals`` (cells,) are (measured - law) / measured; ``by_model`` gives their median for each model: a
    model off by more than its cells scatter says that one law is not enough.
    """

    subject: str
    cells: int
    models: tuple[str, ...]
    call_mj: Interval
    pj_per_flop: Interval | None
    pj_per_byte: Interval | None
    residuals: tuple[float, ...]
    by_model: dict[str, float]
    flags: tuple[Reason, ...]
    span: Span
    noise: float
    fit: Fit

    name: LawName = "per-call"

    def predict(self, work: Work) -> Prediction:
        """Return the energy of this work, summed over its calls, with its 95 % prediction interval."""
        row = _row(work)
        energy = self.fit.interval(row, self.noise * abs(self.fit.value(row)))
        why = self.span.outside(work)
        return Prediction(self.subject, self.name, energy, None, why is not None, why)


@dataclass(frozen=True)
class Terms:
    """E0 (mJ) and k (pJ/FLOP) of a subject that was not measured; the rest as in `Prediction`."""

    fixed_mj: Interval
    marginal_pj_per_flop: Interval
    extrapolated: bool
    why: str | None


def per_call(cells: Sequence[Cell], *, mixed: Collection[str] = SHARED, floor: float = FLOOR) -> PerCall | NoLaw:
    """Fit one law to the cells of one kind in several models; coefficients may not be negative.

    Raises:
        UsageError: the cells differ in a field that is not in ``mixed``: by default only in their model.

    """
    remarks = check_alike(cells, mixed)
    subject = cells[0].subject if cells else ""
    models = tuple(sorted({cell.model for cell in cells}))
    if len(cells) <= len(NAMES):
        return NoLaw(subject, reason("few-cells", cells=len(cells), needed=len(NAMES) + 1))
    design = np.array([_row(cell) for cell in cells])
    energy, spread = column(cells, "energy_mj"), deviations(cells, floor)
    fit = non_negative(design, energy, spread)
    if fit is None:
        return NoLaw(subject, reason("too-few-or-alike", cells=len(cells)))
    residuals = np.array(fit.residuals) / energy
    names = np.array([cell.model for cell in cells])
    return PerCall(
        subject=subject,
        cells=len(cells),
        models=models,
        call_mj=fit.coefficient(0),
        pj_per_flop=fit.coefficient(1).scaled(PJ_PER_MJ) if design[:, 1].any() else None,
        pj_per_byte=fit.coefficient(2).scaled(PJ_PER_MJ) if design[:, 2].any() else None,
        residuals=tuple(residuals.tolist()),
        by_model={model: float(np.median(residuals[names == model])) for model in models},
        flags=(*held(fit, NAMES, design), *(one for one in remarks if one.values["field"] != "model")),
        span=span_of(cells, per_call=True),
        noise=float(np.median(spread / np.abs(energy))),
        fit=fit,
    )


def terms_of(law: PerCall, works: Sequence[Work]) -> Terms | NoLaw:
    """Return E0 and k that a law over models implies for a model, from its work at two lengths or more.

    The two-term line through the law's energies at these works, weighted as measured ones would be. E0 and k are
    then linear in c0, c1 and c2, so that their intervals follow exactly.
    """
    flops = column(works, "flops")
    design = np.array([_row(work) for work in works])
    if len(set(flops.tolist())) < 2:
        return NoLaw(law.subject, reason("same-amount", cells=len(works), measure="FLOPs"))
    energy = design @ np.array(law.fit.coefficients)
    line = np.column_stack([np.ones(len(works)), flops]) / energy[:, None]
    norms = np.linalg.norm(line, axis=0)
    rows = (np.linalg.pinv(line / norms) / norms[:, None]) @ (design / energy[:, None])  # shape (2, 3)
    why = join(sorted({one for work in works for one in split(law.span.outside(work))}))
    fixed, marginal = law.fit.interval(tuple(rows[0])), law.fit.interval(tuple(rows[1])).scaled(PJ_PER_MJ)
    return Terms(fixed, marginal, bool(why), why or None)


def _row(work: Work) -> tuple[float, float, float]:
    return float(work.calls), float(work.flops), float(work.bytes)

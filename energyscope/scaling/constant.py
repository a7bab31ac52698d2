"""The law of what does the same work in every cell: a constant. MLPs of decode steps do, at any context."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from energyscope.reasons import Reason, reason
from energyscope.scaling.cell import Cell, Work, check_alike, column, deviations
from energyscope.scaling.least_squares import Fit, weighted
from energyscope.scaling.prediction import LawName, NoLaw, Prediction, Span, span_of

SAME = 1e-3  # relative range of FLOPs and bytes that is no range: a slope over it would follow noise


@dataclass(frozen=True)
class Constant:
    """The weighted mean of cells that do the same work; it holds for that work alone (``span``)."""

    subject: str
    span: Span
    noise: float
    fit: Fit
    flags: tuple[Reason, ...]

    name: LawName = "constant"

    def predict(self, work: Work) -> Prediction:
        """Return the energy of a further measurement of this work, with its 95 % prediction interval."""
        energy = self.fit.interval((1.0,), self.noise * abs(self.fit.value((1.0,))))
        why = self.span.outside(work)
        return Prediction(self.subject, self.name, energy, None, why is not None, why)


def same_work(works: Sequence[Work]) -> bool:
    """Tell whether works differ in neither FLOPs nor bytes by more than 0.1 %."""
    return all(
        values.max(initial=0.0) <= values.min(initial=np.inf) * (1 + SAME)
        for values in (column(works, "flops"), column(works, "bytes"))
    )


def constant(cells: Sequence[Cell], *, mixed: Collection[str] = ()) -> Constant | NoLaw:
    """Fit the mean of the cells of one subject; its interval needs two.

    Raises:
        UsageError: the cells differ in a field that is not in ``mixed``.

    """
    flags = check_alike(cells, mixed)
    subject = cells[0].subject if cells else ""
    if not cells or not same_work(cells):
        return NoLaw(subject, reason("different-work"))
    energy, spread = column(cells, "energy_mj"), deviations(cells)
    fit = weighted(np.ones((len(cells), 1)), energy, spread)
    if fit is None:
        return NoLaw(subject, reason("too-few-or-alike", cells=len(cells)))
    range_ = span_of(cells)
    span = Span(_wider(range_.flops), _wider(range_.bytes))
    return Constant(subject, span, float(np.median(spread / np.abs(energy))), fit, flags)


def _wider(limits: tuple[float, float]) -> tuple[float, float]:
    return limits[0] * (1 - SAME), limits[1] * (1 + SAME)

"""The one fit of all laws: least squares over the features of a law's form, weighted as cells are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np

from energyscope.intervals import Interval
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason
from energyscope.scaling.cells import Cell, Work, check_alike, column, deviations
from energyscope.scaling.law import FORMS, MJ_PER_US, FittedRange, Form, Law, LawName, NoLaw, span_of
from energyscope.scaling.least_squares import Fit, at_zero, non_negative, weighted
from energyscope.scaling.time_law import Rates, TimeLaw, ceilings_of, time_at_board_rates, time_law

SAME = 1e-3  # relative range of FLOPs and bytes that is no range: a slope over it would follow noise

Fitter = Callable[[Sequence[Cell]], Law | NoLaw]  # what fits a law to the cells of one subject


def fitter(name: LawName, *, mixed: Collection[str] = (), rates: Rates | None = None) -> Fitter:
    """Return the fit of one law, as `fit_law` does it."""
    return partial(fit_law, FORMS[name], mixed=mixed, rates=rates)


def fit_law(
    form: Form, cells: Sequence[Cell], *, mixed: Collection[str] = (), rates: Rates | None = None
) -> Law | NoLaw:
    """Fit a law to the cells of one subject by least squares, weighted as in `deviations`.

    Intervals are Student's, with the scale of the residuals, so that a law that does not hold gets wide ones.
    ``mixed`` names the fields in which cells may differ (see `check_alike`); ``rates`` are the best ones of the
    cells' passes, seen in any subject: no time of a roofline law then lies below them.

    Raises:
        UsageError: the cells differ in a field that is not in ``mixed``.

    """
    remarks = check_alike(cells, mixed)
    subject = cells[0].subject if cells else ""
    if why := _lacking(form, cells):
        return NoLaw(subject, why)
    energy, spread = column(cells, "energy_mj"), deviations(cells)
    static = column(cells, "static_mj") if form.timed else np.zeros(len(cells))
    design = np.array([form.row(cell) for cell in cells])
    fit = (non_negative if form.non_negative else weighted)(design, energy - static, spread)
    time = _time(form, cells, fit, rates) if fit and form.timed else None
    if fit is None or (form.timed and time is None):
        return NoLaw(subject, _too_alike(form, len(cells)))
    watts = float(np.median(static / column(cells, "time_us"))) * MJ_PER_US
    residuals, freedom = np.array(fit.residuals), fit.freedom
    if time is not None:  # the law's own times instead of the measured ones
        residuals = residuals + static - watts / MJ_PER_US * time.values(cells)
        freedom = min(freedom, time.fit.freedom)
    coefficients = _coefficients(form, fit, design)
    return Law(
        form=form,
        subject=subject,
        cells=len(cells),
        coefficients=coefficients,
        r2=_r2(energy, residuals, spread) if freedom else None,
        residuals=tuple((residuals / energy).tolist()),
        flags=(*_flags(form, fit, design, coefficients), *(time.flags if time else ()), *_mixtures(form, remarks)),
        span=_span(form, cells),
        fit=fit,
        scatter=_scatter(fit, energy, spread) if time is None else _rms(residuals / energy, freedom),
        freedom=freedom,
        time=time,
        static_w=watts,
    )


def same_work(works: Sequence[Work]) -> bool:
    """Tell whether works differ in neither FLOPs nor bytes by more than 0.1 %."""
    return all(
        values.max(initial=0.0) <= values.min(initial=np.inf) * (1 + SAME)
        for values in (column(works, "flops"), column(works, "bytes"))
    )


def _lacking(form: Form, cells: Sequence[Cell]) -> Reason | None:
    """Return why the cells cannot give such a law, None where they may."""
    if len(cells) < form.fewest:
        return reason("few-cells", cells=len(cells), needed=form.fewest)
    if form.name == "constant" and not same_work(cells):
        return reason("different-work")
    if form.timed and any(cell.static_mj is None for cell in cells):
        return reason("no-static-power")
    return None


def _too_alike(form: Form, cells: int) -> Reason:
    if form.grows_with:
        return reason("same-amount", cells=cells, measure=form.grows_with)
    return reason("too-few-or-alike", cells=cells)


def _time(form: Form, cells: Sequence[Cell], fit: Fit, rates: Rates | None) -> TimeLaw | None:
    """Return the law of the cells' times, below which no time may lie where ``rates`` are given."""
    if form.name == "roofline-board-rates":
        return time_at_board_rates(cells, ceilings_of(cells, rates), min(fit.freedom, len(cells) - 1))
    return time_law(cells, None if rates is None else ceilings_of(cells, rates))


def _coefficients(form: Form, fit: Fit, design: Array) -> dict[str, Interval]:
    return {
        term.name: fit.coefficient(index).scaled(term.unit)
        for index, term in enumerate(form.terms)
        if design[:, index].any()
    }


def _r2(values: Array, residuals: Array, spread: Array) -> float | None:
    """Return the weighted R2: 1 - residuals' against values' sum of squares about their weighted mean."""
    weights = spread**-2
    mean = float(np.average(values, weights=weights))
    whole = float(weights @ (values - mean) ** 2)
    return 1 - float(weights @ residuals**2) / whole if whole else None


def _scatter(fit: Fit, energy: Array, spread: Array) -> float | None:
    """Return the relative deviation of a further cell, which is known as well as the middle one of these."""
    return None if fit.scale is None else fit.scale * float(np.median(spread / np.abs(energy)))


def _rms(residuals: Array, freedom: int) -> float | None:
    return math.sqrt(float(residuals @ residuals) / freedom) if freedom > 0 else None


def _flags(form: Form, fit: Fit, design: Array, coefficients: dict[str, Interval]) -> list[Reason]:
    """Say which coefficients are held at 0, or of a law without that bound, which are negative."""
    if form.non_negative:
        return at_zero(fit, [term.label for term in form.terms], design)
    flags = []
    for term in form.terms:
        item = coefficients[term.name]
        if term.label and item.value < 0:
            code = "term-negative-holds-zero" if item.known else "term-negative"
            flags.append(reason("term-significantly-negative" if item.excludes(0.0) else code, term=term.label))
    return flags


def _mixtures(form: Form, remarks: Sequence[Reason]) -> list[Reason]:
    """Return the remarks on mixtures that are none of the law's own: one over models joins models."""
    return [remark for remark in remarks if not form.over_models or remark.values["field"] != "model"]


def _span(form: Form, cells: Sequence[Cell]) -> FittedRange:
    """Return the range of the cells; a constant holds for its work alone, at any length that takes no more."""
    if form.name == "constant":
        span = span_of(cells)
        return FittedRange(_wider(span.flops), _wider(span.bytes))
    return span_of(cells, per_call=form.over_models)


def _wider(limits: tuple[float, float]) -> tuple[float, float]:
    return limits[0] * (1 - SAME), limits[1] * (1 + SAME)

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
        same = form.grows_with and reason("same-amount", cells=len(cells), measure=form.grows_with)
        return NoLaw(subject, same or reason("too-few-or-alike", cells=len(cells)))
    watts = float(np.median(static / column(cells, "time_us"))) * MJ_PER_US
    residuals, freedom, scatter = np.array(fit.residuals), fit.freedom, _scatter(fit, energy, spread)
    if time is not None:  # the law's own times instead of the measured ones
        residuals = residuals + static - watts / MJ_PER_US * time.values(cells)
        freedom = min(freedom, time.fit.freedom)
        scatter = math.sqrt(float(np.sum((residuals / energy) ** 2)) / freedom) if freedom > 0 else None
    coefficients = _coefficients(form, fit, design)
    flags = [*_flags(form, fit, design, coefficients), *(time.flags if time else ())]
    flags += [remark for remark in remarks if not form.over_models or remark.values["field"] != "model"]
    return Law(
        form=form,
        subject=subject,
        cells=len(cells),
        coefficients=coefficients,
        r2=_r2(energy, residuals, spread) if freedom else None,
        residuals=tuple((residuals / energy).tolist()),
        flags=tuple(flags),
        span=_span(form, cells),
        fit=fit,
        scatter=scatter,
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


def _flags(form: Form, fit: Fit, design: Array, coefficients: dict[str, Interval]) -> list[Reason]:
    """Name the coefficients that are held at 0, or of a law without that bound, those that are negative."""
    if form.non_negative:
        return at_zero(fit, [term.label for term in form.terms], design)
    flags = []
    for term in form.terms:
        item = coefficients[term.name]
        if term.label and item.value < 0:
            code = "term-negative-holds-zero" if item.known else "term-negative"
            flags.append(reason("term-significantly-negative" if item.excludes(0.0) else code, term=term.label))
    return flags


def _span(form: Form, cells: Sequence[Cell]) -> FittedRange:
    """Return the range of the cells; a constant holds for its work alone, at any length that takes no more."""
    span = span_of(cells, per_call=form.over_models)
    if form.name != "constant":
        return span
    flops, moved = ((low * (1 - SAME), high * (1 + SAME)) for low, high in (span.flops, span.bytes))
    return FittedRange(flops, moved)

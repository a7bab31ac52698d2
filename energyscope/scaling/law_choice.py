"""Which law a subject follows: the one with the least held-out error among those that its cells allow."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from energyscope.intervals import Interval
from energyscope.reasons import reason
from energyscope.scaling.cells import RESIDUAL, WHOLE, Cell, Work
from energyscope.scaling.fit import Fitter, fitter, same_work
from energyscope.scaling.held_out import KEYS, By, HeldOut, best_of, leave_out, widened
from energyscope.scaling.law import FORMS, Law, LawName, NoLaw, Prediction
from energyscope.scaling.time_law import Rates

OF_ONE_MODEL = ("two-term", "two-term-in-bytes")  # with an E0 that another number of layers would change


@dataclass(frozen=True)
class ChosenLaw:
    """A subject's law with the fit that it came from, and its errors on cells that were left out.

    ``time`` is the law of the same form, in us instead of mJ, with its own left-out cells; None for what takes no
    time of its own, and where the law of energy knows the time.
    """

    law: Law
    fit: Fitter
    held_out: HeldOut
    time: tuple[Law, HeldOut] | None

    def predict(self, work: Work) -> Prediction:
        """Return energy and time; their intervals are no narrower than left-out cells were far off."""
        prediction = widened(self.law.predict(work), self.held_out)
        if self.time is None:
            return prediction
        law, held_out = self.time
        return replace(prediction, time_us=widened(law.predict(work), held_out).energy_mj)


@dataclass(frozen=True)
class LawEvaluation:
    """The laws of one subject by name, those that its cells give and those that they do not.

    ``held_out`` holds the left-out cells of each law and each way of leaving out. ``best`` is the law with the
    least median error of cells left out by ``by``; None where no law could be evaluated. ``nested`` holds by way
    the left-out cells that took no part in choosing the law either.
    """

    laws: Mapping[LawName, Law | NoLaw]
    held_out: Mapping[tuple[LawName, By], HeldOut] = field(default_factory=dict)
    by: By | None = None
    best: LawName | None = None
    nested: Mapping[By, HeldOut] = field(default_factory=dict)


def candidates(
    cells: Sequence[Cell], *, mixed: Collection[str] = (), pooled: bool = False, rates: Rates | None = None
) -> dict[LawName, Fitter]:
    """Return the fits of the laws that a subject's cells may follow, the one to take without errors first.

    What does the same work in all cells is a constant. What has no FLOPs follows bytes. Overhead and what is
    unexplained have no work of their own that a roofline could be drawn of. Over several models, the laws in which
    calls count come first: a law per call, and rooflines that know the board's ceilings. The whole is many
    components, which do not run at the board's rates together.
    """
    subject = cells[0].subject if cells else ""
    timed = subject not in RESIDUAL and all(cell.static_mj is not None for cell in cells)
    straight: LawName = "two-term" if any(cell.flops for cell in cells) else "two-term-in-bytes"
    allowed: dict[LawName, bool]
    if len(cells) > 1 and same_work(cells):
        allowed = {"constant": True}
    elif pooled:
        board_rates = timed and bool(rates) and subject != WHOLE
        allowed = {"per-call": True, "roofline-floor": timed, "roofline-board-rates": board_rates, straight: True}
    else:
        allowed = {straight: True, "roofline-floor": timed}
    fields = {*mixed, "model"} if pooled else set(mixed)
    rates = rates if pooled else None
    return {name: remembering(fitter(name, mixed=fields, rates=rates)) for name in allowed if allowed[name]}


def choose(
    cells: Sequence[Cell],
    by: By,
    work: Work | None = None,
    *,
    mixed: Collection[str] = (),
    pooled: bool = False,
    rates: Rates | None = None,
) -> ChosenLaw | NoLaw:
    """Return the law of one subject's cells with the least median error of cells left out by ``by``.

    ``pooled`` takes the cells of several models together; ``rates`` are then the best ones of their passes, seen
    in any subject (`rates_by_pass`). A law that the left-out cells can evaluate is taken before one that needs all
    cells; where nothing can be evaluated, the first law that the cells give, in the order of `candidates`. Of
    several models, a law with one E0 is taken only where there is no other. Cells that all do the same work say
    nothing of another ``work``.

    Raises:
        UsageError: the cells differ in a field that is not in ``mixed``.

    """
    if not cells:
        return NoLaw("", reason("few-cells", cells=0, needed=1))
    if len(cells) > 1 and work is not None and same_work(cells) and not same_work([*cells, work]):
        return NoLaw(cells[0].subject, reason("other-work-than-cells", cells=len(cells)))
    fits = candidates(cells, mixed=mixed, pooled=pooled, rates=rates)
    results = {name: fit(cells) for name, fit in fits.items()}
    laws = _fitted(results)
    if pooled:
        laws = {name: law for name, law in laws.items() if name not in OF_ONE_MODEL} or laws
    if not laws:
        return next(law for name, law in results.items() if isinstance(law, NoLaw) and name != "per-call")
    held_out = {name: leave_out(cells, fits[name], by) for name in laws}
    evaluated = {name: errors for name, errors in held_out.items() if errors.cells}
    best = best_of(evaluated)
    name = next(iter(evaluated or laws)) if best is None else best
    timeless = cells[0].subject in RESIDUAL or FORMS[name].timed
    time = None if timeless else _time(cells, fits[name], by)
    return ChosenLaw(laws[name], fits[name], held_out[name], time)


def evaluate(cells: Sequence[Cell]) -> LawEvaluation:
    """Fit and evaluate all laws that a subject's cells, alike in all but their shapes, may follow.

    Raises:
        UsageError: the cells differ in more than their shapes.

    """
    fits = candidates(cells)
    laws = {name: fit(cells) for name, fit in fits.items()}
    ways = leave_out_ways(cells)
    if not ways:
        return LawEvaluation(laws)
    held_out = {(name, by): leave_out(cells, fits[name], by) for name in _fitted(laws) for by in ways}
    main = leave_out_by(cells, new_model=False)
    main = main if main in ways else ways[0]
    evaluated = {name: held_out[name, main] for name in _fitted(laws) if held_out[name, main].cells}
    nested_fit = _nested({name: fits[name] for name in evaluated})
    nested = {by: leave_out(cells, nested_fit, by) for by in ways if evaluated}
    return LawEvaluation(laws, held_out, main, best_of(evaluated), nested)


def remembering(fit: Fitter) -> Fitter:
    """Return the fit with a memory, since choosing and evaluating a law leave out the same cells."""
    cached = functools.cache(fit)
    return lambda cells: cached(tuple(cells))


def leave_out_by(cells: Sequence[Cell], *, new_model: bool) -> By:
    """Return by what cells are left out: by model for a model that was not measured, else by length or batch.

    Lengths, or else batches, where there are three, so that two are left to fit; else single cells.
    """
    fewest: dict[By, int] = {"length": 3, "batch": 3}
    if new_model:
        fewest = {"model": 2, **fewest}
    counts = _counts(cells)
    return next((by for by, needed in fewest.items() if counts[by] >= needed), "cell")


def leave_out_ways(cells: Sequence[Cell]) -> list[By]:
    """Return the ways in which cells can be left out and others be kept, without ways that come to the same.

    Single cells are left out only where there are fewer than three lengths and three batches.
    """
    counts = _counts(cells)
    ways: list[By] = [by for by in ("length", "batch") if counts[by] > 1]
    single = leave_out_by(cells, new_model=False) == "cell" and counts["cell"] > max(
        counts["length"], counts["batch"]
    )
    return [*ways, "cell"] if single else ways


def _nested(fits: Mapping[LawName, Fitter]) -> Fitter:
    """Return a fit that takes the best law of the cells that it is given, evaluated by leaving some of these out.

    So the error of a cell that it has not seen is not made smaller by the choice (M. Stone, Journal of the Royal
    Statistical Society B 36 (1974), 111-147).
    """

    def fit(cells: Sequence[Cell]) -> Law | NoLaw:
        results = {name: fit(cells) for name, fit in fits.items()}
        laws = _fitted(results)
        if not laws:
            return next(iter(results.values()))
        by = leave_out_by(cells, new_model=False)
        best = best_of({name: leave_out(cells, fits[name], by) for name in laws})
        return laws[next(iter(laws)) if best is None else best]

    return fit


def _time(cells: Sequence[Cell], fit: Fitter, by: By) -> tuple[Law, HeldOut] | None:
    """Fit the law to times: a modelled joule is time x watts, so that its time then follows it exactly."""
    timed = [cell.with_energy(Interval(cell.time_us)) for cell in cells]
    law = fit(timed)
    return None if isinstance(law, NoLaw) else (law, leave_out(timed, fit, by))


def _fitted(laws: Mapping[LawName, Law | NoLaw]) -> dict[LawName, Law]:
    return {name: law for name, law in laws.items() if isinstance(law, Law)}


def _counts(cells: Sequence[Cell]) -> dict[By, int]:
    return {by: len({key(cell) for cell in cells}) for by, key in KEYS.items()}

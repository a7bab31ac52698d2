"""Which law foretells a subject: the one with the least held-out error among those that its cells allow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from energyscope.reasons import reason
from energyscope.scaling.architecture import per_call
from energyscope.scaling.board_rates import board_rates
from energyscope.scaling.by_bytes import by_bytes
from energyscope.scaling.ceilings import Rates, bounded
from energyscope.scaling.cell import Cell, Work
from energyscope.scaling.constant import constant, same_work
from energyscope.scaling.from_runs import RESIDUAL, WHOLE
from energyscope.scaling.heldout import KEYS, By, Errors, Fitter, HeldOut, best_held, errors_of, leave_out, widened
from energyscope.scaling.prediction import Law, LawName, NoLaw, Prediction
from energyscope.scaling.roofline import roofline
from energyscope.scaling.two_term import two_term

OF_ONE_MODEL = ("two-term", "two-term-in-bytes")  # with an E0 that another number of layers would change


@dataclass(frozen=True)
class Chosen:
    """A subject's law with the fit that it came from, and what the cells say of it when they are left out.

    ``time`` is the law of the same form, in us instead of mJ, with its own left-out cells; None for what takes no
    time of its own, and where the law of energy knows the time.
    """

    law: Law
    fit: Fitter
    cells: int
    held_out: HeldOut
    time: tuple[Law, HeldOut] | None

    def predict(self, work: Work) -> Prediction:
        """Return energy and time; their intervals are no narrower than left-out cells were far off."""
        found = widened(self.law.predict(work), self.held_out)
        if self.time is None:
            return found
        law, held_out = self.time
        return replace(found, time_us=widened(law.predict(work), held_out).energy_mj)


def choose(
    cells: Sequence[Cell],
    by: By,
    work: Work | None = None,
    *,
    mixed: Collection[str] = (),
    pooled: bool = False,
    rates: Rates | None = None,
) -> Chosen | NoLaw:
    """Return the law of one subject's cells with the least median error of cells left out by ``by``.

    ``pooled`` takes the cells of several models together; ``rates`` are then the best ones of their passes, seen
    in any subject (`rates_by_pass`). A law that the left-out cells can judge is taken before one that needs all
    cells; where nothing can be judged, the first law that the cells give, in the order of `fits`. Of several
    models, a law with one E0 is taken only where there is no other. Cells that all do the same work say nothing of
    another ``work``.

    Raises:
        UsageError: the cells differ in a field that is not in ``mixed``.

    """
    if not cells:
        return NoLaw("", reason("few-cells", cells=0, needed=1))
    if len(cells) > 1 and work is not None and same_work(cells) and not same_work([*cells, work]):
        return NoLaw(cells[0].subject, reason("other-work-than-cells", cells=len(cells)))
    known = {name: remembering(fit) for name, fit in fits(cells, mixed=mixed, pooled=pooled, rates=rates).items()}
    laws = {name: fit(cells) for name, fit in known.items()}
    told = {name: law for name, law in laws.items() if not isinstance(law, NoLaw)}
    if pooled:
        told = {name: law for name, law in told.items() if name not in OF_ONE_MODEL} or told
    if not told:
        return next(one for name, one in laws.items() if isinstance(one, NoLaw) and name != "per-call")
    held = {one: leave_out(cells, known[one], by) for one in told}
    judged = {one: found for one, found in held.items() if found.cells}
    best = best_held(judged)
    name = next(iter(judged or told)) if best is None else best
    timed = cells[0].subject in RESIDUAL or name in {"roofline-floor", "roofline-board-rates"}
    time = None if timed else _time(cells, known[name], by)
    return Chosen(told[name], known[name], len(cells), held[name], time)


def _time(cells: Sequence[Cell], fit: Fitter, by: By) -> tuple[Law, HeldOut] | None:
    """Fit the law to times: a modelled joule is time x watts, so that its time then follows it exactly."""
    timed = [replace(one, energy_mj=one.time_us, energy_low_mj=None, energy_high_mj=None) for one in cells]
    law = fit(timed)
    return None if isinstance(law, NoLaw) else (law, leave_out(timed, fit, by))


def fits(
    cells: Sequence[Cell], *, mixed: Collection[str] = (), pooled: bool = False, rates: Rates | None = None
) -> dict[LawName, Fitter]:
    """Return the laws that a subject's cells may follow, by name, the one to take without errors first.

    What does the same work in all cells is a constant. What has no FLOPs follows bytes. Glue and what is
    unexplained have no work of their own that a roofline could be drawn of. Over several models, the laws in which
    calls count come first: a law per call, and rooflines that know the board's ceilings.
    """
    subject = cells[0].subject if cells else ""
    fields = {*mixed, "model"} if pooled else set(mixed)
    if len(cells) > 1 and same_work(cells):
        return {"constant": partial(constant, mixed=fields)}
    found: dict[LawName, Fitter] = {"per-call": partial(per_call, mixed=fields)} if pooled else {}
    static = subject not in RESIDUAL and all(cell.static_mj is not None for cell in cells)
    if static and pooled:
        found["roofline-floor"] = partial(bounded, rates=rates, mixed=fields)
    if static and pooled and rates and subject != WHOLE:
        found["roofline-board-rates"] = partial(board_rates, rates=rates, mixed=fields)
    if any(cell.flops for cell in cells):
        found["two-term"] = partial(two_term, mixed=fields)
    else:
        found["two-term-in-bytes"] = partial(by_bytes, mixed=fields)
    if static and not pooled:
        found["roofline-floor"] = partial(roofline, mixed=fields)
    return found


def remembering(fit: Fitter) -> Fitter:
    """Return the fit with a memory, since choosing and judging a law leave out the same cells."""
    known: dict[tuple[Cell, ...], Law | NoLaw] = {}

    def remembered(cells: Sequence[Cell]) -> Law | NoLaw:
        key = tuple(cells)
        if key not in known:
            known[key] = fit(cells)
        return known[key]

    return remembered


def way_of(cells: Sequence[Cell], *, new_model: bool) -> By:
    """Return by what cells are left out: by model for a model that was not measured, else by length or batch.

    Lengths, or else batches, where there are three, so that two are left to fit; else single cells.
    """
    ways: tuple[tuple[By, int], ...] = (("model", 2 if new_model else 1 << 30), ("length", 3), ("batch", 3))
    return next((by for by, least in ways if len({KEYS[by](cell) for cell in cells}) >= least), "cell")


def errors_beside(held_out: HeldOut, prediction: Prediction) -> tuple[Errors, str]:
    """Return the errors of left-out cells that lay as the prediction does, inside or outside; else of all."""
    beyond = prediction.extrapolated
    errors = held_out.beyond if beyond else held_out.within
    if errors.cells:
        return errors, "outside" if beyond else "inside"
    return errors_of(held_out.cells), "all"


def fitter_by_subject(chosen: Mapping[str, Chosen]) -> Fitter:
    """Return one fit for cells of any of some subjects: that of the law which was chosen for it."""

    def fit(cells: Sequence[Cell]) -> Law | NoLaw:
        return chosen[cells[0].subject].fit(cells)

    return fit

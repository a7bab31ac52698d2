"""All laws that one subject's cells may follow, each judged by cells that were left out of it, in all ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from energyscope.scaling.cell import Cell
from energyscope.scaling.choosing import fits, remembering, way_of
from energyscope.scaling.heldout import KEYS, By, Fitter, HeldOut, best_of, leave_out
from energyscope.scaling.prediction import Law, LawName, NoLaw


@dataclass(frozen=True)
class Judged:
    """The laws of one subject by name, those that its cells give and those that they do not.

    ``held_out`` holds for each law and each way of leaving out what became of it. ``best`` is the law with the
    least median error of cells left out by ``by``; None where no law could be judged. ``nested`` holds by way what
    became of cells that took no part in choosing the law either.
    """

    laws: Mapping[LawName, Law | NoLaw]
    held_out: Mapping[tuple[LawName, By], HeldOut] = field(default_factory=dict)
    by: By | None = None
    best: LawName | None = None
    nested: Mapping[By, HeldOut] = field(default_factory=dict)


def judge(cells: Sequence[Cell]) -> Judged:
    """Fit and judge all laws that a subject's cells, alike in all but their shapes, may follow.

    Raises:
        UsageError: the cells differ in more than their shapes.

    """
    known = {name: remembering(fit) for name, fit in fits(cells).items()}
    laws = {name: fit(cells) for name, fit in known.items()}
    ways = ways_of(cells)
    if not ways:
        return Judged(laws)
    told = {name: known[name] for name, law in laws.items() if not isinstance(law, NoLaw)}
    held_out = {(name, by): leave_out(cells, fit, by) for name, fit in told.items() for by in ways}
    main = _main(cells, ways)
    judged = {name: fit for name, fit in told.items() if held_out[name, main].cells}
    if not judged:
        return Judged(laws, held_out, main)
    nested = {by: leave_out(cells, chosen_among(judged), by) for by in ways}
    return Judged(laws, held_out, main, best_of(cells, judged, main), nested)


def chosen_among(known: Mapping[LawName, Fitter]) -> Fitter:
    """Return a fit that takes the best law of the cells that it is given, judged by leaving some of these out.

    So the error of a cell that it has not seen is not made smaller by the choice (M. Stone, Journal of the Royal
    Statistical Society B 36 (1974), 111-147).
    """

    def fit(cells: Sequence[Cell]) -> Law | NoLaw:
        laws = {name: one(cells) for name, one in known.items()}
        told = {name: known[name] for name, law in laws.items() if not isinstance(law, NoLaw)}
        if not told:
            return next(iter(laws.values()))
        best = best_of(cells, told, way_of(cells, new_model=False))
        return laws[next(iter(told)) if best is None else best]

    return fit


def ways_of(cells: Sequence[Cell]) -> list[By]:
    """Return the ways in which cells can be left out and others be kept, without ways that come to the same.

    Single cells are left out only where there are fewer than three lengths and three batches.
    """
    count = {by: len({KEYS[by](cell) for cell in cells}) for by in ("length", "batch", "cell")}
    ways: list[By] = [by for by in ("length", "batch") if count[by] > 1]
    alone = way_of(cells, new_model=False) == "cell" and count["cell"] > max(count["length"], count["batch"])
    return [*ways, "cell"] if alone else ways


def _main(cells: Sequence[Cell], ways: Sequence[By]) -> By:
    """Return the way by which laws are chosen, as `energyscope predict` does."""
    way = way_of(cells, new_model=False)
    return way if way in ways else ways[0]

"""All laws that one subject's cells may follow, each judged by cells that were left out of it, in all ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from energyscope.scaling.cell import Cell
from energyscope.scaling.choosing import ROOFLINE, fits, remembering, way_of
from energyscope.scaling.heldout import KEYS, By, HeldOut, best_of, leave_out
from energyscope.scaling.prediction import Law, NoLaw

NAMES = {ROOFLINE: "roofline (floor)"}  # of laws that could not be fitted: the others have a name of their own


@dataclass(frozen=True)
class Judged:
    """The laws of one subject by name, those that its cells give and those that they do not.

    ``held_out`` holds for each law and each way of leaving out what became of it. ``best`` is the law with the
    least median error of cells left out by ``by``; None where no law could be judged.
    """

    laws: Mapping[str, Law | NoLaw]
    held_out: Mapping[tuple[str, By], HeldOut] = field(default_factory=dict)
    by: By | None = None
    best: str | None = None

    def law(self, name: str) -> Law | NoLaw:
        """Return a law, or the reason why there is none."""
        return self.laws.get(name) or NoLaw("", "not a law of this subject")


def judge(cells: Sequence[Cell]) -> Judged:
    """Fit and judge all laws that a subject's cells, alike in all but their shapes, may follow.

    Raises:
        UsageError: the cells differ in more than their shapes.

    """
    known = {name: remembering(fit) for name, fit in fits(cells).items()}
    fitted = {name: fit(cells) for name, fit in known.items()}
    names = {name: getattr(law, "name", NAMES.get(name, name)) for name, law in fitted.items()}
    laws = {names[name]: law for name, law in fitted.items()}
    ways = ways_of(cells)
    if not ways:
        return Judged(laws)
    told = {names[name]: known[name] for name, law in fitted.items() if not isinstance(law, NoLaw)}
    held_out = {(name, by): leave_out(cells, fit, by) for name, fit in told.items() for by in ways}
    main = _main(cells, ways)
    judged = {name: fit for name, fit in told.items() if held_out[name, main].cells}
    return Judged(laws, held_out, main, best_of(cells, judged, main) if judged else None)


def ways_of(cells: Sequence[Cell]) -> list[By]:
    """Return the ways in which cells can be left out and others be kept, without ways that come to the same."""
    count = {by: len({KEYS[by](cell) for cell in cells}) for by in ("length", "batch", "cell")}
    ways: list[By] = [by for by in ("length", "batch") if count[by] > 1]
    return [*ways, "cell"] if count["cell"] > max(count["length"], count["batch"]) else ways


def _main(cells: Sequence[Cell], ways: Sequence[By]) -> By:
    """Return the way by which laws are chosen, as `energyscope predict` does."""
    way = way_of(cells, new_model=False)
    return way if way in ways else ways[0]

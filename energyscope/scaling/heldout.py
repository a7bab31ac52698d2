"""Held-out error: cells are left out by length, batch, shape or model, foretold from the others, and compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal, TypeVar

from energyscope.intervals import Interval
from energyscope.reasons import Reason, join, reason
from energyscope.scaling.cell import Cell
from energyscope.scaling.prediction import Law, NoLaw, Prediction
from energyscope.scaling.whole import of_part, summed

Name = TypeVar("Name", bound=str)
By = Literal["length", "batch", "cell", "model"]
Fitter = Callable[[Sequence[Cell]], Law | NoLaw]

KEYS: dict[By, Callable[[Cell], Hashable]] = {
    "length": lambda cell: cell.tokens,
    "batch": lambda cell: cell.batch_size,
    "cell": lambda cell: (cell.model, cell.batch_size, cell.tokens),
    "model": lambda cell: cell.model,
}
SAME_SCENE = ("phase", "precision", "execution", "board", "meter", "method", "model", "batch_size", "tokens")


@dataclass(frozen=True)
class Foretold:
    """A left-out cell and what the law of the others said of it.

    ``error`` is (predicted - measured) / measured. ``inside`` tells whether the measured energy lies within the
    prediction interval, None where there is none.
    """

    cell: Cell
    prediction: Prediction

    @property
    def error(self) -> float:
        return self.prediction.energy_mj.value / self.cell.energy_mj - 1

    @property
    def inside(self) -> bool | None:
        energy = self.prediction.energy_mj
        return not energy.excludes(self.cell.energy_mj) if energy.known else None


@dataclass(frozen=True)
class Errors:
    """Of some left-out cells: absolute relative errors, and how many of those with an interval lay inside it."""

    cells: int
    median: float | None
    largest: float | None
    with_interval: int
    inside: int


@dataclass(frozen=True)
class HeldOut:
    """Cells left out by ``by`` in ``folds`` groups.

    ``failed`` says of which groups the others gave no law, and why; ``reason`` says why nothing could be left out.
    """

    by: By
    folds: int
    cells: tuple[Foretold, ...]
    failed: tuple[Reason, ...] = ()
    reason: str | None = None

    @property
    def within(self) -> Errors:
        """Errors of cells inside the range of the others."""
        return errors_of(one for one in self.cells if not one.prediction.extrapolated)

    @property
    def beyond(self) -> Errors:
        """Errors of cells outside of it: extrapolation."""
        return errors_of(one for one in self.cells if one.prediction.extrapolated)


def leave_out(cells: Sequence[Cell], fit: Fitter, by: By) -> HeldOut:
    """Leave out each group of one subject's cells in turn and foretell it from the others.

    ``fit`` is a law's fit, such as `two_term`; its UsageError for cells that are not alike is passed on.
    """
    groups = _groups(cells, by)
    if len(groups) < 2:
        return HeldOut(by, len(groups), (), reason=reason("single-group", by=by))
    found: list[Foretold] = []
    failed = []
    for key in groups:
        law = fit([cell for cell in cells if KEYS[by](cell) != key])
        if isinstance(law, NoLaw):
            failed.append(reason("no-law-without", by=by, left_out=_said(key), why=law.reason))
        else:
            found += [Foretold(cell, law.predict(cell.shape)) for cell in groups[key]]
    return HeldOut(by, len(groups), tuple(found), tuple(failed))


def leave_out_of_sum(parts: Mapping[str, Sequence[Cell]], whole: Sequence[Cell], fit: Fitter, by: By) -> HeldOut:
    """Foretell the whole's left-out cells as sums over its parts, each fitted without them.

    ``parts`` are cells by subject, subjects that do not overlap. A whole cell whose scene a part lacks is left
    untold.
    """
    held = {name: leave_out(cells, fit, by) for name, cells in parts.items()}
    told = {name: {scene(one.cell): one.prediction for one in part.cells} for name, part in held.items()}
    found = []
    for cell in whole:
        predictions = [part.get(scene(cell)) for part in told.values()]
        known = [prediction for prediction in predictions if prediction is not None]
        if known and len(known) == len(predictions):
            found.append(Foretold(cell, summed(known, cell.subject)))
    failed = tuple(of_part(name, why) for name, part in held.items() for why in part.failed)
    reasons = [of_part(name, part.reason) for name, part in held.items() if part.reason]
    folds = max((part.folds for part in held.values()), default=0)
    return HeldOut(by, folds, tuple(found), failed, join(reasons) or None)


def best_of(cells: Sequence[Cell], fits: Mapping[Name, Fitter], by: By) -> Name | None:
    """Return the name of the fit with the least median error (`best_held`), None where none could be judged."""
    return best_held({name: leave_out(cells, fit, by) for name, fit in fits.items()})


def best_held(held: Mapping[Name, HeldOut]) -> Name | None:
    """Return the name of the fit that foretold the same left-out cells with the least median error, None of none.

    Each fit is judged on the cells that all of them foretold, whether extrapolated or not. By model, the median
    of the model that it foretells worst counts: that is mostly the smallest or the largest, which lies outside of
    the others as a new model may.
    """
    told = {name: {one.cell: one for one in one_held.cells} for name, one_held in held.items()}
    common = list(set.intersection(*(set(found) for found in told.values()))) if told else []
    by_model = any(one.by == "model" for one in held.values())
    groups = list(_groups(common, "model").values()) if by_model else [common]
    errors = {name: _worst_median(found, groups) for name, found in told.items()}
    known = {name: error for name, error in errors.items() if error is not None}
    return min(known, key=lambda name: known[name]) if known else None


def _worst_median(told: Mapping[Cell, Foretold], groups: Iterable[Iterable[Cell]]) -> float | None:
    medians = [errors_of(told[cell] for cell in group).median for group in groups]
    return max((one for one in medians if one is not None), default=None)


def errors_of(cells: Iterable[Foretold]) -> Errors:
    """Sum up some left-out cells, of one subject or of several."""
    known = list(cells)
    sizes = [abs(one.error) for one in known]
    judged = [one.inside for one in known if one.inside is not None]
    return Errors(len(known), median(sizes) if sizes else None, max(sizes, default=None), len(judged), sum(judged))


def scene(cell: Cell) -> tuple[object, ...]:
    """Return what two subjects of one measured scene have in common."""
    return tuple(getattr(cell, name) for name in SAME_SCENE)


def widened(prediction: Prediction, held_out: HeldOut) -> Prediction:
    """Return a prediction with an interval of energy that is no narrower than left-out cells were far off.

    The law's own interval takes the law for true. The half-width is at least the error that 95 % of the left-out
    cells stay within (with fewer than twenty of them: the largest), of extrapolated cells for an extrapolated
    prediction. Without such cells it stays as it is.
    """
    cells = [one for one in held_out.cells if one.prediction.extrapolated == prediction.extrapolated]
    errors = sorted(abs(one.error) for one in cells)
    if not errors:
        return prediction
    value, low, high = prediction.energy_mj.value, prediction.energy_mj.low, prediction.energy_mj.high
    half = errors[min(math.ceil(0.95 * (len(errors) + 1)), len(errors)) - 1] * abs(value)
    down = value - half if low is None else min(low, value - half)
    up = value + half if high is None else max(high, value + half)
    return replace(prediction, energy_mj=Interval(value, down, up))


def _groups(cells: Sequence[Cell], by: By) -> dict[Hashable, list[Cell]]:
    found: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        found.setdefault(KEYS[by](cell), []).append(cell)
    return found


def _said(key: Hashable) -> str:
    return " x ".join(str(part) for part in key) if isinstance(key, tuple) else str(key)

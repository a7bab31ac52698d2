"""Held-out error: cells are left out by length, batch, shape or model, predicted from the others, and compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from energyscope.grouping import group_by
from energyscope.intervals import Interval
from energyscope.reasons import Reason, join, reason
from energyscope.scaling.cells import Cell
from energyscope.scaling.fit import Fitter
from energyscope.scaling.law import LawName, NoLaw, Prediction, of_part, sum_of_parts
from energyscope.scaling.time_law import pass_of

By = Literal["length", "batch", "cell", "model"]

KEYS: dict[By, Callable[[Cell], Hashable]] = {
    "length": lambda cell: cell.tokens,
    "batch": lambda cell: cell.batch_size,
    "cell": lambda cell: (cell.model, cell.batch_size, cell.tokens),
    "model": lambda cell: cell.model,
}
COVERED = 0.95  # of the left-out cells lie within a prediction's interval


@dataclass(frozen=True)
class LeftOut:
    """A left-out cell and what the law of the others said of it."""

    cell: Cell
    prediction: Prediction

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.prediction.energy_mj.value / self.cell.energy_mj - 1

    @property
    def inside(self) -> bool | None:
        """Whether the measured energy lies within the prediction interval, None where there is none."""
        energy = self.prediction.energy_mj
        return not energy.excludes(self.cell.energy_mj) if energy.known else None


@dataclass(frozen=True)
class HeldOutErrors:
    """Of some left-out cells: absolute relative errors, and how many of those with an interval lay inside it."""

    cells: int
    median: float | None
    largest: float | None
    with_interval: int
    inside: int

    @property
    def summary(self) -> dict[str, float | None]:
        """The errors as laws.json holds them."""
        return {"median": self.median, "worst": self.largest, "cells": self.cells}


@dataclass(frozen=True)
class HeldOut:
    """Cells left out by ``by`` in ``folds`` groups.

    ``failed`` says of which groups the others gave no law, and why; ``reason`` says why nothing could be left out.
    """

    by: By
    folds: int
    cells: tuple[LeftOut, ...]
    failed: tuple[Reason, ...] = ()
    reason: str | None = None

    @property
    def errors(self) -> HeldOutErrors:
        """Errors of all cells."""
        return errors_of(self.cells)

    def side(self, *, extrapolated: bool) -> list[LeftOut]:
        """Return the cells outside of the range of the others, or those inside."""
        return [pair for pair in self.cells if pair.prediction.extrapolated == extrapolated]


def errors_of(cells: Iterable[LeftOut]) -> HeldOutErrors:
    """Sum up some left-out cells, of one subject or of several."""
    cells = list(cells)
    sizes = [abs(pair.error) for pair in cells]
    inside = [pair.inside for pair in cells if pair.inside is not None]
    return HeldOutErrors(
        len(cells), median(sizes) if sizes else None, max(sizes, default=None), len(inside), sum(inside)
    )


def leave_out(cells: Sequence[Cell], fit: Fitter, by: By) -> HeldOut:
    """Leave out each group of one subject's cells in turn and predict it from the others.

    ``fit`` is any law's fit; its UsageError for cells that are not alike is passed on.
    """
    groups = group_by(cells, KEYS[by])
    if len(groups) < 2:
        return HeldOut(by, len(groups), (), reason=reason("single-group", by=by))
    predicted: list[LeftOut] = []
    failed = []
    for key, left_out in groups.items():
        law = fit([cell for cell in cells if KEYS[by](cell) != key])
        if isinstance(law, NoLaw):
            failed.append(reason("no-law-without", by=by, left_out=_name(key), why=law.reason))
        else:
            predicted += [LeftOut(cell, law.predict(cell)) for cell in left_out]
    return HeldOut(by, len(groups), tuple(predicted), tuple(failed))


def leave_out_of_sum(
    parts: Mapping[str, Sequence[Cell]], whole: Sequence[Cell], fits: Mapping[str, Fitter], by: By
) -> HeldOut:
    """Predict the whole's left-out cells as sums over its parts, each fitted without them.

    ``parts`` and ``fits`` are by subject, subjects that do not overlap. A cell of the whole of whose pass a part
    is missing is not predicted.
    """
    held = {part: leave_out(cells, fits[part], by) for part, cells in parts.items()}
    by_pass = [{pass_of(pair.cell): pair.prediction for pair in part.cells} for part in held.values()]
    sums = [
        LeftOut(cell, sum_of_parts([part[pass_of(cell)] for part in by_pass], cell.subject))
        for cell in whole
        if by_pass and all(pass_of(cell) in part for part in by_pass)
    ]
    failed = tuple(of_part(name, why) for name, part in held.items() for why in part.failed)
    reasons = [of_part(name, part.reason) for name, part in held.items() if part.reason]
    folds = max((part.folds for part in held.values()), default=0)
    return HeldOut(by, folds, tuple(sums), failed, join(reasons) or None)


def best_of(held: Mapping[LawName, HeldOut]) -> LawName | None:
    """Return the name of the law that predicted the same left-out cells with the least median error, None of none.

    Each law is evaluated on the cells that all of them predicted, whether extrapolated or not. By model, the
    median of the model that it predicts worst counts: that is mostly the smallest or the largest, which lies
    outside of the others as a new model may.
    """
    predicted = {name: {pair.cell: pair for pair in held_out.cells} for name, held_out in held.items()}
    common = list(set.intersection(*map(set, predicted.values()))) if predicted else []
    by_model = any(held_out.by == "model" for held_out in held.values())
    groups = list(group_by(common, KEYS["model"]).values()) if by_model else [common]
    errors = {name: _worst_median(cells, groups) for name, cells in predicted.items()}
    known = {name: error for name, error in errors.items() if error is not None}
    return min(known, key=known.__getitem__, default=None)


def widened(prediction: Prediction, held_out: HeldOut) -> Prediction:
    """Return a prediction with an interval of energy that is no narrower than left-out cells were far off.

    The law's own interval takes the law for true. The half-width is at least the error that 95 % of the left-out
    cells stay within (with fewer than twenty of them: the largest), of extrapolated cells for an extrapolated
    prediction. Without such cells it stays as it is.
    """
    errors = sorted(abs(pair.error) for pair in held_out.side(extrapolated=prediction.extrapolated))
    if not errors:
        return prediction
    value, low, high = prediction.energy_mj.value, prediction.energy_mj.low, prediction.energy_mj.high
    half = errors[min(math.ceil(COVERED * (len(errors) + 1)), len(errors)) - 1] * abs(value)
    down = value - half if low is None else min(low, value - half)
    up = value + half if high is None else max(high, value + half)
    return replace(prediction, energy_mj=Interval(value, down, up))


def errors_beside(held_out: HeldOut, prediction: Prediction) -> tuple[HeldOutErrors, str]:
    """Return the errors of left-out cells that lay as the prediction does, inside or outside; else of all."""
    beside = held_out.side(extrapolated=prediction.extrapolated)
    if beside:
        return errors_of(beside), "outside" if prediction.extrapolated else "inside"
    return held_out.errors, "all"


def _worst_median(predicted: Mapping[Cell, LeftOut], groups: Iterable[Iterable[Cell]]) -> float | None:
    medians = [errors_of(predicted[cell] for cell in group).median for group in groups]
    return max((error for error in medians if error is not None), default=None)


def _name(key: Hashable) -> str:
    return " x ".join(str(part) for part in key) if isinstance(key, tuple) else str(key)

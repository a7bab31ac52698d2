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
    """Cells left out by ``by``.

    ``failed`` says of which groups the others gave no law, and why; ``reason`` says why nothing could be left out.
    """

    by: By
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
        return HeldOut(by, (), reason=reason("single-group", by=by))
    predicted: list[LeftOut] = []
    failed = []
    for key, left_out in groups.items():
        law = fit([cell for cell in cells if KEYS[by](cell) != key])
        if isinstance(law, NoLaw):
            name = " x ".join(map(str, key)) if isinstance(key, tuple) else str(key)
            failed.append(reason("no-law-without", by=by, left_out=name, why=law.reason))
        else:
            predicted += [LeftOut(cell, law.predict(cell)) for cell in left_out]
    return HeldOut(by, tuple(predicted), tuple(failed))


def leave_out_of_sum(
    parts: Mapping[str, Sequence[Cell]], whole: Sequence[Cell], fits: Mapping[str, Fitter], by: By
) -> HeldOut:
    """Predict the whole's left-out cells as sums over its parts, each fitted without them.

    ``parts`` and ``fits`` are by subject, subjects that do not overlap. A cell of the whole of whose pass a part
    is missing is not predicted.
    """
    held_out = {part: leave_out(cells, fits[part], by) for part, cells in parts.items()}
    by_pass = [{pass_of(pair.cell): pair.prediction for pair in part.cells} for part in held_out.values()]
    sums = [
        LeftOut(cell, sum_of_parts([part[pass_of(cell)] for part in by_pass], cell.subject))
        for cell in whole
        if by_pass and all(pass_of(cell) in part for part in by_pass)
    ]
    failed = tuple(of_part(name, why) for name, part in held_out.items() for why in part.failed)
    reasons = [of_part(name, part.reason) for name, part in held_out.items() if part.reason]
    return HeldOut(by, tuple(sums), failed, join(reasons) or None)


def best_of(results: Mapping[LawName, HeldOut]) -> LawName | None:
    """Return the law that predicted the same left-out cells with the least median error; None where there is none.

    Each law is evaluated on the cells that all of them predicted, whether extrapolated or not. By model, the
    median of the model that it predicts worst counts: that is mostly the smallest or the largest, which lies
    outside of the others as a new model may.
    """
    predicted = {name: {pair.cell: pair for pair in held_out.cells} for name, held_out in results.items()}
    common = set.intersection(*map(set, predicted.values())) if predicted else set()
    if not common:
        return None
    by_model = any(held_out.by == "model" for held_out in results.values())
    groups = group_by(common, KEYS["model"]).values() if by_model else [common]
    worst = {
        name: max(median(abs(pairs[cell].error) for cell in group) for group in groups)
        for name, pairs in predicted.items()
    }
    return min(worst, key=worst.__getitem__)


def widened(prediction: Prediction, held_out: HeldOut) -> Prediction:
    """Return a prediction with an interval of energy that is no narrower than left-out cells were far off.

    The law's own interval takes the law for true. The half-width is at least the error that 95 % of the left-out
    cells stay within (with fewer than twenty of them: the largest), of extrapolated cells for an extrapolated
    prediction. Without such cells it stays as it is.
    """
    errors = sorted(abs(pair.error) for pair in held_out.side(extrapolated=prediction.extrapolated))
    if not errors:
        return prediction
    energy = prediction.energy_mj
    half = errors[min(math.ceil(COVERED * (len(errors) + 1)), len(errors)) - 1] * abs(energy.value)
    low, high = energy.value - half, energy.value + half
    if energy.low is not None and energy.high is not None:
        low, high = min(low, energy.low), max(high, energy.high)
    return replace(prediction, energy_mj=Interval(energy.value, low, high))


def errors_beside(held_out: HeldOut, prediction: Prediction) -> tuple[HeldOutErrors, str]:
    """Return the errors of left-out cells that lay as the prediction does, inside or outside; else of all."""
    beside = held_out.side(extrapolated=prediction.extrapolated)
    if beside:
        return errors_of(beside), "outside" if prediction.extrapolated else "inside"
    return held_out.errors, "all"

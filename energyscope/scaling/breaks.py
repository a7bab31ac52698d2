"""Up to which cell, from the smallest upwards, the two-term law holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason
from energyscope.scaling.cell import FLOOR, Cell, check_alike, column, deviations
from energyscope.scaling.least_squares import weighted

TOLERANCE = 0.10
FEWEST = 3  # cells of a range: the two others of each must give a law


@dataclass(frozen=True)
class Reach:
    """The largest range from the smallest cell upwards in which the law foretells each cell from the others.

    ``within`` counts its cells (0: not even the first three), ``to_flops`` is its largest cell's FLOPs and
    ``first_beyond`` the first cell after it. ``errors`` (within,) are relative: (predicted - measured) / measured.
    ``holds`` is whether the range has all cells. ``reason`` says why nothing can be told.
    """

    tolerance: float
    holds: bool
    within: int
    to_flops: float | None
    first_beyond: Cell | None
    errors: tuple[float, ...]
    reason: Reason | None = None


def reach(cells: Sequence[Cell], *, tolerance: float = TOLERANCE, floor: float = FLOOR) -> Reach:
    """Find where the two-term law of one subject breaks, among cells of which order does not matter.

    A range holds if each of its cells is within ``tolerance`` of what the law fitted on the range's other cells
    says of it. The end cells are extrapolated by that.
    """
    check_alike(cells)
    ordered = sorted(cells, key=lambda cell: cell.flops)
    if len(ordered) < FEWEST:
        return Reach(tolerance, False, 0, None, None, (), reason("few-cells", cells=len(ordered), needed=FEWEST))
    for count in range(len(ordered), FEWEST - 1, -1):
        errors = left_out_errors(ordered[:count], floor)
        if errors is not None and np.all(np.abs(errors) <= tolerance):
            whole = count == len(ordered)
            beyond = None if whole else ordered[count]
            return Reach(tolerance, whole, count, ordered[count - 1].flops, beyond, tuple(errors.tolist()))
    return Reach(tolerance, False, 0, None, ordered[0], ())


def left_out_errors(cells: Sequence[Cell], floor: float = FLOOR) -> Array | None:
    """Return each cell's relative error when the law is fitted on the others, shape (cells,).

    Without a second fit: leaving a value out of a least-squares fit makes its residual 1 / (1 - leverage) times as
    large (D. M. Allen, Technometrics 16, 1974). None where the cells, or all but one, have the same FLOPs.
    """
    flops, energy = column(cells, "flops"), column(cells, "energy_mj")
    fit = weighted(np.column_stack([np.ones(len(cells)), flops]), energy, deviations(cells, floor))
    if fit is None:
        return None
    rest = 1 - np.array(fit.leverages)
    if np.any(rest < 1e-9):
        return None
    result: Array = -np.array(fit.residuals) / rest / energy
    return result
